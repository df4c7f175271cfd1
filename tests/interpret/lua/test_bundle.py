"""Every rule of the bundle with its fixtures and with empty objects."""

from typing import Any

import pytest

from app.interpret.chain import Chain
from app.interpret.fixtures import Fixture, compare_answer
from app.interpret.lua.bundle import BundledKind, load_bundle_rules, read_bundle
from app.interpret.lua.layer import LuaLayer
from app.interpret.lua.rules import Rule, list_findings
from app.interpret.lua.runner import Runner
from app.interpret.question import Question
from app.model.karmada import Operation

KINDS = list(read_bundle())
CASES = [(kind.folder, case) for kind in KINDS for case in kind.cases()]
RULES = [rule for kind in KINDS for rule in kind.rules]


def unobserved(*_: Any) -> None:
    return


@pytest.fixture(scope="module")
def chain() -> Chain:
    return Chain([LuaLayer("bundle", load_bundle_rules, Runner(), observe=unobserved)])


@pytest.mark.parametrize(
    ("folder", "case"), CASES, ids=[f"{folder}-{case.question.operation}-{case.name}" for folder, case in CASES]
)
async def test_fixture(chain: Chain, folder: str, case: Fixture) -> None:
    assert case.question.kind in {rule.kind for kind in KINDS if kind.folder == folder for rule in kind.rules}
    explained = await chain.answer(case.question)
    assert list(compare_answer(case, explained.answer)) == []


@pytest.mark.parametrize("kind", KINDS, ids=[kind.folder for kind in KINDS])
def test_every_rule_has_a_fixture(kind: BundledKind) -> None:
    assert {rule.function.operation for rule in kind.rules} == {case.question.operation for case in kind.cases()}
    for rule in kind.rules:
        assert list(list_findings(rule)) == []


@pytest.mark.parametrize("kind", KINDS, ids=[kind.folder for kind in KINDS])
async def test_aggregating_again_changes_nothing(chain: Chain, kind: BundledKind) -> None:
    for case in kind.cases():
        if case.question.operation is Operation.AGGREGATE_STATUS:
            once = (await chain.answer(case.question)).answer.object
            assert once is not None
            assert (await chain.answer(case.question._replace(object=once))).answer.object == once


# The CRDs of the kinds require spec.
MINIMAL: list[dict[str, Any]] = [{"spec": {}}, {"spec": {}, "status": {}}, {"spec": {}, "status": {"conditions": []}}]


@pytest.mark.parametrize(
    "rule", RULES, ids=[f"{rule.source}-{rule.kind.version}-{rule.function.member}" for rule in RULES]
)
async def test_empty_object_is_answered(chain: Chain, rule: Rule) -> None:
    for rest in MINIMAL:
        document = {"apiVersion": rule.kind.api_version, "kind": rule.kind.kind, "metadata": {"name": "x"}, **rest}
        operation = rule.function.operation
        for items in ([], [{"clusterName": "a"}], [{"clusterName": "a", "status": {}}]):
            question = Question(operation, rule.kind, document, document, 1, items)
            answer = (await chain.answer(question)).answer
            if operation is Operation.HEALTH and "status" not in rest:
                assert answer.healthy in (True, False)
