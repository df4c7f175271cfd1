"""Compiles literals and comprehensions of lists, maps and messages (cel-go: evalList, evalMap, evalObj, evalFold).

Messages are protobuf's well-known types, such as ``google.protobuf.Int64Value{value: 1}``. The values of Kubernetes
have no others, so all others are errors at run time, as in kube-apiserver.

Comprehensions are the loops behind macros such as ``all`` and ``map``.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from typing import Any, Final, NamedTuple

from fleethook.cel.evaluation import ABSENT, COST, LIMIT, Evaluate, Frame, LimitReachedError
from fleethook.cel.plan.costs import COST_OF_LIST, COST_OF_MAP
from fleethook.cel.values.times import SECOND, Duration, Timestamp, make_duration, make_timestamp
from fleethook.cel.values.values import NONE, CelError, GrowingList, GrowingMap, ObjectKey, Optional, Uint, get_kind

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


# cel-go's error names Go types.
_GO_TYPES: Final = {
    "string": "types.String",
    "bytes": "types.Bytes",
    "int": "types.Int",
    "uint": "types.Uint",
    "double": "types.Double",
    "bool": "types.Bool",
    "null": "types.Null",
}


class Loop(NamedTuple):
    """The code of a comprehension, and the indices of its variables in a frame."""

    range: Evaluate
    condition: Evaluate
    step: Evaluate
    result: Evaluate
    accumulator: int
    first: int
    second: int
    has_pairs: bool
    """Whether the second variable is in use: then the first one has the indices of a list."""


def compile_accumulator(slot: int, initial: Evaluate) -> Evaluate:
    """Return code that reads the accumulator of a comprehension and initializes it at the first read."""

    def read(frame: Frame) -> Any:
        value = frame[slot]
        if value is ABSENT:
            value = initial(frame)
            # cel-go takes an optional in an accumulator, such as that of optMap, for its value.
            if type(value) is Optional:
                value = value.value
            if type(value) is list and not value:
                value = GrowingList()
            elif type(value) is dict and not value:
                value = GrowingMap()
            frame[slot] = value
        return value

    return read


def compile_loop(loop: Loop) -> Evaluate:
    """Return code that evaluates a comprehension."""
    result, collected = loop.result, loop.accumulator

    def evaluate(frame: Frame) -> Any:
        values = loop.range(frame)
        if type(values) is CelError:
            return values
        frame[collected] = ABSENT
        if not isinstance(values, list | dict):
            name = _GO_TYPES.get(get_kind(type(values)), "ref.Val")
            return CelError(f"got '{name}', expected iterable type")
        _run_steps(loop, frame, values)
        if frame[COST] > frame[LIMIT]:
            raise LimitReachedError
        made = result(frame)
        frame[collected] = ABSENT
        if type(made) is GrowingList:
            return list(made)
        return dict(made) if type(made) is GrowingMap else made

    return evaluate


def _run_steps(loop: Loop, frame: Frame, values: Any) -> None:
    _, condition, step, _, collected, first, second, has_pairs = loop
    if isinstance(values, dict):
        pairs: Iterable[tuple[Any, Any]] = values.items()
    else:
        pairs = enumerate(values) if has_pairs else zip(values, repeat(None))
    for key, value in pairs:
        frame[first], frame[second] = key.value if type(key) is ObjectKey else key, value
        if condition(frame) is False:
            return
        frame[collected] = step(frame)
        if frame[COST] > frame[LIMIT]:
            raise LimitReachedError
