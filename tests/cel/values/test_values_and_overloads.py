from fleethook.cel.check.types_and_declarations import read_functions
from fleethook.cel.plan.planner import _CODES, _OPTIONAL_MEMBERS
from fleethook.cel.values.values_and_overloads import OverloadResolver, make_range_error


def test_the_error_for_a_huge_integer_omits_its_digits() -> None:
    assert make_range_error(2**63).text == "integer out of range: 9223372036854775808"
    assert make_range_error(-(10**5_000)).text == "integer out of range: more than 30 digits"


# The planner has code for these, and the parser never makes a call of "in" or "_in_".
PLANNED = {"_&&_", "_||_", "_==_", "_!=_", "_?_:_", "_[_]", *_OPTIONAL_MEMBERS, "@not_strictly_false"}
PLANNED |= {"__not_strictly_false__", "or", "orValue", "_in_", "in"}


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
