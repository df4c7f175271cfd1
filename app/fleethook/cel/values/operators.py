"""Operators: arithmetic, equality, order, and membership in lists and maps."""

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from fleethook.cel.cost_and_length_limits import spend
from fleethook.cel.values.times import Duration, Timestamp, add_duration, make_duration, subtract_times
from fleethook.cel.values.values_and_overloads import (
    MAX_INT,
    MAX_UINT,
    MIN_INT,
    NO_SUCH_OVERLOAD,
    NONE,
    Foreign,
    GrowingList,
    GrowingMap,
    Optional,
    Uint,
)

# As many characters take the memory of one list element.
_CHARACTERS_PER_ELEMENT: Final = 10


def check_int(value: int) -> int:
    """Return an integer; raises OverflowError outside 64 bits."""
    if MIN_INT <= value <= MAX_INT:
        return value
    raise OverflowError("integer overflow")


def _check_uint(value: int) -> Uint:
    if 0 <= value <= MAX_UINT:
        return Uint(value)
    raise OverflowError("unsigned integer overflow")


def add(left: Any, right: Any) -> Any:
    """Return ``left + right``; the list that a comprehension builds grows in place.

    Raises:
        TypeError: CEL has no sum of these types.
        OverflowError: The sum is out of range.
    """
    kind, other = type(left), type(right)
    if kind in _LISTS and other in _LISTS:
        return _add_lists(left, right)
    if kind is not other:
        return _add_times(left, right)
    if kind is int:
        return check_int(left + right)
    if kind is str or kind is bytes:
        # For operands of dynamic type, Kubernetes charges 1, however long they are.
        spend((len(left) + len(right)) // _CHARACTERS_PER_ELEMENT)
    elif kind is not float:
        return _check_uint(int(left) + int(right)) if kind is Uint else _add_times(left, right)
    return left + right


def _add_lists(left: list[Any], right: list[Any]) -> list[Any]:
    if type(left) is GrowingList:
        spend(len(right))
        left.extend(right)
        return left
    spend(len(left) + len(right))
    return left + right


def _add_times(left: Any, right: Any) -> Any:
    if type(right) is Duration:
        if type(left) is Duration:
            return make_duration(left.nanos + right.nanos)
        if type(left) is Timestamp:
            return add_duration(left, right)
    if type(left) is Duration and type(right) is Timestamp:
        return add_duration(right, left)
    raise TypeError(NO_SUCH_OVERLOAD)


def subtract(left: Any, right: Any) -> Any:
    """Return ``left - right``; raises TypeError, OverflowError."""
    kind, other = type(left), type(right)
    if kind is other and kind is int:
        return check_int(left - right)
    if kind is other and kind is Uint:
        return _check_uint(int(left) - int(right))
    if kind is other and kind is float:
        return left - right
    if kind is other and kind is Timestamp:
        return subtract_times(left, right)
    if other is Duration and kind is Duration:
        return make_duration(left.nanos - right.nanos)
    if other is Duration and kind is Timestamp:
        return add_duration(left, make_duration(-right.nanos))
    raise TypeError(NO_SUCH_OVERLOAD)


def multiply(left: Any, right: Any) -> Any:
    """Return ``left * right``; raises TypeError, OverflowError."""
    kind = _get_common_type(left, right)
    if kind is float:
        return left * right
    product = int(left) * int(right)
    return check_int(product) if kind is int else _check_uint(product)


def divide(left: Any, right: Any) -> Any:
    """Return ``left / right``, rounded towards zero for integers; raises TypeError, OverflowError, ValueError."""
    kind = _get_common_type(left, right)
    if kind is float:
        return _divide_floats(left, right)
    if right == 0:
        raise ValueError("division by zero")
    quotient = abs(int(left)) // abs(int(right))
    quotient = quotient if (left < 0) == (right < 0) else -quotient
    return check_int(quotient) if kind is int else _check_uint(quotient)


def _divide_floats(left: float, right: float) -> float:
    if right:
        return left / right
    # IEEE 754: the sign of the zero decides the sign of the infinity.
    return left * float("inf") * (-1.0 if str(right).startswith("-") else 1.0)


def remainder(left: Any, right: Any) -> Any:
    """Return ``left % right`` with the sign of ``left``; raises TypeError, ValueError."""
    kind = _get_common_type(left, right)
    if kind is float:
        raise TypeError(NO_SUCH_OVERLOAD)
    if right == 0:
        raise ValueError("modulus by zero")
    if left == MIN_INT and right == -1:
        raise OverflowError("integer overflow")
    rest = abs(int(left)) % abs(int(right))
    return (-rest if left < 0 else rest) if kind is int else Uint(rest)


def negate(value: Any) -> Any:
    """Return ``-value``; raises TypeError, OverflowError."""
    if type(value) is int:
        return check_int(-value)
    if type(value) is float:
        return -value
    if type(value) is Duration:
        return make_duration(-value.nanos)
    raise TypeError(NO_SUCH_OVERLOAD)


def _get_common_type(left: Any, right: Any) -> type:
    kind = type(left)
    if kind is type(right) and kind in (int, float, Uint):
        return kind
    raise TypeError(NO_SUCH_OVERLOAD)


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


def equals(left: Any, right: Any) -> bool:
    """Return ``left == right``; raises TypeError if ``left`` alone has a type that Kubernetes adds to CEL."""
    if _is_foreign_to(left, right):
        raise TypeError(NO_SUCH_OVERLOAD)
    return is_equal(left, right)


def differs(left: Any, right: Any) -> bool:
    """Return ``left != right``."""
    return _is_foreign_to(left, right) or not is_equal(left, right)


def _is_foreign_to(left: Any, right: Any) -> bool:
    return isinstance(left, Foreign) and type(left) is not type(right) and right is not None


COMPARISONS: Final = {
    "_<_": _build_comparison(operator.lt),
    "_<=_": _build_comparison(operator.le),
    "_>_": _build_comparison(operator.gt),
    "_>=_": _build_comparison(operator.ge),
}

OPERATORS: Final[dict[str, Callable[..., Any]]] = {
    "_+_": add,
    "_-_": subtract,
    "_*_": multiply,
    "_/_": divide,
    "_%_": remainder,
    "-_": negate,
    "_==_": equals,
    "_!=_": differs,
    "@in": lambda value, values: contains(values, value),
}
"""The operators with one code for all types, by their functions."""
