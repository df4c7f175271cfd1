import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypedDict, TypeVar

import msgspec
import pydantic
import pytest

from fleethook.admission import RuleError
from fleethook.admission.attribute_access_and_json import Members
from fleethook.admission.parameters_and_typed_objects import (
    PLAIN,
    carry_over,
    describe_misfit,
    find_codec,
    read_signature,
)


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
    ],
)
def test_changes_are_carried_over(before: Any, after: Any, onto: Any, expected: Any) -> None:
    assert carry_over(before, after, onto) == expected


@pytest.mark.parametrize("onto", [[{"name": "b"}, {"name": "a"}], [{"name": "a"}]])
def test_a_type_that_sorts_or_removes_elements_is_an_error(onto: Any) -> None:
    with pytest.raises(TypeError, match="adds, removes or sorts elements of a list"):
        carry_over([{"name": "a"}, {"name": "b"}], [{"name": "a", "x": 1}, {"name": "b"}], onto)


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


@dataclass(frozen=True)
class FrozenPort:
    containerPort: int  # noqa: N815 - as above


@dataclass(frozen=True)
class FrozenPorts:
    ports: tuple[FrozenPort, ...]


def change_ports(type_: Any, make: Any, stored: list[int], changed: list[int]) -> Any:
    """Return the ports of an object, which also have a hostPort, after a change of ports of a type that lacks it."""
    onto: Any = {"ports": [{"containerPort": one, "hostPort": place} for place, one in enumerate(stored)]}
    codec = find_codec(type_)
    assert codec is not None
    before = codec.encode(codec.decode(msgspec.json.encode(onto)))
    after = codec.encode(type_(ports=[make(one) for one in changed]))
    merged: Any = carry_over(before, after, onto)
    return [(one["containerPort"], one.get("hostPort")) for one in merged["ports"]]


PORT_TYPES: list[Any] = [
    (Ports, Port),
    (PlainPorts, PlainPort),
    (ModelPorts, lambda one: ModelPort(containerPort=one)),
    (FrozenPorts, FrozenPort),
]


@pytest.mark.parametrize("types", PORT_TYPES)
@pytest.mark.parametrize(
    ("stored", "changed", "expected"),
    [
        ([1, 2], [11, 12], [(11, 0), (12, 1)]),
        ([1, 2, 3], [1, 12, 3], [(1, 0), (12, 1), (3, 2)]),
        ([1, 1], [1, 12], [(1, 0), (12, 1)]),
        ([1, 1], [11, 1], [(11, 0), (1, 1)]),
        ([1, 2], [9, 1, 2, 8], [(9, None), (1, 0), (2, 1), (8, None)]),
        ([1, 2, 3], [3], [(3, 2)]),
        ([1, 2, 3], [3, 1, 2], [(3, 2), (1, 0), (2, 1)]),
    ],
)
def test_elements_without_a_name_keep_the_members_that_their_type_lacks(
    types: Any, stored: list[int], changed: list[int], expected: list[tuple[int, int | None]]
) -> None:
    assert change_ports(*types, stored, changed) == expected


@pytest.mark.parametrize("types", PORT_TYPES)
@pytest.mark.parametrize(
    ("stored", "changed"), [([1, 2], [12]), ([1, 2], [1, 12, 3]), ([1, 2, 3], [3, 2, 11]), ([1, 1], [1])]
)
def test_elements_that_cannot_be_told_apart_are_an_error(types: Any, stored: list[int], changed: list[int]) -> None:
    with pytest.raises(TypeError, match="their type lacks the name and other members: change"):
        change_ports(*types, stored, changed)


def test_elements_of_a_complete_type_change_in_any_way() -> None:
    assert carry_over([{"a": 1}, {"a": 2}], [{"a": 3}], [{"a": 1}, {"a": 2}]) == [{"a": 3}]


def two_unknown(pod: Any, extra: Any) -> None: ...
def nameless(*pods: Any) -> None: ...
def number(pod: int) -> None: ...
def unresolved(pod: "Missing") -> None: ...  # type: ignore[name-defined]  # noqa: F821
def with_default(pod: Any, limit: int = 3) -> None: ...


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (two_unknown, "the parameters 'pod' and 'extra' are unknown"),
        (nameless, "the parameter 'pods' has no name to pass it by"),
        (number, "'pod' cannot be a <class 'int'>: annotate it with a msgspec Struct"),
        (unresolved, "an annotation cannot be resolved: name 'Missing' is not defined"),
    ],
)
def test_parameters_that_no_rule_can_get_are_an_error(function: Any, problem: str) -> None:
    with pytest.raises(RuleError, match=problem):
        read_signature(function)


def test_a_parameter_with_a_default_is_left_alone() -> None:
    assert read_signature(with_default).object_name == "pod"
