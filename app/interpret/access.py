"""Reading members of documents whose shape nobody vouches for."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

from app.model.json import JSON, JSONObject

_NAMES: Final = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}
_EMPTY: Final[JSONObject] = {}
T = TypeVar("T")


class InterpretError(ValueError):
    """An object that an operation cannot be done on; the text says which member is wrong, and how.

    Attributes:
        code: The HTTP status that says so.
    """

    def __init__(self, message: str, *, code: int = 422) -> None:
        super().__init__(message)
        self.code = code


def _member(document: Mapping[str, JSON], path: Sequence[str]) -> JSON:
    found: Any = document
    for name in path:
        if type(found) is not dict:
            raise _not_an_object(document, path)
        found = found.get(name)
        if found is None:
            return None
    return found


def _not_an_object(document: Mapping[str, JSON], path: Sequence[str]) -> InterpretError:
    """Return the error of a path that leads through something else than objects."""
    found: Any = document
    for position, name in enumerate(path):
        if not isinstance(found, dict):
            return _wrong(found, path[:position], "object")
        found = found[name]
    return _wrong(found, path, "object")


def json_type(value: JSON) -> str:
    """Return the name that JSON has for the type of a value."""
    return _NAMES.get(type(value), "null")


def _wrong(value: JSON, path: Sequence[str], expected: str) -> InterpretError:
    found = json_type(value)
    return InterpretError(f".{'.'.join(path)} accessor error: it is of type {found}, expected {expected}")


def _typed(document: Mapping[str, JSON], path: Sequence[str], kind: type[T]) -> T | None:
    """Return a member of a JSON type, None if it is not there; raises InterpretError."""
    found: Any = _member(document, path)
    if found is None:
        return None
    # Not isinstance: True is an int.
    if type(found) is not kind:
        raise _wrong(found, path, _NAMES[kind])
    return found


def number(document: Mapping[str, JSON], *path: str) -> int | None:
    """Return an integer, None if it is not there; raises InterpretError."""
    return _typed(document, path, int)


def count(document: Mapping[str, JSON], *path: str) -> int:
    """Return an integer, 0 if it is not there; raises InterpretError."""
    return _typed(document, path, int) or 0


def text(document: Mapping[str, JSON], *path: str) -> str:
    """Return a string, ``""`` if it is not there; raises InterpretError."""
    return _typed(document, path, str) or ""


def flag(document: Mapping[str, JSON], *path: str) -> bool:
    """Return a boolean, False if it is not there; raises InterpretError."""
    return _typed(document, path, bool) or False


def mapping(document: Mapping[str, JSON], *path: str) -> JSONObject:
    """Return an object, ``{}`` if it is not there; raises InterpretError. It must not be changed."""
    found = _typed(document, path, dict)
    return _EMPTY if found is None else found


def listing(document: Mapping[str, JSON], *path: str) -> list[JSON]:
    """Return an array, ``[]`` if it is not there; raises InterpretError. It must not be changed."""
    found = _typed(document, path, list)
    return [] if found is None else found


def objects(document: Mapping[str, JSON], *path: str) -> list[JSONObject]:
    """Return an array of objects, ``[]`` if it is not there; raises InterpretError. It must not be changed."""
    found = listing(document, *path)
    for index, element in enumerate(found):
        if not isinstance(element, dict):
            raise _wrong(element, [*path, str(index)], "object")
    return found


def present(document: Mapping[str, JSON], *path: str) -> bool:
    """Return whether a member is there and not null; raises InterpretError where it cannot be."""
    return _member(document, path) is not None


def with_member(document: JSONObject, value: JSON, *path: str) -> JSONObject:
    """Return ``document`` with a member set; what is not on the path is shared with it. Raises InterpretError."""
    name, *rest = path
    if rest:
        inner = document.get(name)
        if inner is not None and not isinstance(inner, dict):
            raise _wrong(inner, [name], "object")
        value = with_member(inner or {}, value, *rest)
    return {**document, name: value}


def without(document: JSONObject, *path: str) -> JSONObject:
    """Return ``document`` without a member; the same document where it is not there."""
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
