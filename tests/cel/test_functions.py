import pytest

from fleethook.cel.check.types import read_functions
from fleethook.cel.functions import Function, OverloadResolver, can_parse
from fleethook.cel.plan.planner import _CODES, _OPTIONAL_MEMBERS
from fleethook.cel.values.values import GrowingList, Uint

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


def test_each_declared_function_has_code() -> None:
    assert set(read_functions()) == {*_CODES, *PLANNED}


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
