"""Functions of lists (k8s.io/apiserver/pkg/cel/library/lists.go), and the string functions with the same names."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Final

from fleethook.cel.functions import Function
from fleethook.cel.values.equality import is_equal
from fleethook.cel.values.times import Duration, Timestamp, make_duration
from fleethook.cel.values.values import MAX_INT, MAX_UINT, MIN_INT, Uint

_FAMILIES: Final = ((bool,), (int, float), (str,), (bytes, bytearray), (Timestamp,), (Duration,))


def _find_family(value: Any) -> tuple[type, ...]:
    for family in _FAMILIES:
        if isinstance(value, family):
            return family
    raise TypeError("no such overload")


def _require_comparable(values: Sequence[Any]) -> Sequence[Any]:
    """Return the values, or raise TypeError unless they are all numbers or all of one type."""
    if len({_find_family(value) for value in values}) > 1:
        raise TypeError("no such overload")
    return values


def _is_sorted(values: Sequence[Any]) -> bool:
    return not any(left > right for left, right in pairwise(_require_comparable(values)))


def _sum(values: Sequence[Any]) -> Any:
    _require_comparable(values)
    if values and isinstance(values[0], Duration):
        return make_duration(sum(value.nanos for value in values))
    total: Any = 0
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise TypeError("no such overload")
        total += value
    if isinstance(total, int):
        return _check_range(total, unsigned=bool(values) and isinstance(values[0], Uint))
    return total


def _check_range(total: int, *, unsigned: bool) -> int:
    if unsigned and total <= MAX_UINT:
        return Uint(total)
    if not MIN_INT <= total <= MAX_INT:
        raise OverflowError("integer overflow")
    return total


def _build_extreme(name: str, choose: Callable[[Sequence[Any]], Any]) -> Callable[[Sequence[Any]], Any]:
    def find(values: Sequence[Any]) -> Any:
        if not values:
            raise ValueError(f"{name} called on empty list")
        return choose(_require_comparable(values))

    return find


def _find_index(values: Sequence[Any], item: Any) -> int:
    return next((index for index, value in enumerate(values) if is_equal(value, item)), -1)


def _find_last_index(values: Sequence[Any], item: Any) -> int:
    return next((index for index in reversed(range(len(values))) if is_equal(values[index], item)), -1)


def _find_text(text: str, part: str, offset: int = 0) -> int:
    _check_offset(offset)
    if not part:
        return offset
    return text.find(part, offset)


def _find_last_text(text: str, part: str, offset: int | None = None) -> int:
    if offset is None:
        return text.rfind(part)
    _check_offset(offset)
    if not part:
        return offset
    return text.rfind(part, 0, offset + len(part)) if offset < len(text) else -1


def _check_offset(offset: int) -> None:
    if offset < 0:
        raise IndexError(f"index out of range: {offset}")


LIST_FUNCTIONS: Final = (
    Function("isSorted", ("list",), _is_sorted),
    Function("sum", ("list",), _sum),
    Function("min", ("list",), _build_extreme("min", min)),
    Function("max", ("list",), _build_extreme("max", max)),
    Function("indexOf", ("list", "dyn"), _find_index),
    Function("lastIndexOf", ("list", "dyn"), _find_last_index),
    *(
        Function(name, ("string", "string", *offset), code)
        for name, code in (("indexOf", _find_text), ("lastIndexOf", _find_last_text))
        for offset in ((), ("int",))
    ),
)
