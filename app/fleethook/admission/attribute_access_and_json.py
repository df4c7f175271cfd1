"""Objects with attribute access, and the plain JSON of objects that a rule has changed."""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from fleethook.model.json import ABSENT, JSON, JSONObject
from fleethook.patch.pointer_and_limits import format_tokens as format_pointer

_MAX_LEVELS: Final = 100
"""Levels of a value whose fault is searched."""
_METHODS: Final = frozenset(name for name in dir(dict) if not name.startswith("_"))
_read: Final = dict.__getitem__
_get: Final = dict.get
_get_attribute: Final = object.__getattribute__


class Members(dict[str, Any]):
    """A JSON object whose members are attributes, too: ``pod.spec.replicas`` is ``pod["spec"]["replicas"]``.

    The names of methods of ``dict``, for example ``items``, need brackets. Objects and lists become `Members` and
    `Elements` when they are read first. These are copies, so changes never reach the JSON value below, and no constant
    that a rule stores. A ``dict`` that a rule stores counts as it is when it is read first.
    """

    __slots__ = ()

    # In Python 3.11, a failed lookup before `__getattr__` takes longer than this method.
    def __getattribute__(self, name: str) -> Any:
        if name in _NAMES:
            return _get_attribute(self, name)
        try:
            value = _read(self, name)
        except KeyError:
            raise AttributeError(
                f"the object has no member {name!r}; read an optional member with .get({name!r})"
            ) from None
        return _view_member(self, name, value) if type(value) in _PLAIN_TYPES else value

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _METHODS:
            raise AttributeError(f"{name} is a method of dict; write [{name!r}] = … to set the member")
        self[name] = value

    def __delattr__(self, name: str) -> None:
        if name not in self:
            raise AttributeError(f"the object has no member {name!r}")
        del self[name]

    def __getitem__(self, name: str) -> Any:
        value = _read(self, name)
        return _view_member(self, name, value) if type(value) in _PLAIN_TYPES else value

    # With an own method, ``dict(…)``, ``{**…}`` and ``|`` read members by ``__getitem__``.
    def __iter__(self) -> Iterator[str]:
        return super().__iter__()

    def __or__(self, other: Any) -> Any:
        return self.copy() | other

    def get(self, name: str, default: Any = None) -> Any:
        """Return a member, ``default`` if it is missing."""
        value = _get(self, name, default)
        return _view_member(self, name, value) if type(value) in _PLAIN_TYPES and name in self else value

    def items(self) -> Any:
        """Return the names and values of all members."""
        _view_all(self)
        return super().items()

    def values(self) -> Any:
        """Return the values of all members."""
        _view_all(self)
        return super().values()

    def copy(self) -> dict[str, Any]:
        """Return the members as a plain ``dict``."""
        _view_all(self)
        return super().copy()

    def pop(self, name: str, *default: Any) -> Any:
        """Remove a member and return it, ``default`` if it is missing."""
        self.get(name)
        return super().pop(name, *default)

    def setdefault(self, name: str, default: Any = None) -> Any:
        """Return a member; set it to ``default`` first if it is missing."""
        if name not in self:
            self[name] = default
        return self[name]


_NAMES: Final = frozenset(dir(Members))


def _view_member(members: Members, name: str, value: JSON) -> Any:
    viewed = view(value)
    members[name] = viewed
    return viewed


def _view_all(members: Members) -> None:
    for name in members:
        _ = members[name]


class Elements(list[Any]):
    """A JSON array of `Members`: its objects are `Members`, too, also those that a rule adds, when they are read."""

    __slots__ = ()

    def __getitem__(self, position: Any) -> Any:
        found = super().__getitem__(position)
        if type(found) in _PLAIN_TYPES:
            found = view(found)
            if not isinstance(position, slice):
                self[position] = found
        return found

    def __iter__(self) -> Iterator[Any]:
        for position, element in enumerate(list.__iter__(self)):
            yield self[position] if type(element) in _PLAIN_TYPES else element


_PLAIN_TYPES: Final = frozenset({dict, list})


def view(value: JSON) -> JSON:
    """Return an object as `Members` and a list as `Elements`; copies one level only. Other values stay themselves."""
    if type(value) is dict:
        return Members(value)
    if type(value) is list:
        return Elements([Members(one) if type(one) is dict else view(one) for one in value])
    return value


def to_plain(value: Any, origin: JSON) -> JSON:
    """Return plain JSON of a value; its unchanged objects and lists are those of ``origin``, so that `diff` skips them.

    Args:
        value: The value, often `view(origin)` with changes.
        origin: The JSON value that is or was at the same place.

    Raises:
        TypeError: JSON has no such value; the text has its JSON pointer.
    """
    try:
        return _to_plain(value, origin)
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(_find_fault(value) or str(error)) from error


def _to_plain(value: Any, origin: JSON) -> JSON:
    if value is origin:
        return origin
    if isinstance(value, dict) and isinstance(origin, dict):
        return _to_plain_object(value, origin)
    if isinstance(value, list) and isinstance(origin, list) and len(value) == len(origin):
        elements = [_to_plain(one, former) for one, former in zip(value, origin, strict=True)]
        is_same = all(one is former for one, former in zip(elements, origin, strict=True))
        return origin if is_same else elements
    return encode(value)


def _to_plain_object(value: JSONObject, origin: JSONObject) -> JSONObject:
    made: JSONObject = {}
    is_changed = len(value) != len(origin)
    # The method of dict, because that of `Members` would copy all members.
    for name, member in dict.items(value):
        if type(name) is not str:
            encoded: JSONObject = encode(value)
            return encoded
        former = origin.get(name, ABSENT)
        made[name] = plain = member if member is former else _to_plain(member, former)
        if plain is not former:
            is_changed = True
    return made if is_changed else origin


def _convert_unknown(value: Any) -> Any:
    """Return a value that msgspec knows; raises TypeError."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, bool | None):
        raise TypeError(f"{value} is no name of a member: give a text")
    for type_ in (str, int, float):
        if isinstance(value, type_):
            return type_(value)
    raise TypeError(f"JSON has no {type(value).__name__}: store a dict, a list, a text, a number, a bool or None")


# A set has another order in each process. With an order, msgspec refuses names that are numbers.
_encode_ordered: Final = msgspec.json.Encoder(enc_hook=_convert_unknown, order="deterministic").encode
_encode_unordered: Final = msgspec.json.Encoder(enc_hook=_convert_unknown).encode


def encode(value: Any) -> JSON:
    """Return plain JSON; raises TypeError or ValueError for a value that JSON does not have."""
    try:
        text = _encode_ordered(value)
    except TypeError:
        text = _encode_unordered(value)
    if b"null" in text:  # msgspec writes NaN so, too.
        _require_finite(msgspec.to_builtins(value, str_keys=True, enc_hook=_convert_unknown))
    return msgspec.json.decode(text)


def _find_fault(value: Any, path: tuple[str, ...] = (), around: frozenset[int] = frozenset()) -> str:
    """Return JSON pointer and problem of the innermost part of a value that `encode` refuses, ``""`` without one."""
    if id(value) in around:
        return f"{format_pointer(path)}: the value contains itself"
    if len(path) > _MAX_LEVELS:
        return f"{format_pointer(path[:3])}: the value has more than {_MAX_LEVELS} levels"
    # Reading a member of `Members` would make another object.
    parts: Iterable[tuple[Any, Any]] = dict.items(value) if isinstance(value, dict) else ()
    for name, one in enumerate(value) if isinstance(value, list | tuple) else parts:
        if fault := _find_fault(one, (*path, str(name)), around | {id(value)}):
            return fault
    try:
        encode(value)
    except (TypeError, ValueError) as error:
        return f"{format_pointer(path) or 'the object'}: {error}"
    return ""


def _require_finite(value: Any) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"JSON has no number {value}")
    if isinstance(value, dict | list | tuple):
        for one in value.values() if isinstance(value, dict) else value:
            _require_finite(one)
