"""Kinds that follow the conventions: their operations, and their replicas."""

from typing import Any

import msgspec
import pytest

from fleethook.engines.interpret.conventions.kinds import ConventionalKind
from fleethook.interpret.interpreter import Question
from fleethook.interpret.typed_members import InterpretError
from fleethook.model.gvk import GroupVersionKind
from fleethook.model.karmada import Operation

GVK = GroupVersionKind("example.com", "v1", "Foo")
ALWAYS = {Operation.HEALTH, Operation.STATUS, Operation.AGGREGATE_STATUS}
TEMPLATE = {"spec": {"containers": [{"name": "a", "resources": {"requests": {"cpu": "2"}}}]}}
OTHER = {"spec": {"containers": [{"name": "b", "resources": {"requests": {"cpu": "3"}}}]}}


def make_kind(**members: Any) -> ConventionalKind:
    return msgspec.convert({"versions": ["v1"], **members}, ConventionalKind)


@pytest.mark.parametrize(
    ("members", "operations"),
    [
        ({}, ALWAYS),
        ({"pods": []}, {*ALWAYS, Operation.DEPENDENCY}),
        ({"references": []}, {*ALWAYS, Operation.DEPENDENCY}),
        ({"replicas": {"spec": ".spec.n"}}, {*ALWAYS, Operation.REPLICA, Operation.REVISE_REPLICA}),
        ({"operations": ["InterpretHealth", "InterpretReplica"]}, {Operation.HEALTH}),
    ],
)
def test_the_members_of_an_entry_decide_about_the_operations(members: Any, operations: set[Operation]) -> None:
    assert make_kind(**members).answered == operations


@pytest.mark.parametrize("members", [{"healthy": {}}, {"health": {"true": ["Ready"]}}, {"references": [{"at": "/a"}]}])
def test_an_entry_with_an_unknown_or_missing_member_is_refused(members: Any) -> None:
    with pytest.raises(msgspec.ValidationError):
        make_kind(**members)


@pytest.mark.parametrize(
    ("spec", "replicas", "cpu"),
    [
        ({"group": {"size": 3, "template": TEMPLATE}}, 3, "2"),
        ({"group": {"size": 3, "template": TEMPLATE}, "other": OTHER}, 3, "2"),
        ({"group": {"size": 3}, "other": OTHER}, 3, "3"),
        ({"group": {"size": 3}, "other": OTHER, "template": TEMPLATE}, 3, None),
        ({"group": {"size": 3}}, 3, None),
        ({"group": {"size": None}}, 0, None),
        ({"group": 1}, 0, None),
        (None, 0, None),
    ],
)
def test_replicas_are_read_with_the_requirements_of_the_template_beside_them(
    spec: Any, replicas: int, cpu: str | None
) -> None:
    kind = make_kind(replicas={"spec": ".spec.group.size", "status": ".status.size"})
    answer = kind.answer(Question(Operation.REPLICA, GVK, {"spec": spec}))
    wanted = None if cpu is None else {"resourceRequest": {"cpu": cpu}}
    assert (answer.replicas, answer.requirements) == (replicas, wanted)


def test_replicas_are_set_where_they_are_and_nowhere_else() -> None:
    kind = make_kind(replicas={"spec": ".spec.size"})
    document = {"spec": {"size": 1, "kept": True}}
    revise = Question(Operation.REVISE_REPLICA, GVK, document, replicas=5)
    assert kind.answer(revise).object == {"spec": {"size": 5, "kept": True}}
    assert document["spec"]["size"] == 1
    for without in ({}, {"spec": {}}, {"spec": None}):
        assert kind.answer(revise._replace(object=without)).object == without
    with pytest.raises(InterpretError, match="negative"):
        kind.answer(revise._replace(replicas=-1))


@pytest.mark.parametrize("size", ["3", True, {}])
def test_a_number_of_replicas_of_another_type_is_an_error(size: Any) -> None:
    kind = make_kind(replicas={"spec": ".spec.size"})
    with pytest.raises(InterpretError, match=r"\.spec\.size is not an integer"):
        kind.answer(Question(Operation.REPLICA, GVK, {"spec": {"size": size}}))


def test_the_answer_about_health_names_the_rule() -> None:
    document = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    answer = make_kind().answer(Question(Operation.HEALTH, GVK, document))
    assert (answer.healthy, answer.rule) == (False, "Ready is False")
