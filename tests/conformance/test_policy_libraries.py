"""The rules of examples/policies decide as kopf and Kyverno did with the same rules (policy_libraries.yaml)."""

from typing import Any

import pytest
import yaml

from fleethook.admission.decorators_and_files import load_rules
from fleethook.admission.rule_in_tests import Review
from fleethook.engines.rules.rule_fixtures import read_rule_fixtures
from fleethook.patch import apply, merge_patch
from tests.conformance.policy_libraries import TOOLS, PodCase, UpdateCase, load_cases, load_updates
from tests.serving import EXAMPLES

CASES = load_cases()
UPDATES = load_updates()
POLICIES = EXAMPLES / "policies"
RULES = load_rules([POLICIES / "rules.py"])


def describe_refusal(rule: str, review: Review) -> dict[str, Any]:
    return {"code": review.code, "webhook": f"{rule}.rules.fleethook.io", "message": review.message}


def add_requests(container: dict[str, Any]) -> dict[str, Any]:
    resources = container.get("resources", {})
    requests = {"requests": resources.get("limits", {}) | resources.get("requests", {})}
    return container | {"resources": resources | (requests if "limits" in resources else {})}


def decide(pod: dict[str, Any]) -> dict[str, Any]:
    """Return the answer of the rules in the form of the file."""
    # kube-apiserver sets defaults before it calls webhooks.
    containers = [add_requests(one) for one in pod["spec"]["containers"]]
    pod = {**pod, "spec": {"securityContext": {}, **merge_patch(pod["spec"], {}), "containers": containers}}
    patch: list[Any] = []
    for rule in RULES:
        review = rule.review(pod)
        if not review.allowed:
            return describe_refusal(rule.name, review)
        patch += review.patch
        pod = apply(pod, review.patch)
    return {"code": 201, "patch": patch}


def decide_update(case: UpdateCase) -> dict[str, Any]:
    """Return the answer of the rules to a change in the form of the file."""
    stored = merge_patch(
        case.stored, {"metadata": {"deletionTimestamp": "2026-11-27T07:00:00Z" if case.is_deleted else None}}
    )
    changed = merge_patch(stored, case.change)
    for rule in RULES:
        review = rule.review(changed, operation="UPDATE", old=stored, subresource=case.subresource)
        if not review.allowed:
            return describe_refusal(rule.name, review)
    return {"code": 200}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_rules_decide_as_on_the_apiserver(case: PodCase) -> None:
    assert decide(case.pod) == case.answers["fleethook"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("tool", ["kopf", "kyverno"])
def test_another_tool_has_the_same_verdict_and_patch(case: PodCase, tool: str) -> None:
    found, expected = decide(case.pod), case.answers[tool]
    assert (found["code"] == 201, found.get("patch")) == (expected["code"] == 201, expected.get("patch"))


@pytest.mark.parametrize("case", UPDATES, ids=lambda case: case.name)
def test_the_rules_decide_about_changes_as_on_the_apiserver(case: UpdateCase) -> None:
    found = decide_update(case)
    assert found == case.answers["fleethook"]
    admitted = {tool for tool, answer in case.answers.items() if answer["code"] == 200}
    assert admitted ^ (set(TOOLS) if found["code"] == 200 else set()) == set(case.differs)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_same_rule_refuses_in_another_tool(case: PodCase) -> None:
    found = decide(case.pod)
    if found["code"] != 201:
        kopf, kyverno = case.answers["kopf"], case.answers["kyverno"]
        rule = found["webhook"].partition(".")[0]
        assert (kopf["webhook"].partition(".")[0], kopf["message"]) == (rule, found["message"])
        assert kyverno["message"].startswith(f"Policy {rule} failed: ")


def test_the_objects_of_the_fixtures_are_among_the_recorded_pods() -> None:
    document = yaml.safe_load((POLICIES / "testdata" / "rules_test.yaml").read_text())
    pods = [fixture.document for _, fixture in read_rule_fixtures(document)]
    known = [{**case.pod, "metadata": {**case.pod["metadata"], "namespace": "shop"}} for case in CASES]
    assert len(pods) == 8
    assert [pod for pod in pods if pod not in known] == []
