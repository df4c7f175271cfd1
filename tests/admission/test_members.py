import json
import math
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import msgspec
import pydantic
import pytest

from fleethook.admission.members import PLAIN, Members, carry_over, find_codec, to_plain, view, wrap
from fleethook.patch import diff


def test_members_are_attributes_at_every_depth() -> None:
    pod = wrap({"spec": {"containers": [{"image": "nginx"}]}})
    pod.spec.containers[0].image = "nginx:1.29"
    pod.spec.setdefault("securityContext", {}).setdefault("seccompProfile", {"type": "RuntimeDefault"})
    pod.update(status={"phase": "Pending"})
    assert pod.spec.securityContext.seccompProfile.type == "RuntimeDefault"
    assert pod.status.phase == "Pending"
    assert pod["spec"]["containers"] == [{"image": "nginx:1.29"}]


def test_a_missing_member_names_the_remedy() -> None:
    with pytest.raises(AttributeError, match=r"no member 'spec'; read an optional member with \.get\('spec'\)"):
        _ = Members().spec
    with pytest.raises(AttributeError, match="no member 'spec'"):
        del Members().spec


def test_the_name_of_a_method_needs_brackets() -> None:
    table = Members()
    with pytest.raises(AttributeError, match=r"write \['items'\] = … to set the member"):
        table.items = []  # type: ignore[method-assign,assignment]
    table["items"] = [{"key": "a"}]
    assert table["items"][0].key == "a"


def test_a_member_can_be_deleted() -> None:
    pod = wrap({"spec": {}, "status": {}})
    del pod.status
    assert pod == {"spec": {}}


def test_wrapping_copies_plain_objects() -> None:
    plain = {"spec": {"replicas": 1}}
    wrap(plain).spec.replicas = 2
    assert plain == {"spec": {"replicas": 1}}


STORED: dict[str, Any] = {
    "metadata": {"labels": {"a": "b"}},
    "spec": {"containers": [{"name": "a", "ports": [1]}, {"name": "b"}]},
}


def test_changes_of_a_view_do_not_reach_the_object() -> None:
    before = deepcopy(STORED)
    pod: Any = view(before)
    pod.spec.containers[0].ports.append(2)
    pod.spec.containers[1].image = "nginx"
    pod.spec.containers.append({"name": "c"})
    pod.metadata.labels.pop("a")
    assert before == STORED
    assert pod.spec.containers is pod.spec.containers
    assert pod.spec.containers[0].ports == [1, 2]


@pytest.mark.parametrize(
    "read",
    [
        lambda pod: pod.spec,
        lambda pod: pod["spec"],
        lambda pod: pod.get("spec"),
        lambda pod: pod.pop("spec"),
        lambda pod: pod.popitem()[1],
        lambda pod: pod.setdefault("spec", {}),
        lambda pod: dict(pod)["spec"],
        lambda pod: {**pod}["spec"],
        lambda pod: pod.copy()["spec"],
        lambda pod: (pod | {"status": {}})["spec"],
        lambda pod: ({"status": {}} | pod)["spec"],
        lambda pod: dict(pod.items())["spec"],
        lambda pod: list(pod.values())[-1],
        lambda pod: deepcopy(pod)["spec"],
    ],
)
def test_every_way_to_read_a_member_returns_members(read: Any) -> None:
    assert read(view(deepcopy(STORED))).containers[0].name == "a"


def test_a_missing_member_can_have_a_default() -> None:
    pod: Any = view(STORED)
    assert pod.get("status") is None
    assert pod.get("status", 1) == pod.pop("status", 1) == 1
    with pytest.raises(KeyError):
        pod.pop("status")


def test_unchanged_parts_stay_those_of_the_origin() -> None:
    pod: Any = view(STORED)
    assert to_plain(pod, STORED) is STORED
    assert pod.spec.containers[0].ports[0] == 1
    assert to_plain(pod, STORED) is STORED
    pod.spec.containers[1].image = "nginx"
    made: Any = to_plain(pod, STORED)
    assert made["metadata"] is STORED["metadata"]
    assert made["spec"]["containers"][0] is STORED["spec"]["containers"][0]
    assert diff(STORED, made) == [{"op": "add", "path": "/spec/containers/1/image", "value": "nginx"}]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda pod: pod.spec.containers.insert(0, {"name": "c"}), [{"name": "c"}, *STORED["spec"]["containers"]]),
        (lambda pod: pod.spec.containers.reverse(), STORED["spec"]["containers"][::-1]),
        (lambda pod: pod.spec.containers.pop(), STORED["spec"]["containers"][:1]),
        (lambda pod: pod.spec.update(containers=("a", 1)), ["a", 1]),
        (lambda pod: pod.spec.update(containers={1: {"a": None}}), {"1": {"a": None}}),
    ],
)
def test_changed_lists_and_other_values_become_json(change: Any, expected: Any) -> None:
    pod: Any = view(STORED)
    change(pod)
    assert to_plain(pod, STORED) == {**STORED, "spec": {"containers": expected}}


def test_a_name_that_is_no_text_becomes_text() -> None:
    pod: Any = view(STORED)
    pod.metadata.labels[1] = "c"
    assert to_plain(pod, STORED) == {**STORED, "metadata": {"labels": {"a": "b", "1": "c"}}}


def test_a_value_that_json_does_not_have_is_an_error() -> None:
    pod: Any = view(STORED)
    pod.spec.replicas = object()
    with pytest.raises(TypeError):
        to_plain(pod, STORED)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, [math.nan], {"a": (1, {"b": math.nan})}])
def test_a_number_that_json_does_not_have_is_an_error(value: Any) -> None:
    with pytest.raises(ValueError, match="JSON has no number"):
        to_plain({"a": value}, {"a": None})
    assert to_plain({"a": [None, 1.5]}, {}) == {"a": [None, 1.5]}


def test_a_read_object_can_be_encoded() -> None:
    pod: Any = PLAIN.decode(msgspec.json.encode(STORED))
    assert pod.spec.containers[0].name == "a"
    assert PLAIN.encode(pod) == json.loads(json.dumps(pod)) == STORED


class Spec(msgspec.Struct):
    replicas: int = 1
    paused: bool | None = None


class Deployment(msgspec.Struct):
    spec: Spec


@dataclass
class PlainDeployment:
    spec: Spec


class ModelSpec(pydantic.BaseModel):
    replicas: int = 1
    paused: bool | None = None


class ModelDeployment(pydantic.BaseModel):
    spec: ModelSpec


class Share(msgspec.Struct):
    share: float | None = None


@dataclass
class PlainShare:
    share: float | None = None


class ModelShare(pydantic.BaseModel):
    share: float | None = None


@pytest.mark.parametrize("annotation", [Share, PlainShare, ModelShare])
def test_a_number_of_a_typed_object_that_json_does_not_have_is_an_error(annotation: Any) -> None:
    codec = find_codec(annotation)
    assert codec is not None
    assert codec.encode(annotation()) == {}
    with pytest.raises(ValueError, match="JSON has no number"):
        codec.encode(annotation(share=math.nan))


@pytest.mark.parametrize("annotation", [Deployment, PlainDeployment, ModelDeployment])
def test_changes_of_a_typed_object_keep_the_members_that_its_type_lacks(annotation: Any) -> None:
    codec = find_codec(annotation)
    assert codec is not None
    stored = {"kind": "Deployment", "spec": {"replicas": 3, "selector": {"a": "b"}}}
    value = codec.decode(msgspec.json.encode(stored))
    before = codec.encode(value)
    value.spec.replicas = 5
    changed = carry_over(before, codec.encode(value), stored)
    assert diff(stored, changed) == [{"op": "replace", "path": "/spec/replicas", "value": 5}]


def test_a_default_of_the_type_is_no_change() -> None:
    codec = find_codec(Deployment)
    assert codec is not None
    value = codec.decode(b'{"spec":{}}')
    before = codec.encode(value)
    value.spec.paused = True
    assert carry_over(before, codec.encode(value), {"spec": {}}) == {"spec": {"paused": True}}


@pytest.mark.parametrize("annotation", [int, str, list[int], "Pod"])
def test_other_types_have_no_codec(annotation: Any) -> None:
    assert find_codec(annotation) is None


@pytest.mark.parametrize(
    ("before", "after", "onto", "expected"),
    [
        ({"a": 1}, {}, {"a": 1, "b": 2}, {"b": 2}),
        ({}, {"a": 1}, {"b": 2}, {"b": 2, "a": 1}),
        ({"a": {}}, {"a": {"x": 1}}, {}, {"a": {"x": 1}}),
        ([{"name": "a"}], [{"name": "a", "x": 1}], [{"name": "a", "y": 2}], [{"name": "a", "y": 2, "x": 1}]),
        (
            [{"name": "a"}, {"name": "b"}],
            [{"name": "b"}],
            [{"name": "a"}, {"name": "b", "y": 2}],
            [{"name": "b", "y": 2}],
        ),
        ([1], [1, 2], None, [1, 2]),
    ],
)
def test_changes_are_carried_over(before: Any, after: Any, onto: Any, expected: Any) -> None:
    assert carry_over(before, after, onto) == expected
