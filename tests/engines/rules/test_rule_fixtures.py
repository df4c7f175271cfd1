from pathlib import Path
from typing import Any

import pytest

from fleethook.admission.decorators_and_files import load_rules
from fleethook.admission.rule_in_tests import Rule
from fleethook.engines.rules.rule_fixtures import RuleFixtureResult, read_rule_fixtures, run_rule_fixture
from fleethook.fixture_format import Difference, FixtureError
from tests.engines.rules.test_rules_server import RULES

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "n"}, "spec": {}}
SHOP = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "shop", "labels": {"owner": "ann"}}}
SECCOMP = {"securityContext": {"seccompProfile": {"type": "RuntimeDefault"}}}


@pytest.fixture
def rules(tmp_path: Path) -> tuple[Rule, ...]:
    (tmp_path / "rules.py").write_text(RULES)
    return load_rules([tmp_path / "rules.py"])


def run(rules: tuple[Rule, ...], **test: Any) -> RuleFixtureResult:
    document = {"objects": {"pod": POD, "shop": SHOP}, "tests": [test]}
    ((_, fixture),) = read_rule_fixtures(document)
    return run_rule_fixture(rules, fixture)


def test_the_answer_of_one_rule(rules: tuple[Rule, ...]) -> None:
    refused = {"allowed": False, "code": 403, "message": "metadata.labels: label `owner` is missing"}
    bare = {"from": "shop", "with": {"metadata": {"labels": None}}}
    assert run(rules, rule="needs-owner", object=bare, output=refused) == ("needs-owner", "", "", [])
    assert run(rules, rule="needs-owner", object="shop", output={"allowed": False}).differences == [
        Difference("allowed", False, True)
    ]


def test_a_patch_and_the_changed_object(rules: tuple[Rule, ...]) -> None:
    value = SECCOMP["securityContext"]["seccompProfile"]
    patch = [{"op": "add", "path": "/spec/securityContext/seccompProfile", "value": value}]
    output = {"patch": patch, "object": {"from": "pod", "with": {"spec": SECCOMP}}}
    assert run(rules, rule="default-seccomp", object="pod", output=output).differences == []


TWO = """
from fleethook.admission import mutate

@mutate("v1", "Pod", on=("CREATE", "UPDATE"))
def changes(pod):
    pod.metadata.labels = {"a": "b"}
    pod.spec = {**pod.spec, "nodeName": "n"}
    pod.spec.update(pod.metadata.get("annotations") or {})
"""


@pytest.fixture
def changes(tmp_path: Path) -> tuple[Rule, ...]:
    (tmp_path / "two.py").write_text(TWO)
    return load_rules([tmp_path / "two.py"])


def test_a_result_that_kubernetes_refuses_is_a_failure(changes: tuple[Rule, ...]) -> None:
    invalid = {"from": "pod", "with": {"metadata": {"annotations": {"nodeNam": "x"}}}}
    assert (
        "two.py:4: its changes are invalid: spec.nodeNam is not a field"
        in run(changes, object=invalid, output={"code": 0}).error
    )
    output = {"allowed": True, "patch": [], "object": invalid, "warnings": ["{{EXCLUDE}}"]}
    assert run(changes, object=invalid, output=output).differences == []
    update = run(changes, object="pod", oldObject="pod", operation="UPDATE", output={"allowed": True})
    assert "/spec/nodeName: may not change in an UPDATE" in update.error
    of_subresource = {"subresource": "status", "rule": "changes", "output": {"allowed": True, "matched": False}}
    assert run(changes, object=invalid, **of_subresource).error == ""


MISTAKES = """
from fleethook.admission import mutate, validate

@mutate("v1", "Pod")
def repeats(pod):
    pod.spec.setdefault("tolerations", []).append({"key": "a"})

@validate("v1", "Pod")
def changes(pod):
    pod.spec["nodeName"] = "n"
"""


def test_a_mistake_that_the_answer_does_not_show_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "mistakes.py").write_text(MISTAKES)
    rules = load_rules([tmp_path / "mistakes.py"])
    repeats = run(rules, rule="repeats", object="pod", output={"warnings": []}).error
    assert repeats.startswith("mistakes.py:4: asked again about its own result, ")
    both = run(rules, object="pod", output={"allowed": True}).error
    assert (
        both
        == f"{repeats}; mistakes.py:8: it changes its object, and @validate drops the changes: use @mutate, or read with .get()"
    )


def test_a_request_about_which_no_rule_is_asked_has_the_reason(rules: tuple[Rule, ...]) -> None:
    unknown = {"apiVersion": "v1", "kind": "Podd", "metadata": {"name": "p"}}
    test = {"rule": "default-seccomp", "object": unknown}
    assert run(rules, **test, output={"allowed": True}).unasked == "the kind is Podd, not Pod"
    assert run(rules, **test, output={"matched": False}).unasked == ""
    assert run(rules, rule="default-seccomp", object="pod", output={"allowed": True}).unasked == ""


def test_the_deleted_object_is_the_old_one(tmp_path: Path) -> None:
    (tmp_path / "deletes.py").write_text(
        "from fleethook.admission import Denied, validate\n"
        "@validate('v1', 'Pod', on='DELETE')\ndef keeps(pod): raise Denied(pod.metadata.name)\n"
    )
    for member in ("object", "oldObject"):
        test = {"operation": "DELETE", member: "pod", "output": {"message": "p"}}
        assert run(load_rules([tmp_path / "deletes.py"]), **test).differences == []


def test_without_a_rule_all_are_asked_up_to_the_first_refusal(rules: tuple[Rule, ...]) -> None:
    assert run(rules, object="shop", operation="UPDATE", oldObject="shop", output={"allowed": True}).rule == (
        "needs-owner"
    )
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
    assert run(rules, object=secret, output={"matched": False, "allowed": True, "patch": []}).differences == []


def test_a_rule_that_fails_is_no_refusal(rules: tuple[Rule, ...]) -> None:
    failed = run(rules, rule="fails", object="pod", output={"allowed": False})
    assert "rules.py:15: AttributeError" in failed.error
    assert run(rules, rule="fails", object="pod", output={"message": "{{EXCLUDE}}"}).error == ""


def test_the_other_objects_and_settings_of_a_test(rules: tuple[Rule, ...]) -> None:
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
        ({"object": "pod", "outptu": {}, "output": {"allowed": True}}, "'outptu' is unknown: did you mean output?"),
        ({"object": "pod", "verdict": {}, "output": {"allowed": True}}, "'verdict' is unknown: use name, "),
        (
            {"object": "pod", "user": {"grups": []}, "output": {"allowed": True}},
            "'grups' is unknown: did you mean groups?",
        ),
        ({"object": "nobody", "output": {"allowed": True}}, "unknown object 'nobody': objects has pod, shop"),
        ({"object": {"kind": "Pod"}, "output": {"allowed": True}}, "object is no object with apiVersion and kind"),
        ({"output": {"allowed": True}}, "object is missing: give an object, or the name of one"),
        ({"object": "pod", "rule": False, "output": {"allowed": True}}, "rule must be text, not false: quote it"),
        ({"object": "pod", "operation": "create", "output": {"allowed": True}}, "operation 'create' is unknown"),
        ({"object": "pod", "dryRun": "yes", "output": {"allowed": True}}, "dryRun is not true or false"),
        ({"object": "pod", "store": {}, "output": {"allowed": True}}, "store is not a list"),
        ({"object": "pod", "rule": "other", "output": {"allowed": True}}, "there is no rule 'other': the file has "),
    ],
)
def test_an_invalid_test_names_the_problem(rules: tuple[Rule, ...], test: dict[str, Any], problem: str) -> None:
    with pytest.raises(FixtureError) as raised:
        run(rules, **test)
    assert problem in str(raised.value)


@pytest.mark.parametrize(("name", "advice"), [("settings", "use rules, objects"), ("objetcs", "did you mean objects")])
def test_a_misplaced_or_misspelt_member_of_a_document_is_an_error(name: str, advice: str) -> None:
    with pytest.raises(FixtureError, match=f"'{name}' is unknown beside tests: {advice}"):
        list(read_rule_fixtures({"tests": [{"object": POD, "output": {"allowed": True}}], name: {}}))


def test_a_document_may_have_members_for_anchors() -> None:
    assert list(read_rule_fixtures({"tests": [{"object": POD, "output": {"allowed": True}}], "base": POD}))


def test_a_test_is_an_object() -> None:
    with pytest.raises(FixtureError, match="the test 7 is no object: give name, object and output"):
        list(read_rule_fixtures({"tests": [7]}))


@pytest.mark.parametrize("document", [{"operation": "CREATE"}, {"tests": []}])
def test_a_document_needs_tests(document: Any) -> None:
    with pytest.raises(FixtureError, match="tests is missing or empty: give a list of tests"):
        read_rule_fixtures(document)


BOATS = """
from fleethook.admission import Denied, mutate, validate

@validate("example.org/v1", "Boat", expression="object.spec.size <= 5", message="too big")
def small(): pass

@validate("example.org/v1", "Boat", on=("CREATE", "DELETE"))
def named(request):
    if request.name.startswith("keep"): raise Denied(request.name)

@mutate("example.org/v1", "Boat")
def grow(boat, request):
    boat.spec.size += len(request.name) + 1
"""
BOAT = {"apiVersion": "example.org/v1", "kind": "Boat", "metadata": {"name": "b"}, "spec": {}}
BOAT_DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "boats.example.org"},
    "spec": {
        "group": "example.org", "names": {"kind": "Boat"},
        "versions": [{"name": "v1", "schema": {"openAPIV3Schema": {"properties": {"spec": {"properties": {"size": {"default": 3}}}}}}}],
    },
}  # fmt: skip


@pytest.fixture
def boats(tmp_path: Path) -> tuple[Rule, ...]:
    (tmp_path / "boats.py").write_text(BOATS)
    return load_rules([tmp_path / "boats.py"])


def test_a_definition_gives_objects_their_defaults(boats: tuple[Rule, ...]) -> None:
    test = {"name": "a", "object": BOAT, "rule": "small", "output": {"allowed": True}}
    ((_, fixture),) = read_rule_fixtures({"tests": [test]})
    assert run_rule_fixture(boats, fixture, [BOAT_DEFINITION]).differences == []
    assert run(boats, **test, store=[BOAT_DEFINITION]).differences == []
    hint = "if it has a default, give the CustomResourceDefinition of Boat beside the tests"
    assert run_rule_fixture(boats, fixture).error.endswith(f"no such key: size; {hint}")


def test_a_patch_changes_the_object_with_defaults_and_an_expected_object_needs_none(boats: tuple[Rule, ...]) -> None:
    generated = {**BOAT, "metadata": {"generateName": "b-"}}
    output = {
        "patch": [{"op": "replace", "path": "/spec/size", "value": 4}],
        "object": {**generated, "spec": {"size": 4}},
    }
    test = {"object": generated, "rule": "grow", "output": output, "store": [BOAT_DEFINITION]}
    assert run(boats, **test).differences == []
    several = {**test, "rule": "", "output": {"allowed": True, "object": {**generated, "spec": {"size": 4}}}}
    assert run(boats, **several).differences == []


@pytest.mark.parametrize(
    ("test", "message"),
    [
        ({"object": {**BOAT, "metadata": {"generateName": "keep-"}}}, "keep-xxxxx"),
        ({"object": {**BOAT, "metadata": {"name": "keep"}}, "operation": "DELETE"}, "keep"),
        ({"object": {**BOAT, "metadata": {"name": "keep"}}, "operation": "DELETE", "request": {"name": ""}}, "keep"),
        ({"object": BOAT, "request": {"name": "keep-1"}}, "keep-1"),
    ],
)
def test_a_rule_knows_the_name_of_each_object(boats: tuple[Rule, ...], test: Any, message: str) -> None:
    assert run(boats, rule="named", **test, output={"message": message}).differences == []


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({}, "request has no name: give"),
        ({"name": 1}, "name must be text, not 1"),
        ({"name": "", "namespace": "n"}, "'namespace' is unknown: use name"),
    ],
)
def test_a_request_has_a_name_only(boats: tuple[Rule, ...], request_: Any, message: str) -> None:
    with pytest.raises(FixtureError, match=message):
        run(boats, rule="named", object=BOAT, request=request_, output={"allowed": True})
