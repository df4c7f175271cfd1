"""Converts documents to Lua and back: Lua opens them level by level, and unchanged parts come back as they were.

Lua tables do not distinguish objects from arrays. The tables of a document keep their type. An empty table created by a
script takes the type found at the same path in the reference documents. If none has that path, the field is dropped.
(karmada v1.16 luavm/lua_convert.go applies such a rule to every empty table, and only to paths that are empty in the
reference documents.)
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from fleethook.interpret.interpreter import InterpretError
from fleethook.model.json import JSON, JSONObject

_MAX_MEMBERS: Final = 2000
"""Members in one message."""
_MAX_TEXT: Final = 1 << 20
_INT64: Final = 2**63
_MAX_NODES: Final = 1_000_000
# Tags of values in a description (sandbox/describe.lua).
_VALUE, _OWN, _NODE, _GONE = 0, 1, 2, 5


class OutputLimitError(Exception):
    """A result exceeds the size limit."""


class _Unknown:
    """An empty table that may be an object or an array."""


_UNKNOWN: Final = _Unknown()


class DocumentExchange:
    """The documents of one call, by handle."""

    def __init__(self, null: object, mapping: object, listing: object) -> None:
        """Prepare; the arguments are Lua's markers for a null, an object and an array."""
        self._null: Final = null
        self._mapping: Final = mapping
        self._listing: Final = listing
        self._documents: list[Any] = []
        self._given: list[Any] = []

    def begin(self, documents: Sequence[JSON]) -> None:
        """Start a call with its documents; their handles are their positions."""
        self._documents = list(documents)
        self._given = []

    def add(self, document: JSON) -> int:
        """Return a handle for another document."""
        self._documents.append(document)
        return len(self._documents) - 1

    def level(self, handle: int, start: int) -> tuple[Any, ...]:
        """Return the members of an object or array, beginning at ``start``, for Lua.

        The result begins with the handle of the first nested object or array, the position of the next message (or
        None), and ``handle``. The elements of an array follow, or alternately the names and values of an object.
        """
        documents = self._documents
        value = documents[handle]
        is_object = type(value) is dict
        base = len(documents)
        members: Any = value.items() if is_object else value
        more: int | None = None
        if len(value) > _MAX_MEMBERS or start:
            members = list(members)[start : start + _MAX_MEMBERS]
            more = start + _MAX_MEMBERS if start + _MAX_MEMBERS < len(value) else None
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
            if text > _MAX_TEXT and start + count < len(value):
                found[2] = start + count
                break
        return tuple(found)

    def whole(self, handle: int, start: int) -> tuple[Any, ...]:
        """Return the elements of an array with all nested values, for arrays that scripts read completely.

        The result begins with the handle of the first nested object or array, and the position of the next message (or
        None). The marker of a nested object or array is followed by its length and its members.
        """
        value = self._documents[handle]
        found: list[Any] = [len(self._documents), None]
        for position in range(start, len(value)):
            self._write(value[position], found)
            if len(found) > _MAX_MEMBERS and position + 1 < len(value):
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
        """Store a part of a description; `taken` gets the rest."""
        self._given += values

    def taken(self, tags: Sequence[Any], rest: Sequence[Any], references: Sequence[JSON] = ()) -> list[JSON]:
        """Return the values of a description.

        Args:
            tags: Alternately the tag and the value of each result.
            rest: The nodes after those that `give` has stored.
            references: Documents that determine the types of empty tables.

        Raises:
            OutputLimitError: The values exceed the size limit as JSON.
        """
        flat: Sequence[Any] = [*self._given, *rest] if self._given else rest
        self._given = []
        builder = _Builder(self._documents, flat)
        values = [builder.value(tags[index], tags[index + 1]) for index in range(0, len(tags), 2)]
        if builder.unknown:
            kinds = _ReferenceTypes(references)
            return [_type_empty_tables(value, (), kinds, builder.created) for value in values]
        return values


class _Builder:
    """Builds the values of a description from its nodes; nested nodes come before those that contain them."""

    def __init__(self, documents: Sequence[Any], flat: Sequence[Any]) -> None:
        self._documents: Final = documents
        self._nodes: Final[list[Any]] = []
        self._sizes: Final[list[int]] = []
        self._weighed: dict[int, int] = {}
        self._used: Final[set[int]] = set()
        self._size = 0
        self.unknown = False
        self.created: Final[set[int]] = set()
        """The ids of the containers that were built; other containers belong to documents."""
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
        if self._size > _MAX_NODES:
            raise OutputLimitError
        self._nodes.append(built)
        self._sizes.append(self._size)
        self.created.add(id(built))
        return end

    def value(self, tag: int, value: Any) -> Any:
        """Return one value."""
        if tag == _VALUE:  # only for results; nodes handle this most frequent tag themselves
            return value
        if tag == _OWN:
            # A part of a document that appears many times may be large as JSON, so repetitions count by their size.
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
            weight = self._weighed[handle] = sum(1 for _ in _iterate_values(self._documents[handle]))
        return weight


def _iterate_values(document: JSON) -> Iterator[JSON]:
    waiting = [document]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
        yield value


class _ReferenceTypes:
    """Finds the type of the value at a path of the reference documents, ignoring positions in lists."""

    def __init__(self, references: Sequence[JSON]) -> None:
        self._references: Final = references

    def at(self, path: tuple[str, ...]) -> JSON:
        """Return ``{}`` if a path leads to an object, else ``[]`` if it leads to an array, else None."""
        found: JSON = None
        for reference in self._references:
            for value in _find_values(reference, path):
                if isinstance(value, dict):
                    return {}
                if isinstance(value, list):
                    found = []
        return found


def _find_values(document: JSON, path: tuple[str, ...]) -> Iterator[JSON]:
    level: list[JSON] = [document]
    for name in path:
        level = [value[name] for value in _flatten_lists(level) if isinstance(value, dict) and name in value]
    yield from level


def _flatten_lists(values: Sequence[JSON]) -> Iterator[JSON]:
    for value in values:
        if isinstance(value, list):
            yield from _flatten_lists(value)
        else:
            yield value


def _type_empty_tables(value: Any, path: tuple[str, ...], kinds: _ReferenceTypes, created: set[int]) -> Any:
    """Return ``value`` with typed empty tables, without those of unknown type."""
    if value is _UNKNOWN:
        return kinds.at(path) if path else value
    if id(value) not in created:
        return value
    if isinstance(value, dict):
        members = {name: _type_empty_tables(member, (*path, name), kinds, created) for name, member in value.items()}
        return {name: member for name, member in members.items() if member is not None or value[name] is None}
    if isinstance(value, list):
        elements = [_type_empty_tables(element, path, kinds, created) for element in value]
        return [now for now, was in zip(elements, value, strict=True) if now is not None or was is None]
    return value


def default_to_object(value: Any) -> Any:
    """Return a value; an empty table of unknown type becomes an object."""
    return {} if value is _UNKNOWN else value


def expect_object(value: Any, name: str) -> JSONObject:
    """Return a value that is an object or an empty table; raises InterpretError for other values."""
    found = default_to_object(value)
    if not isinstance(found, dict):
        raise InterpretError(f"{name} returned {describe_type(value)}, expected an object", code=500)
    return found


def expect_list(value: Any, name: str) -> list[Any]:
    """Return a value that is a list, ``[]`` for nil or an empty table; raises InterpretError for other values."""
    if value is _UNKNOWN or value is None:
        return []
    if not isinstance(value, list):
        raise InterpretError(f"{name} returned {describe_type(value)}, expected a list", code=500)
    return value


def describe_type(value: Any) -> str:
    """Return the type of a script's result in Lua's words; a table is an object or a list."""
    names = {
        type(None): "nil", bool: "a boolean", str: "a string", dict: "an object", list: "a list",
        _Unknown: "an empty table",
    }  # fmt: skip
    return names.get(type(value), "a number")
