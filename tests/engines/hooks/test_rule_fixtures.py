from pathlib import Path
from typing import Any

import pytest

from fleethook.admission.rule import Hook
from fleethook.admission.rules_file import load_rules
from fleethook.engines.hooks.rule_fixtures import RuleFixtureResult, read_rule_fixtures, run_rule_fixture
from fleethook.patch.fixture_tests import Difference, FixtureError
from tests.engines.hooks.test_hooks_server import RULES

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "n"}, "spec": {}}
SHOP = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "shop", "labels": {"owner": "ann"}}}
SECCOMP = {"securityContext": {"seccompProfile": {"type": "RuntimeDefault"}}}


@pytest.fixture
def rules(tmp_path: Path) -> tuple[Hook, ...]:
    (tmp_path / "rules.py").write_text(RULES)
    return load_rules([tmp_path / "rules.py"])


def run(rules: tuple[Hook, ...], **test: Any) -> RuleFixtureResult:
    document = {"objects": {"pod": POD, "shop": SHOP}, "tests": [test]}
    ((_, fixture),) = read_rule_fixtures(document)
    return run_rule_fixture(rules, fixture)


def test_the_answer_of_one_rule(rules: tuple[Hook, ...]) -> None:
    refused = {"allowed": False, "code": 403, "message": "metadata.labels: label `owner` is missing"}
    bare = {"from": "shop", "with": {"metadata": {"labels": None}}}
    assert run(rules, rule="needs-owner", object=bare, output=refused) == ("needs-owner", "", [])
    assert run(rules, rule="needs-owner", object="shop", output={"allowed": False}).differences == [
        Difference("allowed", False, True)
    ]


def test_a_patch_and_the_changed_object(rules: tuple[Hook, ...]) -> None:
    patch = [{"op": "add", "path": "/spec/securityContext", "value": SECCOMP["securityContext"]}]
    output = {"patch": patch, "object": {"from": "pod", "with": {"spec": SECCOMP}}}
    assert run(rules, rule="default-seccomp", object="pod", output=output).differences == []


def test_without_a_rule_all_are_asked_up_to_the_first_refusal(rules: tuple[Hook, ...]) -> None:
    assert run(rules, object="shop", operation="UPDATE", oldObject="shop", output={"allowed": True}).rule == (
        "needs-owner"
    )
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
    assert run(rules, object=secret, output={"matched": False, "allowed": True, "patch": []}).differences == []


def test_a_rule_that_fails_is_no_refusal(rules: tuple[Hook, ...]) -> None:
    failed = run(rules, rule="fails", object="pod", output={"allowed": False})
    assert "rules.py:15: AttributeError" in failed.error
    assert run(rules, rule="fails", object="pod", output={"message": "{{EXCLUDE}}"}).error == ""


def test_the_other_objects_and_settings_of_a_test(rules: tuple[Hook, ...]) -> None:
    texts = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "t", "namespace": "n"},
        "data": {"text": "x"},
    }
    given = {"store": [texts], "settings": {"map": "t"}}
    assert run(rules, rule="reads", object="pod", output={"warnings": ["x"]}, **given).differences == []


@pytest.mark.parametrize(
    ("test", "problem"),
    [
        ({"object": "pod"}, "(no name): output is missing"),
        ({"object": "pod", "output": {}}, "output is missing"),
        ({"object": "pod", "output": {"verdict": 1}}, "output has no verdict: use allowed, "),
        ({"object": "pod", "outptu": {}, "output": {"allowed": True}}, "'outptu' is unknown: use name, "),
        ({"object": "nobody", "output": {"allowed": True}}, "unknown object 'nobody': objects has pod, shop"),
        ({"object": {"kind": "Pod"}, "output": {"allowed": True}}, "object is no object with apiVersion and kind"),
        ({"output": {"allowed": True}}, "object is no object with apiVersion and kind"),
        ({"object": "pod", "operation": "create", "output": {"allowed": True}}, "operation 'create' is unknown"),
        ({"object": "pod", "dryRun": "yes", "output": {"allowed": True}}, "dryRun is not true or false"),
        ({"object": "pod", "store": {}, "output": {"allowed": True}}, "store is not a list"),
        ({"object": "pod", "rule": "other", "output": {"allowed": True}}, "there is no rule 'other': the file has "),
    ],
)
def test_an_invalid_test_names_the_problem(rules: tuple[Hook, ...], test: dict[str, Any], problem: str) -> None:
    with pytest.raises(FixtureError) as raised:
        run(rules, **test)
    assert problem in str(raised.value)


def test_a_document_needs_tests() -> None:
    with pytest.raises(FixtureError, match="tests is missing"):
        read_rule_fixtures({"operation": "CREATE"})
