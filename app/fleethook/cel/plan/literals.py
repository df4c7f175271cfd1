"""Compiles literals of lists, maps and messages (cel-go: evalList, evalMap, evalObj).

Messages are protobuf's well-known types, such as ``google.protobuf.Int64Value{value: 1}``. The values of Kubernetes
have no others, so all others are errors at run time, as in kube-apiserver.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from fleethook.cel.evaluation import COST, Evaluate, Frame
from fleethook.cel.plan.costs import COST_OF_LIST, COST_OF_MAP
from fleethook.cel.values.times import SECOND, Duration, Timestamp, make_duration, make_timestamp
from fleethook.cel.values.values import NONE, CelError, ObjectKey, Optional, Uint

# Other keys are no error in cel-go, which compares most of them by their identity.
_HASHED: Final = frozenset({str, int, bool, Uint, float, type(None), Duration, Timestamp})


def compile_list(elements: Sequence[Evaluate], optional: frozenset[int]) -> Evaluate:
    """Return code that creates a list; an element whose index is in ``optional`` is omitted if it has no value."""

    def make(frame: Frame) -> Any:
        frame[COST] += COST_OF_LIST
        made: list[Any] = []
        for position, element in enumerate(elements):
            value = element(frame)
            if type(value) is CelError:
                return value
            if position in optional:
                if type(value) is not Optional:
                    return CelError("cannot initialize optional list element from non-optional value")
                if value is NONE:
                    continue
                value = value.value
            made.append(value)
        return made

    return make


def compile_map(entries: Sequence[tuple[Evaluate, Evaluate, bool]]) -> Evaluate:
    """Return code that creates a map from codes of keys and values; an optional entry is omitted if it has no value."""

    def make(frame: Frame) -> Any:
        frame[COST] += COST_OF_MAP
        made: dict[Any, Any] = {}
        for compute_key, compute_value, optional in entries:
            key = compute_key(frame)
            if type(key) is CelError:
                return key
            value = compute_value(frame)
            if type(value) is CelError:
                return value
            if type(key) not in _HASHED:
                key = ObjectKey(key)
            if optional:
                if type(value) is not Optional:
                    return CelError("cannot initialize optional entry from non-optional value")
                if value is NONE:
                    made.pop(key, None)
                    continue
                value = value.value
            made[key] = value
        return made

    return make


# cel-go: common/cost.go, StructCreateBaseCost.
_COST_OF_MESSAGE: Final = 40
_PREFIX: Final = "google.protobuf."
_WRAPPERS: Final[dict[str, Any]] = {
    "BoolValue": False, "BytesValue": b"", "DoubleValue": 0.0, "FloatValue": 0.0, "Int32Value": 0, "Int64Value": 0,
    "StringValue": "", "UInt32Value": Uint(0), "UInt64Value": Uint(0),
}  # fmt: skip
_MAX_32: Final = {"Int32Value": 2**31 - 1, "UInt32Value": 2**32 - 1}


def compile_message(name: str, fields: Mapping[str, Evaluate]) -> Evaluate:
    """Return code that creates a message."""

    def make(frame: Frame) -> Any:
        frame[COST] += _COST_OF_MESSAGE
        values: dict[str, Any] = {}
        for field, code in fields.items():
            value = code(frame)
            if type(value) is CelError:
                return value
            values[field] = value
        try:
            return _build(name, values)
        except (ValueError, OverflowError) as error:
            return CelError(str(error))

    return make


def _build(name: str, values: Mapping[str, Any]) -> Any:
    kind = name.removeprefix(_PREFIX)
    if name.startswith(_PREFIX) and kind in _WRAPPERS:
        value = values.get("value", _WRAPPERS[kind])
        if kind in _MAX_32 and not -_MAX_32[kind] - 1 <= value <= _MAX_32[kind]:
            raise OverflowError("integer overflow")
        return value
    match kind if name.startswith(_PREFIX) else "":
        case "Timestamp":
            return make_timestamp(_read_nanos(values))
        case "Duration":
            return make_duration(_read_nanos(values))
        case "Struct":
            return values.get("fields", {})
        case "ListValue":
            return values.get("values", [])
        case "Value":
            return next((None if field == "null_value" else value for field, value in values.items()), None)
    raise ValueError(f"unknown type '{name}'")


def _read_nanos(values: Mapping[str, Any]) -> int:
    return int(values.get("seconds", 0)) * SECOND + int(values.get("nanos", 0))
