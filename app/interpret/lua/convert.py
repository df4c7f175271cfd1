"""Documents on their way into Lua and back: opened level by level, given back as they were where nobody changed them.

Lua has one kind of table. What a document's own tables were is remembered; an empty table that a script made is an
object or an array as one at that place is in the documents that tell, and is left out where none does. (karmada
luavm/lua_convert.go goes by such a rule for every empty table, and by places that are empty in those documents only.)
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from app.interpret.access import InterpretError
from app.model.json import JSON, JSONObject

_AT_ONCE: Final = 2000
"""Members that are sent at once."""
_TEXT_AT_ONCE: Final = 1 << 20
_INT64: Final = 2**63
_MOST_NODES: Final = 1_000_000
# What a description says of a value (sandbox/describe.lua).
_VALUE, _OWN, _NODE, _GONE = 0, 1, 2, 5


class OutputLimitError(Exception):
    """A result that is larger than results may be."""


class _Unknown:
    """An empty table that may be an object or an array."""


_UNKNOWN: Final = _Unknown()


class DocumentExchange:
    """The documents of one call, by handle."""

    def __init__(self, null: object, mapping: object, listing: object) -> None:
        """Prepare; what is given stands for a null, for an object and for an array."""
        self._null: Final = null
        self._mapping: Final = mapping
        self._listing: Final = listing
        self._documents: list[Any] = []
        self._given: list[Any] = []

    def begin(self, documents: Sequence[JSON]) -> None:
        """Take the documents of a call; their handles are their positions."""
        self._documents = list(documents)
        self._given = []

    def add(self, document: JSON) -> int:
        """Return a handle for another document."""
        self._documents.append(document)
        return len(self._documents) - 1

    def level(self, handle: int, start: int) -> tuple[Any, ...]:
        """Return members of an object or array from one on: the handle of the first that is one itself, where to go on.

        An array's elements follow, or an object's names and values in turn.
        """
        documents = self._documents
        value = documents[handle]
        is_object = type(value) is dict
        base = len(documents)
        members: Any = value.items() if is_object else value
        more: int | None = None
        if len(value) > _AT_ONCE or start:
            members = list(members)[start : start + _AT_ONCE]
            more = start + _AT_ONCE if start + _AT_ONCE < len(value) else None
        found: list[Any] = [base, start, more, handle]
        append = found.append
        text = 0
        for count, member in enumerate(members, start=1):
            if is_object:
                name, member = member  # noqa: PLW2901 - the members of an object are pairs
                append(name)
            kind = type(member)
            if kind is str:
                text += len(member)
                append(member)
            elif kind is dict:
                documents.append(member)
                append(self._mapping)
            elif kind is list:
                documents.append(member)
                append(self._listing)
            elif member is None:
                append(self._null)
            elif kind is int and not -_INT64 <= member < _INT64:
                append(float(member))
            else:
                append(member)
            if text > _TEXT_AT_ONCE and start + count < len(value):
                found[2] = start + count
                break
        return tuple(found)

    def whole(self, handle: int, start: int) -> tuple[Any, ...]:
        """Return elements of an array from one on with all that is in them: for arrays that are read from end to end.

        First the handle of the first object or array among them, then where to go on; what is an object or an array is
        followed by how many members it has, and by them.
        """
        value = self._documents[handle]
        found: list[Any] = [len(self._documents), None]
        for position in range(start, len(value)):
            self._write(value[position], found)
            if len(found) > _AT_ONCE and position + 1 < len(value):
                found[1] = position + 1
                break
        return tuple(found)

    def _write(self, value: JSON, found: list[Any]) -> None:
        kind = type(value)
        if kind is dict:
            self._documents.append(value)
            found += (self._mapping, len(value))
            for name, member in value.items():
                found.append(name)
                if type(member) is str:
                    found.append(member)
                else:
                    self._write(member, found)
        elif kind is list:
            self._documents.append(value)
            found += (self._listing, len(value))
            for element in value:
                self._write(element, found)
        elif value is None:
            found.append(self._null)
        elif kind is int and not -_INT64 <= value < _INT64:
            found.append(float(value))
        else:
            found.append(value)

    def give(self, *values: Any) -> None:
        """Take a part of a description, of which the rest comes later."""
        self._given += values

    def taken(self, tags: Sequence[Any], rest: Sequence[Any], references: Sequence[JSON] = ()) -> list[JSON]:
        """Return the values that a description is of.

        Args:
            tags: A tag and a value each.
            rest: The nodes they are made of, after those that were given before.
            references: Documents that tell what empty tables are.

        Raises:
            OutputLimitError: Written out they would be too much.
        """
        flat: Sequence[Any] = [*self._given, *rest] if self._given else rest
        self._given = []
        builder = _Builder(self._documents, flat)
        values = [builder.value(tags[index], tags[index + 1]) for index in range(0, len(tags), 2)]
        if builder.unknown:
            kinds = _Kinds(references)
            return [_resolved(value, (), kinds, builder.made) for value in values]
        return values


class _Builder:
    """Builds what a description says: nodes in the order of their numbers, those within others first."""

    def __init__(self, documents: Sequence[Any], flat: Sequence[Any]) -> None:
        self._documents: Final = documents
        self._nodes: Final[list[Any]] = []
        self._sizes: Final[list[int]] = []
        self._weighed: dict[int, int] = {}
        self._used: Final[set[int]] = set()
        self._size = 0
        self.unknown = False
        self.made: Final[set[int]] = set()
        """The ids of the containers that were built; others are documents' own."""
        position = 0
        while position < len(flat):
            position = self._node(flat, position)

    def _node(self, flat: Sequence[Any], position: int) -> int:
        kind, handle, count = flat[position], flat[position + 1], flat[position + 2]
        position += 3
        self._size = 1
        built: Any
        end: int
        if kind == "l":
            built = [
                self.value(flat[at], flat[at + 1]) if flat[at] else flat[at + 1]
                for at in range(position, position + 2 * count, 2)
            ]
            end = position + 2 * count
        elif kind == "e":
            built, end = _UNKNOWN, position
            self.unknown = True
        else:
            built = {} if kind == "m" else self._documents[handle].copy()
            end = position + 3 * count
            for at in range(position, end, 3):
                name, tag, value = flat[at : at + 3]
                if tag == _VALUE:
                    built[name] = value
                elif tag == _GONE:
                    del built[name]
                else:
                    built[name] = self.value(tag, value)
            self._size += len(built)
        if self._size > _MOST_NODES:
            raise OutputLimitError
        self._nodes.append(built)
        self._sizes.append(self._size)
        self.made.add(id(built))
        return end

    def value(self, tag: int, value: Any) -> Any:
        """Return one value."""
        if tag == _VALUE:  # which nodes see to themselves, as most are
            return value
        if tag == _OWN:
            # One part of a document that is used time and again may be much when it is written out.
            self._size += self._weight(value) if value in self._used else 1
            self._used.add(value)
            return self._documents[value]
        if tag == _NODE:
            self._size += self._sizes[value]
            return self._nodes[value]
        return None

    def _weight(self, handle: int) -> int:
        weight: int | None = self._weighed.get(handle)
        if weight is None:
            weight = self._weighed[handle] = sum(1 for _ in _values(self._documents[handle]))
        return weight


def _values(document: JSON) -> Iterator[JSON]:
    waiting = [document]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
        yield value


class _Kinds:
    """What stands at a path of documents, whatever the positions in lists on the way."""

    def __init__(self, references: Sequence[JSON]) -> None:
        self._references: Final = references

    def at(self, path: tuple[str, ...]) -> JSON:
        """Return ``{}`` or ``[]``, as a path leads to objects or arrays, None if to neither; objects win."""
        found: JSON = None
        for reference in self._references:
            for value in _reached(reference, path):
                if isinstance(value, dict):
                    return {}
                if isinstance(value, list):
                    found = []
        return found


def _reached(document: JSON, path: tuple[str, ...]) -> Iterator[JSON]:
    level: list[JSON] = [document]
    for name in path:
        level = [value[name] for value in _unlisted(level) if isinstance(value, dict) and name in value]
    yield from level


def _unlisted(values: Sequence[JSON]) -> Iterator[JSON]:
    for value in values:
        if isinstance(value, list):
            yield from _unlisted(value)
        else:
            yield value


def _resolved(value: Any, path: tuple[str, ...], kinds: _Kinds, made: set[int]) -> Any:
    """Return ``value`` with its empty tables as what they are, those of which nothing is known left out."""
    if value is _UNKNOWN:
        return kinds.at(path) if path else value
    if id(value) not in made:
        return value
    if isinstance(value, dict):
        members = {name: _resolved(member, (*path, name), kinds, made) for name, member in value.items()}
        return {name: member for name, member in members.items() if member is not None or value[name] is None}
    if isinstance(value, list):
        elements = [_resolved(element, path, kinds, made) for element in value]
        return [now for now, was in zip(elements, value, strict=True) if now is not None or was is None]
    return value


def known(value: Any) -> Any:
    """Return a value; an empty table of which nothing is known is an object."""
    return {} if value is _UNKNOWN else value


def as_object(value: Any, what: str) -> JSONObject:
    """Return a value that is an object; an empty table is one. Raises InterpretError."""
    found = known(value)
    if not isinstance(found, dict):
        raise InterpretError(f"{what} returned {_said(value)}, expected an object", code=500)
    return found


def as_list(value: Any, what: str) -> list[Any]:
    """Return a value that is a list; an empty table is one, and nil an empty one. Raises InterpretError."""
    if value is _UNKNOWN or value is None:
        return []
    if not isinstance(value, list):
        raise InterpretError(f"{what} returned {_said(value)}, expected a list", code=500)
    return value


def _said(value: Any) -> str:
    names = {type(None): "nothing", bool: "a boolean", str: "a string", dict: "an object", list: "a list"}
    return names.get(type(value), "a number")
