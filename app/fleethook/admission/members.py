"""Objects with attribute access or of an author's type, and the changes that a rule made to them."""

import dataclasses
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType, NoneType, UnionType
from typing import Annotated, Any, Final, NamedTuple, Union, get_args, get_origin, is_typeddict

import msgspec

from fleethook.model.json import JSON, JSONObject, as_object
from fleethook.patch.diff import align, identical
from fleethook.patch.pointer import format_tokens as format_pointer

_MISSING: Final[Any] = object()
_MAX_LEVELS: Final = 100
"""Levels of a value whose fault is searched."""
_METHODS: Final = frozenset(name for name in dir(dict) if not name.startswith("_"))
_read: Final = dict.__getitem__
_get: Final = dict.get
_write: Final = dict.__setitem__


class Members(dict[str, Any]):
    """A JSON object whose members are attributes, too: ``pod.spec.replicas`` is ``pod["spec"]["replicas"]``.

    The names of methods of ``dict``, for example ``items``, need brackets. Objects and lists become `Members` and
    `Elements` when they are read first. These are copies, so changes never reach the JSON value below, and no constant
    that a rule stores. A ``dict`` that a rule stores counts as it is when it is read first.
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
        _write(self, name, value)

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


def _change(method: Callable[..., Any]) -> Any:
    """Return a method of `list` that adds elements."""

    def change(self: "Elements", *arguments: Any) -> Any:
        self.__class__ = _AddedElements
        return method(self, *arguments)

    return change


def _read_viewed(method: Callable[..., Any]) -> Any:
    """Return a method of `list` that reads elements."""

    def read(self: "Elements", *arguments: Any, **named: Any) -> Any:
        for position, element in enumerate(list.__iter__(self)):
            list.__setitem__(self, position, view(element))
        self.__class__ = Elements
        return method(self, *arguments, **named)

    return read


class Elements(list[Any]):
    """A JSON array of `Members`: its objects are `Members`, too."""

    __slots__ = ()
    append, extend, insert = _change(list.append), _change(list.extend), _change(list.insert)
    __setitem__, __iadd__ = _change(list.__setitem__), _change(list.__iadd__)


class _AddedElements(Elements):
    """`Elements` to which a rule has added elements: they become `Members` when they are read first."""

    __slots__ = ()
    __getitem__, __iter__, __reversed__ = (
        _read_viewed(list.__getitem__),
        _read_viewed(list.__iter__),
        _read_viewed(list.__reversed__),
    )
    pop, sort, copy, __add__ = (
        _read_viewed(list.pop),
        _read_viewed(list.sort),
        _read_viewed(list.copy),
        _read_viewed(list.__add__),
    )


_PLAIN_TYPES: Final = (dict, list)


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
    changes: JSONObject = {}
    # The method of dict, because that of `Members` would copy all members.
    for name, member in dict.items(value):
        if type(name) is not str:
            encoded: JSONObject = encode(value)
            return encoded
        former = origin.get(name, _MISSING)
        if member is not former and (plain := _to_plain(member, former)) is not former:
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
        if found := _find_fault(one, (*path, str(name)), around | {id(value)}):
            return found
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


def _encode_typed(value: Any) -> JSON:
    return _drop_nulls(encode(value))


def _encode_model(value: Any) -> JSON:
    return _drop_nulls(encode(value.model_dump(mode="json", by_alias=True)))


def _drop_nulls(value: JSON) -> JSON:
    """Return a value without members that are null: for Kubernetes, they are missing."""
    if isinstance(value, dict):
        return {name: _drop_nulls(member) for name, member in value.items() if member is not None}
    return [_drop_nulls(element) for element in value] if isinstance(value, list) else value


PLAIN: Final = Codec(_decode_members, encode)
"""The codec of objects with attribute access."""


def find_codec(annotation: Any) -> Codec | None:
    """Return the codec of a parameter's annotation, None for a type that no object can have."""
    origin = get_origin(annotation)
    if origin in (Union, UnionType):
        # An object may be missing: the stored one of a CREATE, for example.
        given = [one for one in get_args(annotation) if one is not NoneType]
        return find_codec(given[0]) if len(given) == 1 else None
    if origin is Annotated:
        return find_codec(get_args(annotation)[0])
    type_ = origin or annotation
    if type_ in (None, Any) or is_typeddict(type_) or (isinstance(type_, type) and issubclass(Members, type_)):
        return PLAIN
    # Checked by method, so that rules without models do not import pydantic.
    if hasattr(type_, "model_validate_json") and hasattr(type_, "model_dump"):
        return Codec(annotation.model_validate_json, _encode_model, is_partial=True)
    if isinstance(type_, type) and (issubclass(type_, msgspec.Struct) or dataclasses.is_dataclass(type_)):
        return Codec(msgspec.json.Decoder(annotation).decode, _encode_typed, is_partial=True)
    return None


def describe_misfit(error: Exception) -> str:
    """Return the problem of an object that a type does not fit, with the JSON pointers of the members."""
    if hasattr(error, "errors"):
        return "; ".join(f"{format_pointer([*map(str, one['loc'])])}: {one['msg']}" for one in error.errors())
    text, _, path = str(error).partition(" - at `$")
    # msgspec writes ``.spec.containers[0].name``, and ``[...]`` for any name.
    pointer = re.sub(r"[.[]", "/", path.rstrip("`").replace("[...]", "/*").replace("]", ""))
    return f"{pointer}: {text}" if pointer else text


def follow_changes(codec: Codec, value: Any, onto: JSON) -> Callable[[Any], JSON]:
    """Return a function that carries the changes of a typed value over to the object, which has further members.

    An element of a list is followed as the Python object that it is: its members alone do not identify it.

    Args:
        codec: The codec of the value.
        value: The value, before it changes.
        onto: The object.
    """
    before = codec.encode(value)
    elements = {id(one): (one, plain) for one, plain in _list_elements(value, before)}
    origins = {id(one): plain for one, plain in _list_elements(value, onto)}
    is_frozen = any(_is_frozen(one) for one, _ in elements.values())

    def carry(changed: Any) -> JSON:
        after = codec.encode(changed)
        pairs = {
            id(plain): (elements[id(one)][1], origins[id(one)])
            for one, plain in _list_elements(changed, after)
            if id(one) in elements and id(one) in origins
        }
        return carry_over(before, after, onto, Known(pairs, is_ordered=is_frozen))

    return carry


def _list_elements(value: Any, plain: JSON) -> Iterator[tuple[Any, JSON]]:
    """Yield the objects in the lists of a typed value, and the JSON value at the same place of ``plain``."""
    for name, member in _list_parts(value):
        if isinstance(name, int):
            inner = plain[name] if isinstance(plain, list) and name < len(plain) else None
            if isinstance(inner, dict):
                yield member, inner
        else:
            inner = as_object(plain).get(name)
        if isinstance(inner, dict | list):
            yield from _list_elements(member, inner)


def _list_parts(value: Any) -> Iterable[tuple[str | int, Any]]:
    """Return the names in JSON, or the indexes, and the values of the parts of a value."""
    if isinstance(value, msgspec.Struct):
        attributes: Any = zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True)
    elif dataclasses.is_dataclass(value):
        attributes = ((one.name, one.name) for one in dataclasses.fields(value))
    elif hasattr(value, "model_dump"):
        fields = type(value).model_fields.items()
        attributes = ((one.serialization_alias or one.alias or name, name) for name, one in fields)
    else:
        return value.items() if isinstance(value, dict) else enumerate(value if isinstance(value, list | tuple) else ())
    return ((name, getattr(value, attribute)) for name, attribute in attributes)


def _is_frozen(value: Any) -> bool:
    """Return whether a rule cannot change a value, so that it replaces it."""
    if isinstance(value, msgspec.Struct):
        return value.__struct_config__.frozen
    if dataclasses.is_dataclass(value):
        return bool(getattr(value, "__dataclass_params__").frozen)  # noqa: B009 - unknown to the types of Python
    return bool(getattr(value, "model_config", {}).get("frozen"))


class Known(NamedTuple):
    """The former elements of the lists that a rule has changed.

    Attributes:
        pairs: The former element and that of the object, by the `id` of the changed element.
        is_ordered: Whether other elements without a name have the place of the former ones.
    """

    pairs: Mapping[int, tuple[JSON, JSON]] = MappingProxyType({})
    is_ordered: bool = False


_NOTHING: Final = Known()


def carry_over(before: JSON, after: JSON, onto: JSON, known: Known = _NOTHING) -> JSON:
    """Return ``onto`` with the changes from ``before`` to ``after``, which may lack members of ``onto``.

    Raises:
        TypeError: ``before`` has other elements than ``onto``, so that nothing tells their members.
    """
    if identical(before, after):
        return onto
    if isinstance(before, dict) and isinstance(after, dict):
        return _carry_members(before, after, as_object(onto), known)
    if isinstance(before, list) and isinstance(after, list) and isinstance(onto, list):
        return _carry_elements(before, after, onto, known)
    return after


def _carry_elements(before: list[JSON], after: list[JSON], onto: list[JSON], known: Known) -> list[JSON]:
    if not any(isinstance(one, dict | list) for one in [*before, *onto]):
        if identical(before, onto):
            return after
        # The type is a set, for example, so the order is that of the object.
        kept = [one for one in onto if one in after]
        return [*kept, *(one for one in after if one not in kept)]
    names = ([as_object(one).get("name") for one in each] for each in (before, onto))
    # The type may lack the name, but has each element.
    if len(before) != len(onto) or any(name not in (None, other) for name, other in zip(*names, strict=True)):
        raise TypeError(
            "the type of the object adds, removes or sorts elements of a list: change the object in the rule"
        )
    pairs = [known.pairs.get(id(one)) for one in after]
    followed = {id(pair[0]) for pair in pairs if pair}
    old = [position for position, one in enumerate(before) if id(one) not in followed]
    new = [position for position, pair in enumerate(pairs) if not pair]
    others = [before[one] for one in old], [after[one] for one in new]
    for left, right in _pair_by_order(*others) if known.is_ordered else align(*others):
        pairs[new[right]] = before[old[left]], onto[old[left]]
    return [carry_over(pair[0], one, pair[1], known) if pair else one for pair, one in zip(pairs, after, strict=True)]


def _pair_by_order(old: list[JSON], new: list[JSON]) -> Iterator[tuple[int, int]]:
    """Yield the indexes of elements that are identical or share a name, and of the others without a name in order."""
    aligned = dict(align(old, new))
    yield from aligned.items()
    left = [one for one in range(len(old)) if one not in aligned]
    right = [one for one in range(len(new)) if one not in aligned.values()]
    if len(left) == len(right):
        yield from (pair for pair in zip(left, right, strict=True) if "name" not in as_object(new[pair[1]]))


def _carry_members(before: JSONObject, after: JSONObject, onto: Any, known: Known) -> JSONObject:
    merged = {name: value for name, value in onto.items() if name in after or name not in before}
    for name, value in after.items():
        if name not in before:
            merged[name] = value
        elif not identical(before[name], value):
            merged[name] = carry_over(before[name], value, onto.get(name), known)
    return merged
