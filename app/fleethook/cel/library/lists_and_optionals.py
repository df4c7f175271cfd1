"""Functions of lists, sets, maps and optionals.

Sources: k8s.io/apiserver/pkg/cel/library/lists.go, and cel-go's ext/lists.go, ext/sets.go and cel/library.go.
"""

from collections.abc import Callable, Sequence
from functools import cmp_to_key
from itertools import pairwise
from typing import Any, Final

from fleethook.cel.cost_and_length_limits import spend
from fleethook.cel.values.operators import COMPARISONS, contains, is_equal
from fleethook.cel.values.times import Duration, Timestamp, make_duration
from fleethook.cel.values.values_and_overloads import (
    MAX_INT,
    MAX_UINT,
    MIN_INT,
    NO_SUCH_OVERLOAD,
    NONE,
    Function,
    GrowingMap,
    Optional,
    Uint,
    quote_text,
)

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


LIST_FUNCTIONS: Final = (
    Function("isSorted", ("list",), _is_sorted),
    Function("sum", ("list",), _sum),
    Function("min", ("list",), _build_extreme("min", min)),
    Function("max", ("list",), _build_extreme("max", max)),
    Function("indexOf", ("list", "dyn"), _find_index),
    Function("lastIndexOf", ("list", "dyn"), _find_last_index),
)


_is_less: Final = COMPARISONS["_<_"]
_COMPARABLE: Final = (int, Uint, float, bool, Duration, Timestamp, str, bytes)


def _slice(values: Sequence[Any], start: int, end: int) -> Sequence[Any]:
    if start < 0 or end < 0:
        raise IndexError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise IndexError(f"cannot slice({start}, {end}), start index must be less than or equal to end index")
    if end > len(values):
        raise IndexError(f"cannot slice({start}, {end}), list is length {len(values)}")
    spend(end - start)
    return values[start:end]


def _flatten(values: Sequence[Any], depth: int = 1) -> list[Any]:
    if depth < 0:
        raise ValueError("level must be non-negative")
    flat: list[Any] = list(values)
    for _ in range(depth):
        if not any(isinstance(value, list) for value in flat):
            break
        spend(sum(len(value) if isinstance(value, list) else 1 for value in flat))
        flat = [member for value in flat for member in (value if isinstance(value, list) else [value])]
    return flat


def _drop_duplicates(values: Sequence[Any]) -> list[Any]:
    found: list[Any] = []
    for value in values:
        if not contains(found, value):
            found.append(value)
    return found


def _build_range(size: int) -> list[int]:
    spend(max(0, size))
    return list(range(size))


def _reverse(values: Sequence[Any]) -> Sequence[Any]:
    spend(len(values))
    return values[::-1]


def _sort_by(values: Sequence[Any], keys: Sequence[Any]) -> list[Any]:
    """Sort a list by the keys of its elements; all keys must have the same type."""
    if len(values) != len(keys):
        raise ValueError("@sortByAssociatedKeys() expected a list of the same size as the associated keys list")
    if keys and not isinstance(keys[0], _COMPARABLE):
        raise TypeError("list elements must be comparable")
    if len({type(key) for key in keys}) > 1:
        raise TypeError("list elements must have the same type")
    # The number of comparisons in a merge sort.
    spend(len(keys) * max(1, len(keys).bit_length()))
    pairs = sorted(zip(keys, values, strict=True), key=cmp_to_key(_compare_keys))
    return [value for _, value in pairs]


def _compare_keys(left: tuple[Any, Any], right: tuple[Any, Any]) -> int:
    try:
        return -1 if _is_less(left[0], right[0]) else int(_is_less(right[0], left[0]))
    except ValueError:
        # cel-go takes the error of NaN for "not less".
        return 0


def _contains_all(values: Sequence[Any], wanted: Sequence[Any]) -> bool:
    return all(contains(values, value) for value in wanted)


def _insert(entries: GrowingMap, key: Any, value: Any) -> GrowingMap:
    if key in entries:
        raise ValueError(f"insert failed: key {quote_text(str(key))} already exists")
    entries[key] = value
    return entries


def _insert_all(entries: GrowingMap, more: dict[Any, Any]) -> GrowingMap:
    for key, value in more.items():
        _insert(entries, key, value)
    return entries


def _get_value(optional: Optional) -> Any:
    if optional is NONE:
        raise ValueError("optional.none() dereference")
    return optional.value


def _get_at(position: int) -> Any:
    return lambda values: Optional(values[position]) if values else NONE


def _unwrap(values: Sequence[Any]) -> list[Any]:
    spend(len(values))
    if not all(isinstance(value, Optional) for value in values):
        raise TypeError("value is not optional")
    return [value.value for value in values if value is not NONE]


def _require_key(key: Any) -> None:
    """Raise TypeError for a value that cannot be a key of a map."""
    if type(key) not in (str, int, bool, Uint, float):
        raise TypeError(NO_SUCH_OVERLOAD)


def _insert_entry(entries: GrowingMap, key: Any, value: Any) -> GrowingMap:
    _require_key(key)
    return _insert(entries, key, value)


_L: Final = "list"
EXTENSION_FUNCTIONS: Final = (
    Function("slice", (_L, "int", "int"), _slice),
    Function("flatten", (_L,), _flatten),
    Function("flatten", (_L, "int"), _flatten),
    Function("distinct", (_L,), _drop_duplicates),
    Function("reverse", (_L,), _reverse),
    Function("sort", (_L,), lambda values: _sort_by(values, values)),
    Function("@sortByAssociatedKeys", (_L, _L), _sort_by),
    Function("lists.range", ("int",), _build_range),
    Function("sets.contains", (_L, _L), _contains_all),
    Function("sets.intersects", (_L, _L), lambda one, other: any(contains(other, value) for value in one)),
    Function("sets.equivalent", (_L, _L), lambda one, other: _contains_all(one, other) and _contains_all(other, one)),
    Function("cel.@mapInsert", ("map", "map"), _insert_all),
    Function("cel.@mapInsert", ("map", "dyn", "dyn"), _insert_entry),
    Function("optional.of", ("dyn",), Optional),
    Function("optional.ofNonZeroValue", ("dyn",), lambda value: Optional(value) if value else NONE),
    Function("optional.none", (), lambda: NONE),
    Function("hasValue", ("optional_type",), lambda optional: optional is not NONE),
    Function("value", ("optional_type",), _get_value),
    Function("first", (_L,), _get_at(0)),
    Function("last", (_L,), _get_at(-1)),
    Function("unwrapOpt", (_L,), _unwrap),
    Function("optional.unwrap", (_L,), _unwrap),
)
