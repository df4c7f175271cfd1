"""Stand-ins for what is a node pool's own, so that one plan serves all pools that differ by that alone.

A plan is compiled with the mark as the name of its pool. What depends on the pool is then where the mark is: in a few
labels, in a node selector, in values that say ``{{nodepool}}``. Other marks stand for the values that an entry of the
pool's own sets, and for that entry's number. Filling them in costs some microseconds, where compiling
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
    """Fills a pool's own values into a value with marks, leaving everything else shared.

    The places of the marks are looked for once for all pools, so that filling visits nothing but them and the
    containers around them.
    """

    __slots__ = ("_parts", "_root")

    def __init__(self, value: Any) -> None:
        """Look for the marks.

        Args:
            value: JSON, or named tuples and tuples of JSON; it must not change later.
        """
        finder = _MarkFinder()
        self._root: Final = finder.find(value)
        self._parts: Final = finder.parts

    def fill(self, values: PoolValues) -> Any:
        """Return the value for a pool; the parts of it that have no mark are shared."""
        # A part is filled after the parts inside it, and once, so that branches that documents share stay shared.
        made: list[Any] = []
        for part in self._parts:
            made.append(part.fill(made, values))
        return made[self._root.number] if isinstance(self._root, _Inner) else _filled(self._root, made, values)


class _Inner(NamedTuple):
    """A container with marks inside."""

    number: int
    """Its position among the parts."""


class _Plain(NamedTuple):
    """A value without marks."""

    value: Any


_Found = _Inner | _Plain | str | int
"""Where the marks of a value are: in a container's parts, nowhere, or in the text or the number itself."""


def _filled(found: _Found, made: list[Any], values: PoolValues) -> Any:
    if isinstance(found, str):
        return values.fill_text(found)
    if isinstance(found, _Inner):
        return made[found.number]
    return found.value if isinstance(found, _Plain) else values.fill_number(found)


class _Part:
    """A container with marks inside, and the members that have them."""

    __slots__ = ("_inner", "_numbers", "_texts", "_value")

    def __init__(self, value: Any, members: list[tuple[Any, _Found]]) -> None:
        self._value: Final = value
        self._texts: Final = [(at, found) for at, found in members if isinstance(found, str)]
        self._numbers: Final = [(at, found) for at, found in members if type(found) is int]
        self._inner: Final = [(at, found.number) for at, found in members if isinstance(found, _Inner)]

    def fill(self, made: list[Any], values: PoolValues) -> Any:
        value = self._value
        filled: Any = value.copy() if isinstance(value, dict) else list(value)
        for at, text in self._texts:
            filled[at] = values.fill_text(text)
        for at, number in self._numbers:
            filled[at] = values.fill_number(number)
        for at, number in self._inner:
            filled[at] = made[number]
        if not isinstance(value, tuple):
            return filled
        return type(value)(*filled) if hasattr(value, "_fields") else tuple(filled)


class _Renamed:
    """An object with marks in the names of its members."""

    __slots__ = ("_members",)

    def __init__(self, members: list[tuple[_Found, _Found]]) -> None:
        self._members: Final = members

    def fill(self, made: list[Any], values: PoolValues) -> Any:
        return {_filled(name, made, values): _filled(inner, made, values) for name, inner in self._members}


class _MarkFinder:
    """Finds the containers that have marks inside; those inside others come first."""

    def __init__(self) -> None:
        self.parts: Final[list[_Part | _Renamed]] = []
        self._known: Final[dict[int, _Found]] = {}

    def find(self, value: Any) -> _Found:
        if isinstance(value, str):
            return value if _START in value else _Plain(value)
        if type(value) is int:
            return value if value >= SMALLEST_MARK else _Plain(value)
        if not isinstance(value, (dict, list, tuple)):
            return _Plain(value)
        known = self._known.get(id(value))
        if known is None:
            known = self._known[id(value)] = self._find_inside(value)
        return known

    def _find_inside(self, value: Any) -> _Found:
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        members = [(name, self.find(name), self.find(inner)) for name, inner in pairs]
        part: _Part | _Renamed
        if any(not isinstance(name, _Plain) for _, name, _ in members):
            part = _Renamed([(name, inner) for _, name, inner in members])
        elif any(not isinstance(inner, _Plain) for _, _, inner in members):
            part = _Part(value, [(at, inner) for at, _, inner in members])
        else:
            return _Plain(value)
        self.parts.append(part)
        return _Inner(len(self.parts) - 1)
