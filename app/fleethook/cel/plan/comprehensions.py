"""Compiles comprehensions, the loops behind macros such as ``all`` and ``map`` (cel-go: evalFold)."""

from collections.abc import Iterable
from itertools import repeat
from typing import Any, Final, NamedTuple

from fleethook.cel.evaluation import ABSENT, COST, LIMIT, Evaluate, Frame, LimitReachedError
from fleethook.cel.values.values import CelError, GrowingList, GrowingMap, ObjectKey, Optional, get_kind

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
