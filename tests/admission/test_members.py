from dataclasses import dataclass
from typing import Any

import msgspec
import pydantic
import pytest

from fleethook.admission.members import Members, carry_over, find_codec, wrap
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
