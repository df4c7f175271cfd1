"""Arithmetic operators of numbers, and ``+`` of strings, lists, timestamps and durations."""

from collections.abc import Callable
from typing import Any, Final

from fleethook.cel.evaluation import spend
from fleethook.cel.values.times import Duration, Timestamp, add_duration, make_duration, subtract_times
from fleethook.cel.values.values import MAX_INT, MAX_UINT, MIN_INT, NO_SUCH_OVERLOAD, GrowingList, Uint

# As many characters take the memory of one list element.
_CHARACTERS_PER_ELEMENT: Final = 10
_LISTS: Final = frozenset({list, GrowingList})


def _check_int(value: int) -> int:
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
        return _check_int(left + right)
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
        return _check_int(left - right)
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
    return _check_int(product) if kind is int else _check_uint(product)


def divide(left: Any, right: Any) -> Any:
    """Return ``left / right``, rounded towards zero for integers; raises TypeError, OverflowError, ValueError."""
    kind = _get_common_type(left, right)
    if kind is float:
        return _divide_floats(left, right)
    if right == 0:
        raise ValueError("division by zero")
    quotient = abs(int(left)) // abs(int(right))
    quotient = quotient if (left < 0) == (right < 0) else -quotient
    return _check_int(quotient) if kind is int else _check_uint(quotient)


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
        return _check_int(-value)
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


OPERATORS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "_+_": add,
    "_-_": subtract,
    "_*_": multiply,
    "_/_": divide,
    "_%_": remainder,
}
