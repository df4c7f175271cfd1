"""matchConditions, with the cases of Kubernetes."""

from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from fleethook.cel.program import Activation
from fleethook.engines.dispatch.lint.configuration_validation import condition_problems
from fleethook.engines.dispatch.match.match_conditions import ConditionsVerdict, evaluate_conditions
from fleethook.engines.dispatch.webhooks.webhook_defaults_and_compilation import MatchCondition

SUITES: Final = yaml.safe_load((Path(__file__).parent / "dispatch_conditions.yaml").read_text())["suites"]
# kube-apiserver asks its authorizer. fleethook answers such conditions with an error, as kcp does.
INTEGRATION: Final = [
    case
    for case in SUITES["match_conditions_integration"]["cases"]
    if not any("authorizer" in one["expression"] for one in case["conditions"])
]


def case_id(case: dict[str, Any]) -> str:
    return f"{case['id']} {case.get('name', '')}"


def pod(namespace: str, name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": namespace, "name": name}}


def request(namespace: str, name: str) -> dict[str, Any]:
    return {
        "uid": "1",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": namespace,
        "name": name,
        "operation": "CREATE",
        "userInfo": {"username": "system:admin", "groups": ["system:masters"]},
        "dryRun": True,
    }


def evaluate(conditions: list[MatchCondition], where: str, *, fail_open: bool) -> ConditionsVerdict:
    namespace, name = where.split("/")
    scope = Activation(object_=pod(namespace, name), old_object=None, request=request(namespace, name))
    return evaluate_conditions(conditions, scope, fail_open=fail_open)


@pytest.mark.parametrize("case", SUITES["match_conditions_unit"], ids=case_id)
def test_conditions_match_as_in_the_matcher_of_an_apiserver(case: dict[str, Any]) -> None:
    # The upstream test replaces expressions by results; an error of its evaluator is an error of every condition.
    texts = {"true": "true", "false": "false"}
    evaluations = ["error:test error"] if case["evaluatorThrows"] else case["evaluations"]
    names = case["names"] or ["test"] * len(evaluations)
    conditions = [
        MatchCondition(name, texts.get(evaluation, "{'test error': true}['no ' + 'test error']"))
        for name, evaluation in zip(names, evaluations, strict=True)
    ]
    scope = Activation(object_=pod("default", "a"), old_object=None, request=request("default", "a"))

    verdict = evaluate_conditions(conditions, scope, fail_open=case["failurePolicy"] == "Ignore")

    expect = case["expect"]
    assert verdict.matched == expect.get("match", False)
    assert verdict.failed == expect.get("failedCondition", "")
    assert bool(verdict.errors) == ("errorContains" in expect)
    assert all(expect["errorContains"] in error for error in verdict.errors)


@pytest.mark.parametrize("case", INTEGRATION, ids=case_id)
def test_webhooks_are_called_for_the_pods_that_meet_the_conditions(case: dict[str, Any]) -> None:
    conditions = [MatchCondition(entry["name"], entry["expression"]) for entry in case["conditions"]]
    fail_open = case.get("failurePolicy") == "Ignore"

    verdicts = {where: evaluate(conditions, where, fail_open=fail_open) for where in case["pods"]}

    expect = case["expect"]
    assert [where for where, verdict in verdicts.items() if verdict.matched] == expect["calledFor"]
    for verdict in verdicts.values():
        assert bool(verdict.errors) == expect["error"]
        assert all(expect.get("errorContains", "") in error for error in verdict.errors)


@pytest.mark.parametrize("case", SUITES["match_conditions_validation"], ids=case_id)
def test_conditions_are_refused_as_an_apiserver_refuses_them(case: dict[str, Any]) -> None:
    generate = case.get("generate")
    conditions = case.get("conditions") or [
        {"name": generate["name"] % number, "expression": generate["expression"]} for number in range(generate["count"])
    ]

    problems = list(condition_problems(conditions, "matchConditions"))

    assert bool(problems) == case["expectInvalid"], problems
