"""Stand-ins for what is a node pool's own, so that one plan serves all pools that differ by that alone.

A plan is compiled with the mark as the name of its pool. What depends on the pool is then where the mark is: in a few
labels, in a node selector, in values that say ``{{nodepool}}``. Other marks stand for the images and replicas that an
entry of the pool's own sets, and for that entry's number. Filling them in costs some microseconds, where compiling
costs a millisecond.
"""

import re
from typing import Any, Final, NamedTuple

import msgspec

from app.model.json import JSON

# Characters for private use: no name, label or value that an apiserver takes for one has them.
_START: Final = "\ue000"
POOL_MARK: Final = "\ue000pool\ue001"
_MARK: Final = re.compile("\ue000(pool|entry|text)([0-9]*)\ue001")
# Numbers of replicas that nobody asks for. The first one stands for the pool's own.
SMALLEST_MARK: Final = 2_147_480_000
REPLICAS_MARK: Final = 2_147_480_017
_FIRST_NUMBER: Final = 2_147_480_100
MAX_NUMBERS: Final = 100
_NUMBERS: Final = re.compile(r"2147480017|21474801[0-9]{2}")
_SAFE: Final = re.compile(r"[A-Za-z0-9._-]+")


def entry_mark(position: int) -> str:
    """Return the mark for the number of the entry at that position among those that apply to the pool."""
    return f"\ue000entry{position}\ue001"


def text_mark(number: int) -> str:
    """Return the mark for a text that an entry sets."""
    return f"\ue000text{number}\ue001"


def number_mark(number: int) -> int:
    """Return the mark for a number that an entry sets."""
    return _FIRST_NUMBER + number


class EntryValues(NamedTuple):
    """The values that replace the marks of the entries that apply to a pool."""

    entries: tuple[int, ...] = ()
    """Their numbers."""
    texts: tuple[str, ...] = ()
    numbers: tuple[int, ...] = ()


NO_VALUES: Final = EntryValues()


class PoolValues(NamedTuple):
    """The values that replace all marks of a plan."""

    pool: str
    replicas: int | None = None
    """The pool's own."""
    of_entries: EntryValues = NO_VALUES

    def fill_text(self, text: str) -> str:
        """Return a text with the values for its marks."""
        if _START not in text:
            return text
        if self.of_entries is NO_VALUES:
            return text.replace(POOL_MARK, self.pool)
        return _MARK.sub(self._value_of, text)

    def _value_of(self, mark: re.Match[str]) -> str:
        kind, number = mark.groups()
        if kind == "pool":
            return self.pool
        if kind == "entry":
            return str(self.of_entries.entries[int(number)])
        return self.of_entries.texts[int(number)]

    def fill_number(self, number: int) -> int | None:
        """Return a number, or the value that it is the mark for."""
        if number == REPLICAS_MARK:
            return self.replicas
        position = number - _FIRST_NUMBER
        return self.of_entries.numbers[position] if 0 <= position < len(self.of_entries.numbers) else number

    def fill_json(self, text: bytes) -> bytes:
        """Return JSON with the values for its marks."""
        return self.fill_numbers(self.fill_text(text.decode())).encode()

    def fill_numbers(self, text: str) -> str:
        """Return a text with the values for its marks of numbers, leaving other marks."""
        return _NUMBERS.sub(lambda mark: str(self.fill_number(int(mark[0]))), text)

    def fill(self, value: JSON) -> JSON:
        """Return ``value`` with the values for its marks, for values that are small."""
        if isinstance(value, str):
            return self.fill_text(value)
        if isinstance(value, dict):
            return {self.fill_text(name): self.fill(inner) for name, inner in value.items()}
        if type(value) is int:
            return self.fill_number(value)
        return [self.fill(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def is_safe_name(pool: str) -> bool:
    """Return whether a pool's name needs no escaping in JSON, so that it can be filled into a text."""
    return _SAFE.fullmatch(pool) is not None


def has_mark(value: object) -> bool:
    """Return whether a value that JSON can express has any mark in it."""
    text = msgspec.json.encode(value).decode()
    return _START in text or _NUMBERS.search(text) is not None


def mark_name(value: JSON, pool: str) -> JSON:
    """Return ``value`` with the mark for every text that is the pool's name."""
    if isinstance(value, str):
        return POOL_MARK if value == pool else value
    if isinstance(value, dict):
        return {name: mark_name(inner, pool) for name, inner in value.items()}
    if isinstance(value, list):
        return [mark_name(inner, pool) for inner in value]
    return value


class Filler:
    """Fills what is a pool's own into values with marks, leaving everything else shared.

    Which containers have a mark inside is found out once for all pools.
    """

    __slots__ = ("_kept", "_known")

    def __init__(self) -> None:
        """Prepare; nothing is known yet."""
        self._known: Final[dict[int, bool]] = {}
        # An id means the same object only as long as that is alive.
        self._kept: Final[list[object]] = []

    def is_marked(self, value: Any) -> bool:
        """Return whether there is a mark in ``value``: JSON, or named tuples and tuples of JSON."""
        if isinstance(value, str):
            return _START in value
        if type(value) is int:
            return value >= SMALLEST_MARK
        if not isinstance(value, (dict, list, tuple)):
            return False
        known = self._known.get(id(value))
        if known is None:
            parts = (*value.keys(), *value.values()) if isinstance(value, dict) else value
            known = any([self.is_marked(part) for part in parts])  # noqa: C419 - every part is to be known
            self._known[id(value)] = known
            self._kept.append(value)
        return known

    def fill(self, value: Any, values: PoolValues) -> Any:
        """Return ``value`` for a pool; the part of it that has no mark is shared."""
        return self._fill(value, values, {})

    def _fill(self, value: Any, values: PoolValues, made: dict[int, Any]) -> Any:
        if isinstance(value, str):
            return values.fill_text(value)
        if type(value) is int:
            return values.fill_number(value)
        if not self.is_marked(value):
            return value
        if id(value) in made:  # Branches that documents share stay shared.
            return made[id(value)]
        filled: Any
        if isinstance(value, dict):
            filled = {self._fill(name, values, made): self._fill(inner, values, made) for name, inner in value.items()}
        else:
            parts = [self._fill(part, values, made) for part in value]
            filled = parts if isinstance(value, list) else self._tuple(value, parts)
        made[id(value)] = filled
        return filled

    @staticmethod
    def _tuple(value: Any, parts: list[Any]) -> Any:
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
