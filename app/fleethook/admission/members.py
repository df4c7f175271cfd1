"""Objects with attribute access or of an author's type, and the changes that a rule made to them."""

import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import msgspec

from fleethook.model.json import JSON, JSONObject, as_object
from fleethook.patch.diff import align, identical

_MISSING: Final[Any] = object()
_METHODS: Final = frozenset(name for name in dir(dict) if not name.startswith("_"))
_read: Final = dict.__getitem__
_get: Final = dict.get
_write: Final = dict.__setitem__


class Members(dict[str, Any]):
    """A JSON object whose members are attributes, too: ``pod.spec.replicas`` is ``pod["spec"]["replicas"]``.

    The names of methods of ``dict``, for example ``items``, need brackets. Objects and lists become `Members` and
    `Elements` when they are read first. These are copies, so changes never reach the JSON value below.
    """

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        try:
            value = _read(self, name)
        except KeyError:
            raise AttributeError(
                f"the object has no member {name!r}; read an optional member with .get({name!r})"
            ) from None
        return self._view_member(name, value) if type(value) in _PLAIN_TYPES else value

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
        return self._view_member(name, value) if type(value) in _PLAIN_TYPES else value

    def _view_member(self, name: str, value: JSON) -> Any:
        viewed = view(value)
        _write(self, name, viewed)
        return viewed

    def __setitem__(self, name: str, value: Any) -> None:
        _write(self, name, wrap(value))

    # With an own method, ``dict(…)``, ``{**…}`` and ``|`` read members by ``__getitem__``.
    def __iter__(self) -> Iterator[str]:
        return super().__iter__()

    def __or__(self, other: Any) -> Any:
        return self.copy() | other

    def _view_all(self) -> None:
        for name in self:
            _ = self[name]

    def get(self, name: str, default: Any = None) -> Any:
        """Return a member, ``default`` if it is missing."""
        value = _get(self, name, default)
        return self._view_member(name, value) if type(value) in _PLAIN_TYPES and name in self else value

    def items(self) -> Any:
        """Return the names and values of all members."""
        self._view_all()
        return super().items()

    def values(self) -> Any:
        """Return the values of all members."""
        self._view_all()
        return super().values()

    def copy(self) -> dict[str, Any]:
        """Return the members as a plain ``dict``."""
        self._view_all()
        return super().copy()

    def pop(self, name: str, *default: Any) -> Any:
        """Remove a member and return it, ``default`` if it is missing."""
        self.get(name)
        return super().pop(name, *default)

    def popitem(self) -> tuple[str, Any]:
        """Remove the last member and return its name and value."""
        self._view_all()
        return super().popitem()

    def setdefault(self, name: str, default: Any = None) -> Any:
        """Return a member; set it to ``default`` first if it is missing."""
        if name not in self:
            self[name] = default
        return self[name]

    def update(self, *arguments: Any, **members: Any) -> None:
        """Set several members."""
        for name, value in dict(*arguments, **members).items():
            self[name] = value


class Elements(list[Any]):
    """A JSON array of `Members`: its objects are `Members`, too."""

    __slots__ = ()


_PLAIN_TYPES: Final = (dict, list)


def view(value: JSON) -> JSON:
    """Return an object as `Members` and a list as `Elements`; copies one level only. Other values stay themselves."""
    if type(value) is dict:
        return Members(value)
    if type(value) is list:
        return Elements([Members(one) if type(one) is dict else view(one) for one in value])
    return value


def wrap(value: JSON) -> JSON:
    """Return a copy of a JSON value whose objects are `Members`; a value that is one stays itself."""
    if isinstance(value, Members):
        return value
    if isinstance(value, dict):
        made = Members()
        for name, member in value.items():
            made[name] = member
        return made
    return Elements(map(wrap, value)) if isinstance(value, list) else value


def to_plain(value: Any, origin: JSON) -> JSON:
    """Return plain JSON of a value; its unchanged objects and lists are those of ``origin``, so that `diff` skips them.

    Args:
        value: The value, often `view(origin)` with changes.
        origin: The JSON value that is or was at the same place.

    Raises:
        TypeError: JSON has no such value.
    """
    if value is origin:
        return origin
    if isinstance(value, dict) and isinstance(origin, dict):
        return _to_plain_object(value, origin)
    if isinstance(value, list) and isinstance(origin, list) and len(value) == len(origin):
        elements = [to_plain(one, former) for one, former in zip(value, origin, strict=True)]
        is_same = all(one is former for one, former in zip(elements, origin, strict=True))
        return origin if is_same else elements
    return _encode(value)


def _to_plain_object(value: JSONObject, origin: JSONObject) -> JSONObject:
    changes: JSONObject = {}
    # The method of dict, because that of `Members` would copy all members.
    for name, member in dict.items(value):
        if type(name) is not str:
            encoded: JSONObject = _encode(value)
            return encoded
        former = origin.get(name, _MISSING)
        if member is not former and (plain := to_plain(member, former)) is not former:
            changes[name] = plain
    if not changes and len(value) == len(origin):
        return origin
    return {name: changes[name] if name in changes else origin[name] for name in dict.keys(value)}


class Codec(NamedTuple):
    """Converts between the text of an object and the value that a rule gets.

    Attributes:
        decode: Returns the value of a JSON text.
        encode: Returns plain JSON of a value.
        is_partial: Whether values may lack members of the object.
    """

    decode: Callable[[bytes], Any]
    encode: Callable[[Any], JSON]
    is_partial: bool = False


def _decode_members(text: bytes) -> Any:
    return view(msgspec.json.decode(text))


def _encode(value: Any) -> JSON:
    """Return plain JSON; raises TypeError or ValueError for a value that JSON does not have."""
    text = msgspec.json.encode(value)
    if b"null" in text:  # msgspec writes NaN so, too.
        _require_finite(msgspec.to_builtins(value, str_keys=True))
    return msgspec.json.decode(text)


def _require_finite(value: Any) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"JSON has no number {value}")
    if isinstance(value, dict | list | tuple):
        for one in value.values() if isinstance(value, dict) else value:
            _require_finite(one)


def _encode_typed(value: Any) -> JSON:
    return _drop_nulls(_encode(value))


def _encode_model(value: Any) -> JSON:
    return _drop_nulls(_encode(value.model_dump(mode="json", by_alias=True)))


def _drop_nulls(value: JSON) -> JSON:
    """Return a value without members that are null: for Kubernetes, they are missing."""
    if isinstance(value, dict):
        return {name: _drop_nulls(member) for name, member in value.items() if member is not None}
    return [_drop_nulls(element) for element in value] if isinstance(value, list) else value


PLAIN: Final = Codec(_decode_members, _encode)
"""The codec of objects with attribute access."""


def find_codec(annotation: Any) -> Codec | None:
    """Return the codec of a parameter's annotation, None for a type that no object can have."""
    if annotation in (None, Any, dict, Members) or getattr(annotation, "__origin__", None) is dict:
        return PLAIN
    # Checked by method, so that rules without models do not import pydantic.
    if hasattr(annotation, "model_validate_json") and hasattr(annotation, "model_dump"):
        return Codec(annotation.model_validate_json, _encode_model, is_partial=True)
    if isinstance(annotation, type) and (
        issubclass(annotation, msgspec.Struct) or dataclasses.is_dataclass(annotation)
    ):
        return Codec(msgspec.json.Decoder(annotation).decode, _encode_typed, is_partial=True)
    return None


def carry_over(before: JSON, after: JSON, onto: JSON) -> JSON:
    """Return ``onto`` with the changes from ``before`` to ``after``, which may lack members of ``onto``."""
    if identical(before, after):
        return onto
    if isinstance(before, dict) and isinstance(after, dict):
        return _carry_members(before, after, as_object(onto))
    if isinstance(before, list) and isinstance(after, list) and isinstance(onto, list) and len(before) == len(onto):
        former = {new: old for old, new in align(before, after)}
        return [
            carry_over(before[former[position]], element, onto[former[position]]) if position in former else element
            for position, element in enumerate(after)
        ]
    return after


def _carry_members(before: JSONObject, after: JSONObject, onto: Any) -> JSONObject:
    merged = {name: value for name, value in onto.items() if name in after or name not in before}
    for name, value in after.items():
        if name not in before:
            merged[name] = value
        elif not identical(before[name], value):
            merged[name] = carry_over(before[name], value, onto.get(name))
    return merged
