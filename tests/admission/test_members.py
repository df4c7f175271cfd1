import json
import math
import re
from collections import ChainMap
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any, Generic, TypedDict, TypeVar

import msgspec
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleethook.admission.members import (
    PLAIN,
    Members,
    carry_over,
    describe_misfit,
    find_codec,
    follow_changes,
    to_plain,
    view,
)
from fleethook.patch import apply, diff
from tests.hypothesis_profiles import examples


def test_members_are_attributes_at_every_depth() -> None:
    pod: Any = view({"spec": {"containers": [{"image": "nginx"}]}})
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
    pod: Any = view({"spec": {}, "status": {}})
    del pod.status
    assert pod == {"spec": {}}


def test_viewing_copies_plain_objects() -> None:
    plain = {"spec": {"replicas": 1}}
    changed: Any = view(plain)
    changed.spec.replicas = 2
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


def make_cycle() -> dict[str, Any]:
    made: dict[str, Any] = {"b": [{}]}
    made["b"][0]["c"] = made
    return made


def make_deep() -> Any:
    made: Any = 1
    for _ in range(5000):
        made = {"b": made}
    return made


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (object(), "/spec/a: JSON has no object: store a dict"),
        ([1, {"b": range(2)}], "/spec/a/1/b: JSON has no range: store a dict"),
        ({"b/c": {None: 1}}, "/spec/a/b~1c: None is no name of a member: give a text"),
        ({True: 1}, "/spec/a: True is no name of a member: give a text"),
        ("\ud800", "/spec/a: 'utf-8' codec can't encode character"),
        (make_cycle(), "/spec/a/b/0/c: the value contains itself"),
        (make_deep(), "/spec/a/b: the value has more than 100 levels"),
    ],
)
def test_a_value_that_json_does_not_have_is_an_error_with_its_pointer(value: Any, problem: str) -> None:
    pod: Any = view(STORED)
    pod.spec.a = value
    with pytest.raises(TypeError, match=f"^{re.escape(problem)}"):
        to_plain(pod, STORED)


class Text(str):
    __slots__ = ()


class Number(int):
    pass


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"c", "a", "d", "b"}, ["a", "b", "c", "d"]),
        ({Text("a"): Text("b"), "c": Number(3)}, {"a": "b", "c": 3}),
        (MappingProxyType({"a": [ChainMap({"b": 1})]}), {"a": [{"b": 1}]}),
        (({"a": True},), [{"a": True}]),
    ],
)
def test_usual_types_of_python_become_json(value: Any, expected: Any) -> None:
    pod: Any = view(STORED)
    pod.spec.a = value
    assert to_plain(pod, STORED) == {**STORED, "spec": {**STORED["spec"], "a": expected}}


def test_a_dict_that_a_rule_stores_counts_as_it_is_when_it_is_read() -> None:
    pod: Any = view(STORED)
    member, element = {"name": "m"}, {"name": "c"}
    pod.spec.member = member
    pod.spec.containers.append(element)
    member["late"] = element["late"] = "1"
    made: Any = to_plain(pod, STORED)
    assert (made["spec"]["member"], made["spec"]["containers"][2]) == (member, element)
    pod.spec.member.more = pod.spec.containers[2].more = "2"
    assert "more" not in member | element


@pytest.mark.parametrize(
    "add",
    [
        lambda listed, one: listed.append(one),
        lambda listed, one: listed.insert(9, one),
        lambda listed, one: listed.extend([one]),
        lambda listed, one: listed.__iadd__([one]),
        lambda listed, one: listed.__setitem__(slice(9, 9), [one]),
    ],
)
@pytest.mark.parametrize(
    "read",
    [
        lambda listed: listed[-1],
        lambda listed: [*listed][-1],
        lambda listed: next(reversed(listed)),
        lambda listed: listed.copy()[-1],
        lambda listed: listed.__add__([])[-1],
        lambda listed: listed[:][-1],
        lambda listed: max(listed, key=lambda one: one.name),
        lambda listed: listed.sort(key=lambda one: one.name) or listed[-1],
        lambda listed: listed.pop(),
    ],
)
def test_an_added_element_has_attributes(add: Any, read: Any) -> None:
    pod: Any = view(STORED)
    add(pod.spec.containers, {"name": "z"})
    assert read(pod.spec.containers).name == "z"


VALUES = st.recursive(
    st.integers(0, 3) | st.sampled_from(["a", "b/c~d"]) | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=3),
    max_leaves=8,
)
CHANGES: dict[type, list[Any]] = {
    dict: [
        lambda one, value: one.update(a=value),
        lambda one, value: one.setdefault("b", value),
        lambda one, value: one.__setitem__("c", value),
        lambda one, value: one.__ior__({"d": value}),
        lambda one, value: one.pop(next(iter(one), ""), value),
        lambda one, value: one.__setitem__("a", one.get("b", value)),
        lambda one, value: one.__setitem__("b", one | {"d": value}),
        lambda one, value: one.clear() if value is None else None,
    ],
    list: [
        lambda one, value: one.append(value),
        lambda one, value: one.insert(0, value),
        lambda one, value: one.extend([value, one[0]]) if one else one.extend([value]),
        lambda one, value: one.reverse() or one.append(value),
        lambda one, value: one.pop() if one else one.append(value),
        lambda one, value: one.__setitem__(slice(0, 1), [value]),
        lambda one, value: one.remove(one[-1]) if one else one.append(value),
        lambda one, value: one.append([*one, value]) if len(one) < 4 else one.clear(),
    ],
}


def change_inner(document: Any, way: list[int], number: int, value: Any) -> None:
    """Change the object or list to which a way through a document leads."""
    for step in way:
        inner = [*(document.values() if isinstance(document, dict) else document)]
        inner = [one for one in inner if isinstance(one, dict | list)]
        if not inner:
            break
        document = inner[step % len(inner)]
    changes = CHANGES[dict if isinstance(document, dict) else list]
    changes[number % len(changes)](document, value)


@settings(max_examples=examples(400))
@given(
    st.dictionaries(st.sampled_from("abcd"), VALUES),
    st.lists(st.tuples(st.lists(st.integers(0, 3), max_size=4), st.integers(0, 7), VALUES), max_size=6),
)
def test_a_rule_changes_a_view_as_it_would_change_plain_json(
    origin: dict[str, Any], changes: list[tuple[list[int], int, Any]]
) -> None:
    before, plain = deepcopy(origin), deepcopy(origin)
    viewed = view(before)
    for way, number, value in changes:
        change_inner(viewed, way, number, value)
        change_inner(plain, way, number, deepcopy(value))
    assert to_plain(viewed, before) == plain
    assert before == origin
    assert apply(origin, diff(before, to_plain(viewed, before))) == plain


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, [math.nan], {"a": (1, {"b": math.nan})}])
def test_a_number_that_json_does_not_have_is_an_error(value: Any) -> None:
    with pytest.raises(TypeError, match=r"/a.*: JSON has no number"):
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


class Typed(TypedDict):
    spec: dict[str, Any]


T = TypeVar("T")


class Boxed(msgspec.Struct, Generic[T]):
    spec: T


@pytest.mark.parametrize("annotation", [dict, dict[str, Any], Mapping, Mapping[str, Any], Members, object, Typed])
def test_the_types_of_plain_objects(annotation: Any) -> None:
    assert find_codec(annotation) is find_codec(annotation | None) is find_codec(Annotated[annotation, ""]) is PLAIN


@pytest.mark.parametrize(
    "annotation", [Deployment | None, Annotated[Deployment, ""], Boxed[Spec], ModelDeployment | None]
)
def test_a_type_may_be_optional_annotated_or_generic(annotation: Any) -> None:
    codec = find_codec(annotation)
    assert codec is not None
    assert codec.is_partial
    assert codec.decode(b'{"spec":{"replicas":3}}').spec.replicas == 3


class Element(msgspec.Struct):
    name: str
    ports: list[int] = []


class Elements(msgspec.Struct):
    containers: dict[str, list[Element]]


class ModelElements(pydantic.BaseModel):
    containers: dict[str, list[ModelSpec]]


@pytest.mark.parametrize(
    ("type_", "text", "problem"),
    [
        (
            Elements,
            b'{"containers":{"a.b":[{"name":"a"},{"name":1}]}}',
            "/containers/*/1/name: Expected `str`, got `int`",
        ),
        (Elements, b"{}", "Object missing required field `containers`"),
        (
            ModelElements,
            b'{"containers":{"a/b":[{"replicas":"x"}],"c":1}}',
            (
                "/containers/a~1b/0/replicas: Input should be a valid integer, unable to parse string as an integer; "
                "/containers/c: Input should be a valid array"
            ),
        ),
    ],
)
def test_a_misfit_has_the_pointers_of_the_members(type_: Any, text: bytes, problem: str) -> None:
    codec = find_codec(type_)
    assert codec is not None
    with pytest.raises(ValueError, match=" ") as caught:
        codec.decode(text)
    assert describe_misfit(caught.value) == problem


@pytest.mark.parametrize("annotation", [int, str, list[int], "Pod", Deployment | Spec])
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
        ([1], [1, 2], [1], [1, 2]),
        (["a", "b"], ["b", "c"], ["b", "a", "b"], ["b", "b", "c"]),
    ],
)
def test_changes_are_carried_over(before: Any, after: Any, onto: Any, expected: Any) -> None:
    assert carry_over(before, after, onto) == expected


@pytest.mark.parametrize("onto", [[{"name": "b"}, {"name": "a"}], [{"name": "a"}]])
def test_a_type_that_sorts_or_removes_elements_is_an_error(onto: Any) -> None:
    with pytest.raises(TypeError, match="adds, removes or sorts elements of a list"):
        carry_over([{"name": "a"}, {"name": "b"}], [{"name": "a", "x": 1}, {"name": "b"}], onto)


class Finalized(msgspec.Struct):
    finalizers: set[str]


def test_a_set_keeps_the_order_of_the_object() -> None:
    codec, stored = find_codec(Finalized), {"finalizers": ["d", "a", "c", "b"]}
    assert codec is not None
    value = codec.decode(msgspec.json.encode(stored))
    before = codec.encode(value)
    value.finalizers.add("0")
    value.finalizers.remove("c")
    assert carry_over(before, codec.encode(value), stored) == {"finalizers": ["d", "a", "b", "0"]}


class Port(msgspec.Struct, rename="camel"):
    container_port: int


class Ports(msgspec.Struct):
    ports: list[Port]


@dataclass
class PlainPort:
    containerPort: int  # noqa: N815 - the name in Kubernetes


@dataclass
class PlainPorts:
    ports: list[PlainPort]


class ModelPort(pydantic.BaseModel):
    container_port: int = pydantic.Field(alias="containerPort")


class ModelPorts(pydantic.BaseModel):
    ports: list[ModelPort]


def set_port(port: Any, number: int) -> None:
    if isinstance(port, dict):
        port["containerPort"] = number
    else:
        setattr(port, "containerPort" if isinstance(port, PlainPort) else "container_port", number)


def change_ports(ports: list[Any], change: str, first: int, second: int, make: Any) -> None:
    """Change a list of plain or typed ports in the same way."""
    if change == "add":
        ports.insert(first, make(second))
    elif not ports:
        return
    elif change == "set":
        set_port(ports[first % len(ports)], second)
    elif change == "remove":
        del ports[first % len(ports)]
    elif change == "reverse":
        ports.reverse()
    else:
        ports.insert(second, ports.pop(first % len(ports)))


@settings(max_examples=examples(300))
@given(
    st.sampled_from([(Ports, Port), (PlainPorts, PlainPort), (ModelPorts, lambda one: ModelPort(containerPort=one))]),
    st.lists(st.integers(0, 9), max_size=4, unique=True),
    st.lists(
        st.tuples(st.sampled_from(["add", "set", "remove", "reverse", "move"]), st.integers(0, 4), st.integers(0, 4)),
        max_size=5,
    ),
)
def test_elements_without_a_name_keep_the_members_that_their_type_lacks(
    types: Any, numbers: list[int], changes: list[tuple[str, int, int]]
) -> None:
    named = [{"containerPort": one, "name": f"p{place}"} for place, one in enumerate(numbers)]
    plain: Any = {"ports": named}
    codec = find_codec(types[0])
    assert codec is not None
    value = codec.decode(msgspec.json.encode(plain))
    carry = follow_changes(codec, value, deepcopy(plain))
    for number, (change, first, second) in enumerate(changes, 100):
        # Each element has a number of its own: a new one that equals a removed one may be either.
        own = number if change in ("add", "set") else second
        change_ports(value.ports, change, first, own, types[1])
        change_ports(plain["ports"], change, first, own, lambda one: {"containerPort": one})
    assert carry(value) == plain


class FrozenPort(msgspec.Struct, frozen=True, rename="camel"):
    container_port: int


class FrozenPorts(msgspec.Struct, frozen=True):
    ports: tuple[FrozenPort, ...]


def test_replaced_elements_of_a_frozen_type_keep_the_members_that_it_lacks() -> None:
    stored = {"ports": [{"containerPort": 1, "hostPort": 1}, {"containerPort": 2, "hostPort": 2}]}
    codec = find_codec(FrozenPorts)
    assert codec is not None
    value = codec.decode(msgspec.json.encode(stored))
    carry = follow_changes(codec, value, stored)
    changed = FrozenPorts(tuple(FrozenPort(one.container_port + 10) for one in value.ports))
    assert carry(changed)["ports"] == [{"containerPort": 11, "hostPort": 1}, {"containerPort": 12, "hostPort": 2}]
