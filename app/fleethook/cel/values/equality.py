"""Equality and order of values, and membership in lists and maps."""

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from fleethook.cel.evaluation import spend
from fleethook.cel.values.times import Duration, Timestamp
from fleethook.cel.values.values import NO_SUCH_OVERLOAD, NONE, GrowingList, GrowingMap, Optional, Uint

_NUMBERS: Final = frozenset({int, float, Uint})
_ORDERED: Final = frozenset({str, bytes, bool, Timestamp, Duration})
_LISTS: Final = frozenset({list, GrowingList})
_MAPS: Final = frozenset({dict, GrowingMap})
# Comparing this many characters takes the time of comparing one element.
_CHARACTERS_PER_COMPARISON: Final = 100
# `is_equal` is recursive: deeper values could overflow the stack. No Kubernetes object is this deep.
MAX_DEPTH: Final = 200


def is_equal(left: Any, right: Any, depth: int = 0) -> bool:
    """Return whether two values are equal (cel-spec, Equality).

    Numbers of different types are equal by value; all other values of different types are unequal.

    Raises:
        ValueError: The values are nested too deeply.
        LimitReachedError: The comparison exceeds the limit for work.
    """
    kind, other = type(left), type(right)
    if kind is other and kind in _ORDERED:
        if kind is str or kind is bytes:
            spend(min(len(left), len(right)) // _CHARACTERS_PER_COMPARISON)
        return bool(left == right)
    if kind in _NUMBERS:
        return other in _NUMBERS and bool(left == right)
    if kind in _LISTS:
        return other in _LISTS and _are_lists_equal(left, right, depth)
    if kind in _MAPS:
        return other in _MAPS and _are_maps_equal(left, right, depth)
    if kind is Optional:
        return other is Optional and _are_optionals_equal(left, right, depth)
    return kind is other and bool(left == right)


def _are_lists_equal(left: Sequence[Any], right: Sequence[Any], depth: int) -> bool:
    if len(left) != len(right):
        return False
    _check_depth(depth)
    spend(len(left))
    return all(is_equal(one, other, depth + 1) for one, other in zip(left, right, strict=True))


def _are_maps_equal(left: Mapping[Any, Any], right: Mapping[Any, Any], depth: int) -> bool:
    if len(left) != len(right):
        return False
    _check_depth(depth)
    spend(len(left))
    return all(key in right and is_equal(value, right[key], depth + 1) for key, value in left.items())


def _are_optionals_equal(left: Optional, right: Optional, depth: int) -> bool:
    if left is NONE or right is NONE:
        return left is right
    return is_equal(left.value, right.value, depth + 1)


def _check_depth(depth: int) -> None:
    if depth >= MAX_DEPTH:
        raise ValueError(f"a value is nested deeper than {MAX_DEPTH} levels")


def contains(values: Any, value: Any) -> bool:
    """Return whether a list has the element ``value``, or a map the key ``value``.

    Raises:
        TypeError: ``values`` is neither a list nor a map.
    """
    kind = type(values)
    if kind in _LISTS:
        spend(len(values))
        return any(is_equal(value, one) for one in values)
    if kind in _MAPS:
        return type(value).__hash__ is not None and value in values
    raise TypeError(NO_SUCH_OVERLOAD)


def _build_comparison(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def is_ordered(left: Any, right: Any) -> bool:
        kind, other = type(left), type(right)
        if kind in _NUMBERS and other in _NUMBERS:
            if float in (kind, other):
                return compare(*_align_floats(left, right))
            return compare(left, right)
        if kind is other and kind in _ORDERED:
            return compare(left, right)
        raise TypeError(NO_SUCH_OVERLOAD)

    return is_ordered


def _align_floats(left: Any, right: Any) -> tuple[float, float]:
    """Return numbers as cel-go compares them (common/types/compare.go): as doubles, and NaN is an error."""
    first, second = float(left), float(right)
    if first != first or second != second:  # noqa: PLR0124 - only NaN differs from itself
        raise ValueError("NaN values cannot be ordered")
    return first, second


COMPARISONS: Final = {
    "_<_": _build_comparison(operator.lt),
    "_<=_": _build_comparison(operator.le),
    "_>_": _build_comparison(operator.gt),
    "_>=_": _build_comparison(operator.ge),
}
