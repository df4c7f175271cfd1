"""Fixtures of interpreters: reading both formats, and comparing answers."""

from pathlib import Path
from typing import Any

import pytest

from fleethook.engines.interpret.interpreter_fixtures import (
    compare_answer,
    find_operation,
    make_question,
    name_results,
    read_fixture,
    read_fixtures,
)
from fleethook.fixture_format import EXCLUDE, Difference, FixtureError, is_fixture
from fleethook.interpret.interpreter import Answer
from fleethook.model.karmada import Operation
from tests.cli.interpreting import CUSTOMIZATION, run, write_bundle

FOO = {"apiVersion": "example.org/v1", "kind": "Foo", "spec": {"replicas": 1}}
BAR = {**FOO, "kind": "Bar"}


def fixture(operation: str = "InterpretHealth", output: Any = None, **members: Any) -> dict[str, Any]:
    given = {"name": "n", "operation": operation, "desiredObj": FOO, "output": {} if output is None else output}
    return {**given, **members}


def differences(operation: str, expected: dict[str, Any], answer: Answer, **members: Any) -> list[Difference]:
    return list(compare_answer(read_fixture(fixture(operation, expected, **members)), answer))


@pytest.mark.parametrize("operation", list(Operation))
def test_operations_are_found_in_any_case(operation: Operation) -> None:
    assert find_operation(operation.value.upper()) is operation
    assert find_operation(operation.value.lower()) is operation


def test_karmadas_name_for_retain_is_known_and_others_are_refused() -> None:
    assert find_operation("Retention") is Operation.RETAIN
    with pytest.raises(FixtureError, match="operation 'x' is unknown: use one of "):
        find_operation("x")


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"tests": []}, True),
        ({"operation": 1}, True),
        ({"output": None}, True),
        (FOO, False),
        ([], False),
        (None, False),
    ],
)
def test_the_members_tell_a_fixture(document: Any, *, expected: bool) -> None:
    assert is_fixture(document) is expected


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("text", "is not an object"),
        ({}, r"\(no name\): operation is missing"),
        (fixture(operation=7), "n: operation is missing"),
        ({"name": "n", "operation": "InterpretHealth"}, "n: output is missing"),
        (fixture(output=[1]), "n: output is not an object"),
        (fixture(output={"status": {}}), "output of .* has no status: use healthy"),
        (fixture(desiredObj=None), "needs a desired or an observed object"),
        (fixture("Retain"), "Retain needs the desired and the observed object"),
        (fixture(desiredObj={"kind": "Foo"}), "the object has no apiVersion and kind"),
        (fixture("ReviseReplica", inputReplicas="3"), "needs the desired number of replicas"),
        (fixture("AggregateStatus", statusItems=[7]), "the status items are not a list of objects"),
        (fixture("AggregateStatus", statusItems={}), "the status items are not a list of objects"),
        ({**fixture(), "name": False}, "name must be text, not false: quote it"),
        (fixture("AggregateStatus", statusItem=[]), "n: 'statusItem' is unknown: did you mean statusItems[?]"),
        (
            fixture("AggregateStatus", statusItems=[{"clustername": "a"}]),
            "'clustername' is unknown: did you mean clusterName",
        ),
        (fixture(expected={}), "n: 'expected' is unknown: use name, description, operation, desiredObj, "),
    ],
)
def test_a_malformed_fixture_names_its_problem(document: Any, message: str) -> None:
    with pytest.raises(FixtureError, match=message):
        read_fixture(document)


def test_only_retain_gets_the_observed_object_and_others_prefer_the_desired_one() -> None:
    values: Any = {"desired": FOO, "observed": BAR, "items": None, "replicas": 3}
    retain = make_question(Operation.RETAIN, **values)
    assert (retain.object, retain.observed, retain.kind.kind) == (FOO, BAR, "Foo")
    health = make_question(Operation.HEALTH, **values)
    assert (health.object, health.observed) == (FOO, None)
    assert make_question(Operation.HEALTH, **{**values, "desired": None}).object == BAR


def test_tests_share_objects_by_name_and_with_patches() -> None:
    document = {
        "objects": {"foo": FOO, "scaled": {"from": "foo", "with": {"spec": {"replicas": 3}}}},
        "tests": [
            fixture("Retain", {"retained": "scaled"}, desiredObj="foo", observedObj={"from": "scaled"}),
            fixture(
                "AggregateStatus", {"aggregatedStatus": "foo"}, desiredObj="foo",
                statusItems=[{"clusterName": "a", "status": "scaled"}, {"clusterName": "b"}],
            ),
            fixture("ReviseReplica", {"revised": {"from": "scaled", "other": 1}}, desiredObj="foo"),
        ],
    }  # fmt: skip
    retain, aggregate, revise = read_fixtures(document)
    scaled = {**FOO, "spec": {"replicas": 3}}
    assert (retain.question.observed, retain.output) == (scaled, {"retained": scaled})
    assert aggregate.question.items == [{"clusterName": "a", "status": scaled}, {"clusterName": "b"}]
    assert revise.output == {"revised": {"from": "scaled", "other": 1}}, "an object with other members is no reference"


def test_a_test_runs_for_each_of_the_objects_that_it_lists() -> None:
    patched = {"from": "each", "with": {"spec": {"replicas": 3}}}
    document = {
        "objects": {"a": FOO, "b": {"from": "a", "with": {"kind": "Bar"}}},
        "tests": [
            fixture(name="first", desiredObj="a"),
            fixture(name="scaled", each=["a", "b"], desiredObj=patched),
        ],
    }
    found = [(one.name, one.question.kind.kind, one.test) for one in read_fixtures(document)]
    assert found == [("first", "Foo", 0), ("scaled: a", "Foo", 1), ("scaled: b", "Bar", 1)]
    assert all(one.question.object["spec"] == {"replicas": 3} for one in list(read_fixtures(document))[1:])


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"tests": {}}, "tests must be a list"),
        ({"tests": [fixture(each="a")], "objects": {"a": FOO}}, "each must be a list"),
        ({"tests": [fixture(each=["b"])], "objects": {"a": FOO}}, "unknown object 'b'"),
        ({"tests": [], "objects": ["a"]}, "objects must be an object"),
        ({"tests": [], "objects": {"a": "b", "b": FOO}}, "unknown object 'b': objects has none"),
        ({"tests": [fixture(desiredObj="b")], "objects": {"a": FOO}}, "unknown object 'b': objects has a"),
        ({"tests": ["text"]}, "is not an object"),
    ],
)
def test_a_malformed_document_names_its_problem(document: Any, message: str) -> None:
    with pytest.raises(FixtureError, match=message):
        list(read_fixtures(document))


def test_results_have_karmadas_names() -> None:
    case = read_fixture(fixture("InterpretReplica"))
    assert name_results(case.question, Answer(replicas=2, requirements=None)) == {"replica": 2, "requires": None}
    assert name_results(read_fixture(fixture()).question, Answer(healthy=True)) == {"healthy": True}
    assert name_results(read_fixture(fixture("Prune")).question, Answer(object=FOO)) == {"packed": FOO}


def test_an_equal_answer_has_no_difference_and_another_one_shows_both_values() -> None:
    assert differences("InterpretHealth", {"healthy": True}, Answer(healthy=True)) == []
    assert differences("InterpretHealth", {"healthy": True}, Answer(healthy=False)) == [
        Difference("healthy", True, False)
    ]
    assert differences("InterpretHealth", {}, Answer(healthy=False)) == []


def test_an_excluded_value_matches_anything_below_it() -> None:
    expected = {"status": {"time": EXCLUDE, "ready": 1}}
    assert differences("InterpretStatus", expected, Answer(status={"time": {"at": "now"}, "ready": 1})) == []
    found = differences("InterpretStatus", expected, Answer(status={"time": "now", "ready": 2}))
    assert found == [Difference("status/ready", 1, 2)]


@pytest.mark.parametrize(
    ("added", "is_different"), [({}, False), ([], False), ("", True), (None, True), ({"a": 1}, True)]
)
def test_only_empty_objects_and_lists_may_be_added_to_a_status(added: Any, *, is_different: bool) -> None:
    found = differences("InterpretStatus", {"status": {"ready": 1}}, Answer(status={"ready": 1, "more": added}))
    assert bool(found) is is_different


def test_requirements_are_compared_by_value() -> None:
    expected = {"requires": {"resourceRequest": {"cpu": "0.5", "memory": "1Gi"}, "nodeClaim": {}}}
    answer = Answer(replicas=1, requirements={"resourceRequest": {"cpu": "500m", "memory": "1024Mi"}})
    assert differences("InterpretReplica", expected, answer) == []
    other = Answer(replicas=1, requirements={"resourceRequest": {"cpu": "501m", "memory": "text"}})
    assert len(differences("InterpretReplica", expected, other)) == 2


@pytest.mark.parametrize(
    ("operation", "member", "elements"),
    [
        ("InterpretDependency", "dependencies", [{"kind": "Secret", "name": "a"}, {"kind": "ConfigMap", "name": "b"}]),
        ("InterpretComponent", "components", [{"name": "b", "replicas": 1}, {"name": "a", "replicas": 2}]),
    ],
)
def test_dependencies_and_components_have_no_order(operation: str, member: str, elements: list[Any]) -> None:
    answers = {"dependencies": Answer(dependencies=elements[::-1]), "components": Answer(components=elements[::-1])}
    assert differences(operation, {member: elements}, answers[member]) == []
    assert differences(operation, {member: elements[:1]}, answers[member]) != []


def test_an_aggregated_status_is_compared_alone_unless_the_fixture_has_the_object() -> None:
    answer = Answer(object={**FOO, "status": {"ready": 2}})
    assert differences("AggregateStatus", {"aggregatedStatus": {"ready": 2}}, answer) == []
    whole = {"apiVersion": "example.org/v1", "kind": "Foo", "status": {"ready": 2}}
    assert differences("AggregateStatus", {"aggregatedStatus": whole}, answer) == []
    assert differences("AggregateStatus", {"aggregatedStatus": {**whole, "status": {"ready": 3}}}, answer) == [
        Difference("aggregatedStatus/status/ready", 3, 2)
    ]


def test_a_customization_without_fixtures_is_a_warning(tmp_path: Path) -> None:
    bundle = write_bundle(tmp_path)
    other = bundle / "other.yaml"
    other.write_text("\n" + CUSTOMIZATION.replace("kind: Game}", "kind: Match}").replace("name: game", "name: match"))
    code, out, err = run("test", str(bundle))
    assert (code, out) == (0, "ok   InterpretHealth      lua      ready\n1 passed, 0 failed\n")
    named = "games.example.com/v1 Match, for which ResourceInterpreterCustomization match has scripts"
    assert err == f"{other}:3: warning: no fixture asks about {named}\n"
