"""The parameters of a rule, and objects of an author's type: their changes are carried over to the whole object."""

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType, NoneType, UnionType
from typing import Annotated, Any, Final, NamedTuple, Union, get_args, get_origin, is_typeddict

import msgspec

from fleethook.admission.attribute_access import Members, encode, view
from fleethook.admission.rule_options import RuleError
from fleethook.model.json import JSON, JSONObject, as_object
from fleethook.patch.diff import align, identical
from fleethook.patch.pointer import format_tokens as format_pointer

NAMES: Final = ("object", "old", "request", "warnings", "store", "settings")
"""The parameters that a rule may have; one with another name gets the object."""


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
        given = [arg for arg in get_args(annotation) if arg is not NoneType]
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
        attributes = ((field.name, field.name) for field in dataclasses.fields(value))
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


class Signature(NamedTuple):
    """The parameters of a rule.

    Attributes:
        names: The names of `NAMES` that the rule asks for, except that of its object.
        object_name: The parameter that gets the object, ``""`` without one.
        codec: Converts the object.
        old_codec: Converts the stored object.
    """

    names: tuple[str, ...]
    object_name: str
    codec: Codec
    old_codec: Codec


def read_signature(function: Callable[..., Any], *, mutates: bool = True) -> Signature:
    """Return the parameters of a rule, which changes its object if it ``mutates``; raises RuleError."""
    try:
        parameters = inspect.signature(function, eval_str=True).parameters.values()
    except NameError as error:
        raise RuleError(
            f"an annotation cannot be resolved: {error}; import it outside of `if TYPE_CHECKING`"
        ) from error
    names: list[str] = []
    object_name, codecs = "", {"": PLAIN, "old": PLAIN}
    for parameter in parameters:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise RuleError(
                f"the parameter {parameter.name!r} has no name to pass it by: give some of {', '.join(NAMES)}"
            )
        if parameter.name in NAMES and parameter.name != "object":
            names.append(parameter.name)
        elif parameter.default is parameter.empty:
            if object_name:
                raise RuleError(
                    f"the parameters {object_name!r} and {parameter.name!r} are unknown: one gets the object, the "
                    f"others are {', '.join(NAMES[1:])}"
                )
            object_name = parameter.name
        else:
            continue
        if parameter.name in ("old", object_name):
            codecs["old" if parameter.name == "old" else ""] = _find_codec(parameter)
    codec = codecs[""] if mutates or codecs[""] is PLAIN else codecs[""]._replace(is_partial=False)
    return Signature(tuple(names), object_name, codec, codecs["old"])


def _find_codec(parameter: inspect.Parameter) -> Codec:
    annotation = Any if parameter.annotation is parameter.empty else parameter.annotation
    try:
        codec = find_codec(annotation)
    except (TypeError, ValueError) as error:
        raise RuleError(f"the parameter {parameter.name!r} has a type that cannot be used: {error}") from error
    if codec is None:
        raise RuleError(
            f"the parameter {parameter.name!r} cannot be a {annotation!r}: annotate it with a msgspec Struct, "
            "a pydantic model, a dataclass or dict"
        )
    return codec
