import pytest

from fleethook.cel.check.types import read_functions
from fleethook.cel.library.quantities import Quantity
from fleethook.cel.plan.planner import _CODES, _OPTIONAL_MEMBERS
from fleethook.cel.values.times import Duration, Timestamp
from fleethook.cel.values.values import (
    MAX_INT,
    MIN_INT,
    NONE,
    CelType,
    Function,
    GrowingList,
    GrowingMap,
    OverloadResolver,
    Uint,
    can_parse,
    get_kind,
    get_type,
    is_out_of_range,
    make_range_error,
    quote_text,
)


@pytest.mark.parametrize(
    ("value", "kind", "type_name"),
    [
        (True, "bool", "bool"),
        (1, "int", "int"),
        (Uint(1), "uint", "uint"),
        (1.5, "double", "double"),
        (GrowingList(), "list", "list"),
        (GrowingMap(), "map", "map"),
        (None, "null", "null_type"),
        (Duration(0), "duration", "google.protobuf.Duration"),
        (Timestamp(0), "timestamp", "google.protobuf.Timestamp"),
        (NONE, "optional_type", "optional_type"),
        (Quantity(1), "kubernetes.Quantity", "kubernetes.Quantity"),
        (CelType("int"), "type", "type"),
    ],
)
def test_values_have_a_kind_and_a_type(value: object, kind: str, type_name: str) -> None:
    assert get_kind(type(value)) == kind
    assert get_type(value) == CelType(type_name)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(MAX_INT, False), (MIN_INT, False), (MAX_INT + 1, True), (MIN_INT - 1, True), (1e300, False), (True, False)],
)
def test_integers_beyond_64_bits_are_out_of_range(value: object, expected: bool) -> None:
    assert is_out_of_range(value) is expected


def test_the_error_for_a_huge_integer_omits_its_digits() -> None:
    assert make_range_error(2**63).text == "integer out of range: 9223372036854775808"
    assert make_range_error(-(10**5_000)).text == "integer out of range: more than 30 digits"


@pytest.mark.parametrize(
    ("text", "quoted"),
    [("a", '"a"'), ('a"b\n', '"a\\"b\\n"'), ("é", '"é"'), ("x" * 300, f'"{"x" * 256}..."')],
)
def test_a_text_is_quoted_like_in_go_and_cut(text: str, quoted: str) -> None:
    assert quote_text(text) == quoted


# The planner has code for these, and the parser never makes a call of "in" or "_in_".
PLANNED = {"_&&_", "_||_", "_==_", "_!=_", "_?_:_", "_[_]", *_OPTIONAL_MEMBERS, "@not_strictly_false"}
PLANNED |= {"__not_strictly_false__", "or", "orValue", "_in_", "in"}


def test_a_resolver_selects_the_overload_by_the_types_of_the_arguments() -> None:
    resolver = OverloadResolver([
        Function("kind", ("int",), lambda _: "int"),
        Function("kind", ("uint",), lambda _: "uint"),
        Function("kind", ("list",), lambda _: "list"),
        Function("kind", ("dyn",), lambda _: "any"),
        Function("kind", ("int", "int"), lambda _one, _other: "two"),
    ])  # fmt: skip

    assert [resolver(value) for value in (1, Uint(1), [], GrowingList(), "a")] == ["int", "uint", "list", "list", "any"]
    assert resolver(1, 2) == "two"
    with pytest.raises(TypeError, match="no such overload"):
        resolver(1, "a")


AUTHORIZER = {
    "path", "group", "serviceAccount", "resource", "subresource", "namespace", "name", "fieldSelector", "labelSelector",
    "check", "allowed", "reason", "errored", "error",
}  # fmt: skip


def test_each_declared_function_has_code() -> None:
    """Those of ``authorizer`` are only declared, since no request has one."""
    assert set(read_functions()) == {*_CODES, *PLANNED, *AUTHORIZER}


def test_each_declared_overload_has_code_for_its_kinds() -> None:
    """No condition that passes the check can meet a function without code."""
    names = {"google.protobuf.Timestamp": "timestamp", "google.protobuf.Duration": "duration", "null_type": "null"}
    missing = []
    for name, overloads in read_functions().items():
        code = _CODES.get(name)
        for overload in overloads if isinstance(code, OverloadResolver) else ():
            kinds = [
                names.get(one.name, one.name) if one.kind not in {"param", "dyn"} else "dyn"
                for one in overload.arguments
            ]
            accepted = any(
                len(row.types) == len(kinds)
                and all("dyn" in (a, b) or a == b for a, b in zip(row.types, kinds, strict=True))
                for row in code._functions
            )
            missing += [] if accepted else [overload.name]
    assert missing == []


def test_only_a_value_error_means_that_a_text_does_not_parse() -> None:
    assert can_parse(int, "7")
    assert not can_parse(int, "x")
    with pytest.raises(KeyError):
        can_parse({}.__getitem__, "x")
