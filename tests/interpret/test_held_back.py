"""Objects that are held back on purpose are healthy, and unhealthy if something has failed or is missing: all kinds."""

from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from app.interpret.chain import Chain, NativeLayer
from app.interpret.lua.bundle import load_bundle_rules
from app.interpret.lua.layer import LuaLayer
from app.interpret.lua.runner import Runner
from app.interpret.native import NATIVE
from app.interpret.question import Question
from app.model.gvk import GroupVersionKind
from app.model.karmada import Operation
from app.patch import merge_patch

_TABLE: Final = yaml.safe_load((Path(__file__).parent / "held_back.yaml").read_text("utf-8"))
_BUNDLED: Final = {kind for kind, operation in load_bundle_rules() if operation is Operation.HEALTH}
KINDS: Final = {
    f"{kind.group}/{kind.kind}": kind
    for kind in sorted(_BUNDLED | {kind for kind, rules in NATIVE.items() if Operation.HEALTH in rules})
}


def unobserved(*_: Any) -> None:
    return


@pytest.fixture(scope="module")
def chain() -> Chain:
    return Chain([LuaLayer("bundle", load_bundle_rules, Runner(), observe=unobserved), NativeLayer()])


def test_table_has_every_kind_with_a_health_rule() -> None:
    named = [*_TABLE["kinds"], *_TABLE["never"]]
    missing = sorted(KINDS.keys() - set(named))
    assert missing == [], "add the kind to tests/interpret/held_back.yaml: how can its spec hold it back?"
    assert sorted(named) == sorted(KINDS), "a kind that has no health rule, or a kind that is listed twice"


@pytest.mark.parametrize("name", list(_TABLE["kinds"]))
async def test_held_back_object_is_healthy_unless_something_fails_or_is_missing(chain: Chain, name: str) -> None:
    kind: GroupVersionKind = KINDS[name]
    for case in _TABLE["kinds"][name]:
        held = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "x", "generation": 2}}
        held = merge_patch(held, {member: value for member, value in case.items() if member != "unhealthy"})
        for document, expected in [(held, True), *((merge_patch(held, patch), False) for patch in case["unhealthy"])]:
            answer = (await chain.answer(Question(Operation.HEALTH, kind, document))).answer
            assert answer.healthy is expected, document
