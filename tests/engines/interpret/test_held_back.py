"""Objects that are held back on purpose are healthy, and unhealthy if something has failed or is missing: all kinds."""

from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from fleethook.engines.interpret.conventions.health_and_aggregated_status import HealthRule
from fleethook.engines.interpret.interpreter_chain import Chain
from fleethook.engines.interpret.lua.bundled_and_crossplane_kinds import BundleLayer, load_bundle, read_bundle
from fleethook.engines.interpret.lua.script_layer_and_runner import Runner
from fleethook.engines.interpret.native.native_kinds import NATIVE, NativeLayer
from fleethook.interpret.interpreter import Question
from fleethook.model.gvk import GroupVersionKind
from fleethook.model.karmada import Operation
from fleethook.patch import merge_patch, parse_pointer

_TABLE: Final = yaml.safe_load((Path(__file__).parent / "held_back.yaml").read_text("utf-8"))
_SCRIPTED: Final = {kind for kind, operation in load_bundle().rules if operation is Operation.HEALTH}
KINDS: Final = {
    f"{kind.group}/{kind.kind}": kind
    for kind in sorted(_SCRIPTED | {kind for kind, rules in NATIVE.items() if Operation.HEALTH in rules})
}
CONVENTIONAL: Final = [
    (kind, found.conventions.health)
    for found in read_bundle()
    if found.conventions is not None and Operation.HEALTH in found.conventions.answered
    for kind in sorted(found.kinds - _SCRIPTED)
]


def unobserved(*_: Any) -> None:
    return


@pytest.fixture(scope="module")
def chain() -> Chain:
    return Chain([BundleLayer(Runner(), observe=unobserved), NativeLayer()])


async def is_healthy(chain: Chain, kind: GroupVersionKind, patch: Any) -> bool | None:
    document = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "x", "generation": 2}}
    document = merge_patch(document, patch)
    return (await chain.answer(Question(Operation.HEALTH, kind, document))).answer.healthy


def test_table_has_every_rule_of_health() -> None:
    """Kinds that share a script are one rule."""
    named = [*_TABLE["kinds"], *_TABLE["never"]]
    scripted = [
        kind for kind in read_bundle() if any(rule.function.operation is Operation.HEALTH for rule in kind.rules)
    ]
    rules = [{f"{rule.kind.group}/{rule.kind.kind}" for rule in kind.rules} for kind in scripted]
    rules += [{f"{kind.group}/{kind.kind}"} for kind in NATIVE if Operation.HEALTH in NATIVE[kind]]
    missing = [rule for rule in rules if not rule & set(named)]
    assert missing == [], "add a kind to tests/engines/interpret/held_back.yaml: how can its spec hold it back?"
    assert [name for name in named if name not in KINDS or named.count(name) > 1] == []


@pytest.mark.parametrize("name", list(_TABLE["kinds"]))
async def test_held_back_object_is_healthy_unless_something_fails_or_is_missing(chain: Chain, name: str) -> None:
    kind: GroupVersionKind = KINDS[name]
    for case in _TABLE["kinds"][name]:
        held = {member: value for member, value in case.items() if member != "unhealthy"}
        assert await is_healthy(chain, kind, held) is True, held
        for patch in case["unhealthy"]:
            assert await is_healthy(chain, kind, merge_patch(held, patch)) is False, patch


@pytest.mark.parametrize(("kind", "rule"), CONVENTIONAL, ids=[f"{kind.group}/{kind.kind}" for kind, _ in CONVENTIONAL])
async def test_suspended_object_without_script_is_healthy_unless_it_fails(
    chain: Chain, kind: GroupVersionKind, rule: HealthRule
) -> None:
    for pointer in ("/spec/suspend", *rule.paused):
        held: Any = True
        for name in reversed(parse_pointer(pointer)):
            held = {name: held}
        assert await is_healthy(chain, kind, held) is True, pointer
        failed = {"status": {"conditions": [{"type": "Stalled", "status": "True"}]}}
        assert await is_healthy(chain, kind, {**held, **failed}) is False, pointer
