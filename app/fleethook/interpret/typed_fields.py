"""Typed access to the fields of documents that no schema has validated, and their values at pointers with wildcards."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, Final, TypeVar

from fleethook.interpret.interpreter import InterpretError
from fleethook.model.json import JSON, JSONObject, as_list
from fleethook.patch import parse_pointer

_NAMES: Final = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}
_EMPTY: Final[JSONObject] = {}
T = TypeVar("T")


def _find_member(document: Mapping[str, JSON], path: Sequence[str]) -> JSON:
    found: Any = document
    for name in path:
        if type(found) is not dict:
            raise _make_path_error(document, path)
        found = found.get(name)
        if found is None:
            return None
    return found


def _make_path_error(document: Mapping[str, JSON], path: Sequence[str]) -> InterpretError:
    """Return the error for a path that leads through a value other than an object."""
    found: Any = document
    for position, name in enumerate(path):
        if not isinstance(found, dict):
            return _make_type_error(found, path[:position], "object")
        found = found[name]
    return _make_type_error(found, path, "object")


def json_type(value: JSON) -> str:
    """Return the JSON name for the type of a value."""
    return _NAMES.get(type(value), "null")


def _make_type_error(value: JSON, path: Sequence[str], expected: str) -> InterpretError:
    found = json_type(value)
    return InterpretError(f".{'.'.join(path)} accessor error: it is of type {found}, expected {expected}")


def _read_member(document: Mapping[str, JSON], path: Sequence[str], kind: type[T]) -> T | None:
    """Return a member of a JSON type, None if it is missing or null; raises InterpretError."""
    member: Any = _find_member(document, path)
    if member is None:
        return None
    # Not isinstance: True is an int.
    if type(member) is not kind:
        raise _make_type_error(member, path, _NAMES[kind])
    return member


def number(document: Mapping[str, JSON], *path: str) -> int | None:
    """Return an integer, None if it is missing or null; raises InterpretError."""
    return _read_member(document, path, int)


def count(document: Mapping[str, JSON], *path: str) -> int:
    """Return an integer, 0 if it is missing or null; raises InterpretError."""
    return _read_member(document, path, int) or 0


def text(document: Mapping[str, JSON], *path: str) -> str:
    """Return a string, ``""`` if it is missing or null; raises InterpretError."""
    return _read_member(document, path, str) or ""


def flag(document: Mapping[str, JSON], *path: str) -> bool:
    """Return a boolean, False if it is missing or null; raises InterpretError."""
    return _read_member(document, path, bool) or False


def mapping(document: Mapping[str, JSON], *path: str) -> JSONObject:
    """Return an object, ``{}`` if it is missing or null; raises InterpretError. Callers must not change it."""
    member = _read_member(document, path, dict)
    return _EMPTY if member is None else member


def listing(document: Mapping[str, JSON], *path: str) -> list[JSON]:
    """Return an array, ``[]`` if it is missing or null; raises InterpretError. Callers must not change it."""
    member = _read_member(document, path, list)
    return [] if member is None else member


def objects(document: Mapping[str, JSON], *path: str) -> list[JSONObject]:
    """Return an array of objects, ``[]`` if missing or null; raises InterpretError. Callers must not change it."""
    found = listing(document, *path)
    for index, element in enumerate(found):
        if not isinstance(element, dict):
            raise _make_type_error(element, [*path, str(index)], "object")
    return found


def present(document: Mapping[str, JSON], *path: str) -> bool:
    """Return whether a member exists and is not null; raises InterpretError if its parent is not an object."""
    return _find_member(document, path) is not None


def with_member(document: JSONObject, value: JSON, *path: str) -> JSONObject:
    """Return ``document`` with a member set; values outside the path are shared. Raises InterpretError."""
    name, *rest = path
    if rest:
        inner = document.get(name)
        if inner is not None and not isinstance(inner, dict):
            raise _make_type_error(inner, [name], "object")
        value = with_member(inner or {}, value, *rest)
    return {**document, name: value}


def without(document: JSONObject, *path: str) -> JSONObject:
    """Return ``document`` without a member; the same document if it has no such member."""
    name, *rest = path
    if name not in document:
        return document
    if not rest:
        return {kept: value for kept, value in document.items() if kept != name}
    inner = document[name]
    if not isinstance(inner, dict):
        return document
    kept_inner = without(inner, *rest)
    return document if kept_inner is inner else {**document, name: kept_inner}


def find_values(document: JSON, pointer: str) -> Iterator[JSON]:
    """Yield the values at a pointer in the order of the document; nothing if there is none.

    ``*`` stands for any element or member, ``**`` for any path, or none. A name such as ``*SecretRef`` stands for all
    members whose names end so.

    Raises:
        ValueError: The pointer is malformed.
    """
    return _find(document, _parse(pointer))


@lru_cache(maxsize=1024)
def _parse(pointer: str) -> tuple[str, ...]:
    return tuple(parse_pointer(pointer))


def _find(value: JSON, tokens: tuple[str, ...]) -> Iterator[JSON]:
    if not tokens:
        yield value
        return
    for one in _step(value, tokens[0]):
        yield from _find(one, tokens[1:])


def _step(value: JSON, name: str) -> Iterable[JSON]:
    if name == "**":
        return walk(value)
    if name == "*":
        return _list_inner(value)
    if isinstance(value, dict):
        if "*" in name:
            return [value[member] for member in value if fnmatchcase(member, name)]
        return [value[name]] if name in value else []
    if isinstance(value, list) and name.isdecimal():
        return value[int(name) : int(name) + 1]
    return []


def walk(value: JSON) -> Iterator[JSON]:
    """Yield a value and all values inside it, in the order of the document. Documents may be deeper than the stack."""
    waiting = [value]
    while waiting:
        found = waiting.pop()
        yield found
        waiting.extend(reversed(_list_inner(found)))


def _list_inner(value: JSON) -> list[JSON]:
    return list(value.values()) if isinstance(value, dict) else as_list(value)
