"""Karmada's own fixtures of well-known kinds, answered by the bundle; each passes or is a documented difference."""

from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from fleethook.cluster.manifests.yaml_decoding_and_lines import read_values
from fleethook.engines.interpret.interpreter_chain import Chain
from fleethook.engines.interpret.interpreter_fixtures import Fixture, compare_answer, read_fixtures
from fleethook.engines.interpret.lua.bundled_and_crossplane_kinds import BundleLayer
from fleethook.engines.interpret.lua.script_layer_and_runner import Runner

_FIXTURES: Final = Path(__file__).parent / "karmada" / "thirdparty"
_DIFFERENCES: Final = yaml.safe_load((Path(__file__).parent / "karmada" / "differences.yaml").read_text("utf-8"))
EXCEPTIONS: Final = {
    (row["kind"], row["operation"], name) for row in _DIFFERENCES for name in row.get("fixtures", ())
}  # fmt: skip
CASES: Final = [
    (path.parent.name, case)
    for path in sorted(_FIXTURES.rglob("*.yaml"))
    for value in read_values(path.read_text("utf-8"), source=path.name)
    for case in read_fixtures(value.value)
]


@pytest.fixture(scope="module")
def chain() -> Chain:
    def unobserved(*_: Any) -> None:
        return

    return Chain([BundleLayer(Runner(), observe=unobserved)])


@pytest.mark.parametrize(
    ("kind", "case"), CASES, ids=[f"{kind}-{case.question.operation}-{case.name}" for kind, case in CASES]
)
async def test_an_answer_is_karmadas_or_a_documented_difference(chain: Chain, kind: str, case: Fixture) -> None:
    answer = (await chain.answer(case.question)).answer
    differing = list(compare_answer(case, answer))
    if (kind, str(case.question.operation), case.name) in EXCEPTIONS:
        assert differing, "it is Karmada's answer now: take it out of tests/conformance/karmada/differences.yaml"
    else:
        assert differing == []


def test_every_exception_is_a_fixture() -> None:
    assert {(kind, str(case.question.operation), case.name) for kind, case in CASES} >= EXCEPTIONS
    assert len(EXCEPTIONS) <= len(CASES) * 7 // 100, "at least 93 % are to be Karmada's answers"
