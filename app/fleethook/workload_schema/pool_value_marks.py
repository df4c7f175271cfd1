"""Marks: placeholders for the values that differ between node pools which share a plan.

The compiler uses a mark as the name of the pool. The mark then appears in each value that depends on the name: a few
labels, a node selector, values with ``{{nodepool}}``. Another mark replaces the pool's own replicas. Filling in the
values takes some microseconds, compiling a millisecond.
"""

from typing import Any, Final, NamedTuple

import msgspec

from fleethook.model.json import JSON

# Private use characters of Unicode: kube-apiserver accepts them in no name and no label value.
POOL_MARK: Final = "\ue000pool\ue001"
_ENCODED_MARK: Final = POOL_MARK.encode()
# A number that no user requests as replicas.
REPLICAS_MARK: Final = 2_147_480_017
_NUMBER: Final = str(REPLICAS_MARK)
_ENCODED_NUMBER: Final = _NUMBER.encode()


def as_sample(text: str) -> str:
    """Return a text with a letter in place of the mark: the value for some node pool, as far as a format shows."""
    return text.replace(POOL_MARK, "a")


class PoolValues(NamedTuple):
    """The values for the marks of a plan."""

    pool: str
    replicas: int | None = None
    """The replicas of the pool in ``spec.topology``."""

    def fill_text(self, text: str) -> str:
        """Replace the mark of the name in a text."""
        return text.replace(POOL_MARK, self.pool)

    def fill_number(self, number: int) -> int | None:
        """Return the replicas of the pool for their mark; another number is returned unchanged."""
        return self.replicas if number == REPLICAS_MARK else number

    def fill_json(self, text: bytes) -> bytes:
        """Replace the marks in JSON."""
        return text.replace(_ENCODED_MARK, self.pool.encode()).replace(_ENCODED_NUMBER, str(self.replicas).encode())

    def fill_numbers(self, text: str) -> str:
        """Replace the mark of the replicas in a text, and leave that of the name."""
        return text.replace(_NUMBER, str(self.replicas))

    def fill(self, value: JSON) -> JSON:
        """Replace the marks in ``value``; `Filler` is faster for large values."""
        if isinstance(value, str):
            return self.fill_text(value)
        if isinstance(value, dict):
            return {self.fill_text(name): self.fill(inner) for name, inner in value.items()}
        if type(value) is int:
            return self.fill_number(value)
        return [self.fill(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def has_mark(value: object) -> bool:
    """Return whether a value contains a mark. It must be encodable as JSON."""
    text = msgspec.json.encode(value).decode()
    return POOL_MARK in text or _NUMBER in text


def mark_name(value: JSON, pool: str) -> JSON:
    """Replace every text that equals the pool's name by the mark."""
    if isinstance(value, str):
        return POOL_MARK if value == pool else value
    if isinstance(value, dict):
        return {name: mark_name(inner, pool) for name, inner in value.items()}
    if isinstance(value, list):
        return [mark_name(inner, pool) for inner in value]
    return value


class Filler:
    """Fills the values of a pool into a value with marks, and shares all parts without marks.

    The constructor finds the marks once for all pools, so `fill` visits only the marks and their containers.
    """

    __slots__ = ("_parts", "_root")

    def __init__(self, value: Any) -> None:
        """Find the marks.

        Args:
            value: JSON, or named tuples and tuples of JSON; it must not change later.
        """
        finder = _MarkFinder()
        self._root: Final = finder.find(value)
        self._parts: Final = finder.parts

    def fill(self, values: PoolValues) -> Any:
        """Return the value for a pool, which shares the parts without marks."""
        # Inner parts come first. Each part is filled once, so that documents still share their common branches.
        made: list[Any] = []
        for part in self._parts:
            made.append(part.fill(made, values))
        return made[self._root.number] if isinstance(self._root, _Inner) else _fill_found(self._root, made, values)


class _Inner(NamedTuple):
    """A container with marks inside."""

    number: int
    """Its position among the parts."""


class _Plain(NamedTuple):
    """A value without marks."""

    value: Any


_Found = _Inner | _Plain | str | int
"""The position of a value's marks: inside a container, nowhere, or in the text or the number itself."""


def _fill_found(found: _Found, made: list[Any], values: PoolValues) -> Any:
    if isinstance(found, str):
        return values.fill_text(found)
    if isinstance(found, _Inner):
        return made[found.number]
    return found.value if isinstance(found, _Plain) else values.fill_number(found)


class _Part:
    """A container with marks inside, and its members with marks."""

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
        return {_fill_found(name, made, values): _fill_found(inner, made, values) for name, inner in self._members}


class _MarkFinder:
    """Finds the containers that have marks inside; inner containers come first."""

    def __init__(self) -> None:
        self.parts: Final[list[_Part | _Renamed]] = []
        self._known: Final[dict[int, _Found]] = {}

    def find(self, value: Any) -> _Found:
        if isinstance(value, str):
            return value if POOL_MARK in value else _Plain(value)
        if type(value) is int:
            return value if value == REPLICAS_MARK else _Plain(value)
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
