"""Compiles literals of lists and maps (cel-go: evalList, evalMap)."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from fleethook.cel.plan.costs import COST_OF_LIST, COST_OF_MAP
from fleethook.cel.plan.frame import COST, Evaluate, Frame
from fleethook.cel.values.times import Duration, Timestamp
from fleethook.cel.values.values import NONE, CelError, ObjectKey, Optional, Uint

# Other keys are no error in cel-go, which compares most of them by their identity.
_HASHED: Final = frozenset({str, int, bool, Uint, float, type(None), Duration, Timestamp})


class Entry(NamedTuple):
    """The code of one entry of a map."""

    key: Evaluate
    value: Evaluate
    optional: bool


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


def compile_map(entries: Sequence[Entry]) -> Evaluate:
    """Return code that creates a map."""

    def make(frame: Frame) -> Any:
        frame[COST] += COST_OF_MAP
        made: dict[Any, Any] = {}
        for entry in entries:
            key = entry.key(frame)
            if type(key) is CelError:
                return key
            value = entry.value(frame)
            if type(value) is CelError:
                return value
            if type(key) not in _HASHED:
                key = ObjectKey(key)
            if entry.optional:
                if type(value) is not Optional:
                    return CelError("cannot initialize optional entry from non-optional value")
                if value is NONE:
                    made.pop(key, None)
                    continue
                value = value.value
            made[key] = value
        return made

    return make
