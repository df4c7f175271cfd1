"""The budget of a short rule (`fleethook.admission.short_rules`), and the operations that spend it."""

import types
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, Final, NamedTuple

from fleethook.admission.members import Elements, Members
from fleethook.admission.named_members import Named, NotShortError, has

BUDGET: Final = 50_000
"""Units of one call. A unit is at most 0.2 µs, so a call takes at most 10 ms."""
_SCALARS: Final = frozenset({str, int, float, bool, type(None)})
_MAX_TEXT: Final = 1_000
"""Characters of the longest constant, and of the longest part of a text that a rule makes."""
_MAX_NUMBER: Final = 2**63

_MAX_CONSTANTS: Final = 1_000
_MAX_COMPARED: Final = 32_768
_MAX_JOINED: Final = 16_384
_SORT_COST: Final = 20
_MAPPINGS: Final = (Members, dict, types.MappingProxyType)
_SIZED: Final = frozenset({Elements, list, tuple, str, dict, Members, set, frozenset})


class ShortFunction(NamedTuple):
    """The short form of a rule.

    Attributes:
        function: The function.
        names: The members that it and its functions name.
        is_named: Whether it changes nothing but members that it names.
    """

    function: Callable[..., Any]
    names: Collection[str]
    is_named: bool


class Budget:
    """The units that are left for a call, and the operations that spend them."""

    def __init__(self) -> None:
        """Prepare; the caller sets `left` before each call."""
        self.left = 0

    def spend(self, units: int) -> None:
        """Spend units; raises NotShortError."""
        self.left -= units
        if self.left < 0:
            raise NotShortError

    def each(self, values: Any, units: int) -> Iterable[Any]:
        """Return the values of an iterable, and spend units for each."""
        if type(values) not in _SIZED:
            return self.step(values, units)
        self.left -= units * len(values)
        if self.left < 0:
            raise NotShortError
        iterable: Iterable[Any] = values
        return iterable

    def step(self, values: Iterable[Any], units: int) -> Iterator[Any]:
        """Yield the values of an iterable that may grow meanwhile, and spend units for each."""
        for one in values:
            self.left -= units
            if self.left < 0:
                raise NotShortError
            yield one

    def each_scalar(self, values: Iterable[Any]) -> Iterator[Any]:
        """Yield values that are compared with each other."""
        for one in values:
            self.spend(_SORT_COST)
            yield scalar(one)

    def join(self, separator: str, values: Iterable[Any]) -> str:
        """Return ``separator.join(values)``."""
        joined = self.text(separator).join([describe(one) for one in self.step(values, 1 + len(separator) // 100)])
        if len(joined) > _MAX_JOINED:
            raise NotShortError
        return joined

    def text(self, value: Any) -> str:
        """Return a text whose characters a method reads."""
        if type(value) is not str:
            raise NotShortError
        self.left -= len(value) + 1
        if self.left < 0:
            raise NotShortError
        return value

    def sized(self, value: Any) -> Any:
        """Return a sequence that is copied in part."""
        if type(value) not in (str, list, tuple, Elements):
            raise NotShortError
        self.spend(len(value) // 4 + 1)
        return value

    def members(self, value: Any) -> Any:
        """Return an object whose members are listed."""
        if type(value) not in _MAPPINGS:
            raise NotShortError
        self.spend(2 * len(value) + 1)
        return value

    def contains(self, value: Any, values: Any) -> bool:
        """Return ``value in values``."""
        kind = type(values)
        if kind is str:
            self.spend((len(scalar(value) or "") + 10) * len(values) // 100 + 1)
        elif kind in (list, tuple, Elements):
            self.spend(len(values))
        elif isinstance(values, Named):
            return has(values, scalar(value))
        elif kind not in _MAPPINGS and kind not in (set, frozenset, type({}.keys())):
            raise NotShortError
        return scalar(value) in values


def scalar(value: Any) -> Any:
    """Return a value that is compared, hashed or stored; raises NotShortError for containers: their size is unknown."""
    if type(value) not in _SCALARS or (type(value) is str and len(value) > _MAX_COMPARED):
        raise NotShortError
    return value


def describe(value: Any) -> Any:
    """Return a value that becomes part of a text; raises NotShortError."""
    if type(value) is str:
        if len(value) > _MAX_TEXT:
            raise NotShortError
        return value
    return number(value) if value is not None else value


def number(value: Any) -> Any:
    """Return an operand; raises NotShortError for other values than small numbers."""
    if type(value) not in (int, float, bool) or (type(value) is int and abs(value) > _MAX_NUMBER):
        raise NotShortError
    return value


def list_contents(value: Any) -> list[Any]:
    """Return the elements of a collection, and for any other value one that is no constant."""
    if type(value) is dict:
        return [*value, *value.values()]
    return list(value) if type(value) in (list, set) else [value]


def is_constant(value: Any, depth: int = 2) -> bool:
    """Return whether a value never changes and is small; tuples have at most ``depth`` levels."""
    if type(value) in (tuple, frozenset):
        return depth > 0 and len(value) <= _MAX_CONSTANTS and all(is_constant(one, depth - 1) for one in value)
    if type(value) is int:
        return abs(value) <= _MAX_NUMBER
    return type(value) in _SCALARS and (type(value) is not str or len(value) <= _MAX_TEXT)
