"""Tests of the messages about wrong values; test_check.py has them with the paths of a workload."""

from typing import Any

import pytest

from fleethook.workload_schema.findings import (
    WorkloadFinding,
    describe_enum,
    describe_type,
    describe_unknown,
    nearest,
    shown_value,
)


@pytest.mark.parametrize(("pointer", "text"), [("/spec/x", "/spec/x: is wrong"), ("", "the workload: is wrong")])
def test_the_text_names_the_member_or_the_workload(pointer: str, text: str) -> None:
    assert str(WorkloadFinding(pointer, "value", "is wrong")) == text


@pytest.mark.parametrize(
    ("name", "struct", "parents", "message"),
    [
        ("imagePulPolicy", "core.v1.Container", (), ': did you mean "imagePullPolicy"?'),
        ("NODENAME", "core.v1.PodSpec", (), ': did you mean "nodeName"?'),
        ("tolerations", "core.v1.Container", ("core.v1.PodSpec",), ": it is a field of PodSpec"),
        ("volumeMounts", "core.v1.PodSpec", (), ": it is a field of containers (Container)"),
        ("zzz", "core.v1.EnvVar", (), ": it has name, value, valueFrom"),
        ("zzz", "core.v1.PodSpec", (), ": correct the name or remove it"),
    ],
)
def test_an_unknown_field_has_a_suggestion(name: str, struct: str, parents: tuple[str, ...], message: str) -> None:
    kind = struct.rpartition(".")[2]
    assert describe_unknown(name, struct, parents) == f'{kind} has no field "{name}"{message}'


@pytest.mark.parametrize(
    ("name", "found"), [("relicas", "replicas"), ("REPLICAS", "replicas"), ("size", None), ("", None)]
)
def test_the_nearest_name_is_found_in_any_case(name: str, found: str | None) -> None:
    assert nearest(name, ["replicas", "selector"]) == found


def test_the_nearest_name_is_returned_as_it_is_written() -> None:
    assert nearest("tcp", ["TCP", "UDP"]) == "TCP"


@pytest.mark.parametrize(
    ("value", "types", "message"),
    [
        (1, ["string"], "must be a string, not the number 1: quote it"),
        ("1", ["integer"], 'must be an integer, not the string "1": remove the quotes'),
        ("x", ["integer"], 'must be an integer, not the string "x"'),
        ("true", ["boolean"], 'must be true or false, not the string "true": remove the quotes'),
        ([], ["integer", "string"], "must be a string or an integer, not a list"),
        (None, ["object"], "must be an object, not null"),
    ],
)
def test_a_wrong_type_is_named_with_advice_on_quotes(value: Any, types: list[str], message: str) -> None:
    assert describe_type(value, types, {}, ()) == message


def test_the_members_of_an_object_are_listed_the_required_ones_first() -> None:
    members = {name: {} for name in "abcdefghijklmnop"}
    assert describe_type("x", ["object"], members, ["p", "c"]) == (
        'must be an object (p, c, a, b, d, e, f, g, h, i, j, k, …), not the string "x"'
    )


def test_allowed_values_are_listed_unless_they_are_many() -> None:
    assert describe_enum("always", ["", "Always", "Never"]) == (
        'must be one of Always, Never, not the string "always": did you mean Always?'
    )
    assert describe_enum(1, ["Always", "Never"]) == "must be one of Always, Never, not the number 1"
    many = [f"Option{number}" for number in range(13)]
    assert describe_enum("Option", many).startswith('the string "Option" is not a value that Kubernetes knows: did you')
    assert describe_enum("x", many) == 'the string "x" is not a value that Kubernetes knows'


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "null"), (True, "true"), ({}, "an object"), ([1], "a list"), (1.5, "the number 1.5"),
        ("ü", 'the string "ü"'), ("x" * 99, f'the string "{"x" * 59}…'),
    ],
)  # fmt: skip
def test_a_value_is_shown_with_its_type(value: Any, shown: str) -> None:
    assert shown_value(value) == shown
