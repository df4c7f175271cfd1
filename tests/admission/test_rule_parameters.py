import math
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypedDict, TypeVar

import msgspec
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleethook.admission.attribute_access import Members
from fleethook.admission.rule_parameters import PLAIN, carry_over, describe_misfit, find_codec, follow_changes
from tests.hypothesis_profiles import examples


class Spec(msgspec.Struct):
    replicas: int = 1
    paused: bool | None = None


class Deployment(msgspec.Struct):
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
