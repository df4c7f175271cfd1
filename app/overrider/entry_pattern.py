"""Entries that differ in the values that they set, as one pattern with a mark for each of these values.

An overrider with an entry of its own for each node pool would otherwise need a plan for each. The pools whose entries
have the same pattern share a plan, and their values are filled in as the pool's name is.

A mark stands for a value that differs from all others that a step may compare it with. A value that is written anywhere
else in the template or in the entries is therefore no mark's, but a part of the pattern. Equal values have equal marks.
"""

import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

import msgspec

from app.model.json import JSON, JSONObject, as_object
from app.model.openyurt import NODEPOOL_TOKEN, TWEAK_POOL_TOKEN
from app.overrider.entry_selection import EntrySelection
from app.overrider.entry_values import map_values
from app.overrider.pool_mark import (
    MAX_NUMBERS,
    NO_VALUES,
    REPLICAS_MARK,
    EntryValues,
    entry_mark,
    number_mark,
    text_mark,
)

_DIGITS: Final = re.compile(r"\d+")
# Of a count of replicas, which is below 2^31.
_MAX_DIGITS: Final = 10
# 1 is the default of replicas, and 0 the zero value.
_SMALLEST_NUMBER: Final = 2
# A text with tokens is filled in for each pool, to look for values in it.
_MAX_FILLED_LENGTH: Final = 50_000
# Each value is looked for in the whole template. Entries with more values for one pool are taken as they are written.
_MAX_VALUES: Final = 64


class AppliedEntry(NamedTuple):
    """An entry that applies to a pool."""

    field: str
    """Its path, such as ``entries[0]``."""
    entry: Mapping[str, JSON]


class Applied(NamedTuple):
    """The entries that apply to a pool."""

    key: Hashable
    """Equal for pools whose entries differ by `values` alone."""
    numbers: tuple[int, ...]
    """Those of the entries."""
    slots: tuple[tuple["_Slot", ...] | None, ...] = ()
    """How the values of each entry are written, None for an entry that is taken as it is; empty if all are."""
    values: EntryValues = NO_VALUES


class _Shape(NamedTuple):
    """An entry without its values."""

    number: int
    """Equal for entries that differ by their values alone."""
    values: tuple[str | int, ...]
    text: str
    """The rest of it, as JSON."""
    numbers: frozenset[int]
    """Those in the rest of it."""


_Slot = tuple[str, str | int]
"""How a value is written in a pattern: a mark, or literally."""


class EntryPatterns:
    """The entries of an overrider, by pool."""

    def __init__(self, entries: JSON, *, template: JSON) -> None:
        """Index the entries.

        Args:
            entries: Those of an overrider; nothing about their shape is taken for granted.
            template: Everything of the subject that says images or replicas, its node pools' own patches aside.
        """
        self._entries: Final[list[JSON]] = entries if isinstance(entries, list) else []
        self._selection: Final = EntrySelection(entries)
        every = [entry for number, entry in enumerate(self._entries) if self._selection.is_for_every(number)]
        self._text: Final = _encode((template, every))
        self._has_token: Final = _has_token(self._text)
        self._numbers: Final = _find_numbers(self._text)
        self._shapes: Final[dict[int, _Shape]] = {}
        self._known: Final[dict[str, int]] = {}

    def find_literal(self, pool: str) -> Applied:
        """Return the entries that apply to ``pool``, as they are written."""
        numbers = self._selection.applying(pool)
        return Applied(numbers, numbers)

    def find(self, pool: str, config: JSONObject | None) -> Applied:
        """Return the pattern of the entries that apply to ``pool``, and the pool's values.

        Args:
            pool: The pool's name, which needs no escaping in JSON.
            config: The subject's settings for the pool.
        """
        numbers = self._selection.applying(pool)
        shapes = [None if self._selection.is_for_every(number) else self._find_shape(number) for number in numbers]
        own = [shape for shape in shapes if shape is not None]
        if not own or sum(len(shape.values) for shape in own) > _MAX_VALUES:
            return Applied(numbers, numbers)
        taken = self._make_slots(pool, config or {}, own)
        slots = tuple(None if shape is None else taken.take(len(shape.values)) for shape in shapes)
        key = tuple(
            number if shape is None else (shape.number, written)
            for number, shape, written in zip(numbers, shapes, slots, strict=True)
        )
        return Applied(key, numbers, slots, EntryValues(numbers, tuple(taken.texts), tuple(taken.numbers)))

    def entries_of(self, applied: Applied) -> tuple[AppliedEntry, ...]:
        """Return the entries that apply, with the marks of the pattern."""
        found: list[AppliedEntry] = []
        slots = applied.slots or (None,) * len(applied.numbers)
        for position, (number, written) in enumerate(zip(applied.numbers, slots, strict=True)):
            entry = as_object(self._entries[number])
            if written is None:
                found.append(AppliedEntry(f"entries[{number}]", entry))
            else:
                marked = map_values(entry, partial(_take_next, iter([value for _, value in written])))
                found.append(AppliedEntry(f"entries[{entry_mark(position)}]", marked))
        return tuple(found)

    def _find_shape(self, number: int) -> _Shape:
        """Return the shape of an entry that selects pools by name."""
        shape = self._shapes.get(number)
        if shape is None:
            entry = {name: value for name, value in as_object(self._entries[number]).items() if name != "pools"}
            values: list[str | int] = []
            text = _encode(map_values(entry, partial(_collect, values)))
            shape = _Shape(self._known.setdefault(text, len(self._known)), tuple(values), text, _find_numbers(text))
            self._shapes[number] = shape
        return shape

    def _make_slots(self, pool: str, config: JSONObject, shapes: list[_Shape]) -> "_Slots":
        patch = _encode(config["patch"]) if config.get("patch") else ""
        texts = [text for text in (patch, *(shape.text for shape in shapes)) if text]
        too_long = self._has_token and len(self._text) > _MAX_FILLED_LENGTH
        too_long = too_long or any(len(text) > _MAX_FILLED_LENGTH and _has_token(text) for text in texts)
        shared = _fill_name(self._text, pool) if self._has_token and not too_long else self._text
        known = (shared, *(_fill_name(text, pool) for text in texts))
        numbers = [self._numbers, _find_numbers(patch), *(shape.numbers for shape in shapes)]
        slots = _Slots()
        for shape in shapes:
            for value in shape.values:
                if isinstance(value, int):
                    slots.add_number(value, numbers, config.get("replicas"))
                else:
                    slots.add_text(value.replace(NODEPOOL_TOKEN, pool), known, literal=too_long)
        return slots


class _Slots:
    """How the values of a pool's entries are written, in the order of the entries."""

    def __init__(self) -> None:
        self.texts: Final[list[str]] = []
        self.numbers: Final[list[int]] = []
        self._slots: Final[list[_Slot]] = []
        self._taken = 0

    def add_text(self, value: str, known: Sequence[str], *, literal: bool) -> None:
        # A path of a patch finds elements by members: `[image=…]`.
        quoted, named = f'"{value}"', f"={value}"
        escaped = named.replace("~", "~0").replace("/", "~1")
        if literal or any(quoted in text or named in text or escaped in text for text in known):
            self._slots.append(("literal", value))
            return
        if value not in self.texts:
            self.texts.append(value)
        self._slots.append(("text", text_mark(self.texts.index(value))))

    def add_number(self, value: int, known: Sequence[frozenset[int]], replicas: JSON) -> None:
        if value == replicas:
            self._slots.append(("replicas", REPLICAS_MARK))
            return
        if (
            value < _SMALLEST_NUMBER
            or any(value in each for each in known)
            or (value not in self.numbers and len(self.numbers) == MAX_NUMBERS)
        ):
            self._slots.append(("literal", value))
            return
        if value not in self.numbers:
            self.numbers.append(value)
        self._slots.append(("number", number_mark(self.numbers.index(value))))

    def take(self, count: int) -> tuple[_Slot, ...]:
        """Return the next ``count`` slots."""
        self._taken += count
        return tuple(self._slots[self._taken - count : self._taken])


def _collect(values: list[str | int], value: str | int) -> str:
    """Add a value to ``values``; return the name of its type, which takes its place in the pattern."""
    values.append(value)
    return type(value).__name__


def _take_next(values: Iterator[str | int], _: str | int) -> str | int:
    return next(values)


def _encode(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _find_numbers(text: str) -> frozenset[int]:
    # A longer number is no count of replicas, and Python refuses to read one of thousands of digits.
    found = (one for one in set(_DIGITS.findall(text)) if len(one) <= _MAX_DIGITS)
    return frozenset(map(int, found)) if text else frozenset()


def _has_token(text: str) -> bool:
    return NODEPOOL_TOKEN in text or TWEAK_POOL_TOKEN in text


def _fill_name(text: str, pool: str) -> str:
    return text.replace(NODEPOOL_TOKEN, pool).replace(TWEAK_POOL_TOKEN, pool) if _has_token(text) else text
