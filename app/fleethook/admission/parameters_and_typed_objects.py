"""The parameters of a rule by name and type. The changes of a typed object are carried over to the whole object."""

import dataclasses
import inspect
import re
from collections.abc import Callable
from types import NoneType, UnionType
from typing import Annotated, Any, Final, NamedTuple, Union, get_args, get_origin, is_typeddict

import msgspec

from fleethook.admission.attribute_access_and_json import Members, encode, view
from fleethook.admission.rule_scope_and_options import RuleError
from fleethook.model.json import JSON, JSONObject, as_object
from fleethook.patch.diff import identical
from fleethook.patch.pointer_and_limits import format_tokens as format_pointer


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


def _encode_typed(value: Any) -> JSON:
    return _drop_nulls(encode(value))


def _encode_model(value: Any) -> JSON:
    return _drop_nulls(encode(value.model_dump(mode="json", by_alias=True)))


def _drop_nulls(value: JSON) -> JSON:
    """Return a value without members that are null: for Kubernetes, they are missing."""
    if isinstance(value, dict):
        return {name: _drop_nulls(member) for name, member in value.items() if member is not None}
    return [_drop_nulls(element) for element in value] if isinstance(value, list) else value


PLAIN: Final = Codec(lambda text: view(msgspec.json.decode(text)), encode)
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


class Signature(msgspec.Struct, frozen=True):
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


NAMES: Final = ("object", "old", "request", "warnings", "store", "settings")
"""The parameters that a rule may have; one with another name gets the object."""


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


def describe_misfit(error: Exception) -> str:
    """Return the problem of an object that a type does not fit, with the JSON pointers of the members."""
    if hasattr(error, "errors"):
        return "; ".join(f"{format_pointer([*map(str, one['loc'])])}: {one['msg']}" for one in error.errors())
    text, _, path = str(error).partition(" - at `$")
    # msgspec writes ``.spec.containers[0].name``, and ``[...]`` for any name.
    pointer = re.sub(r"[.[]", "/", path.rstrip("`").replace("[...]", "/*").replace("]", ""))
    return f"{pointer}: {text}" if pointer else text


def carry_over(before: JSON, after: JSON, onto: JSON) -> JSON:
    """Return ``onto`` with the changes from ``before`` to ``after``, which may lack members of ``onto``.

    Raises:
        TypeError: ``before`` has other elements than ``onto``, or nothing tells which ones the changed ones were.
    """
    if identical(before, after):
        return onto
    if isinstance(before, dict) and isinstance(after, dict):
        return _carry_members(before, after, as_object(onto))
    if isinstance(before, list) and isinstance(after, list) and isinstance(onto, list):
        return _carry_elements(before, after, onto)
    return after


def _carry_elements(before: list[JSON], after: list[JSON], onto: list[JSON]) -> list[JSON]:
    if not any(isinstance(one, dict | list) for one in [*before, *onto]):
        return after
    # The type may lack the name, but has each element.
    if len(before) != len(onto) or any(
        _name(one) not in (None, _name(other)) for one, other in zip(before, onto, strict=True)
    ):
        raise TypeError(
            "the type of the object adds, removes or sorts elements of a list: change the object in the rule"
        )
    pairs = _pair_elements(before, after)
    lost = {place for place, one in enumerate(before) if _name(one) is None}.difference(pairs)
    changed = [place for place, one in enumerate(after) if pairs[place] is None and _name(one) is None]
    if len(before) == len(after) and lost.issuperset(changed):
        for place in changed:
            pairs[place] = place
    elif any((changed or before[one] in after) and not identical(before[one], onto[one]) for one in lost):
        raise TypeError(
            "the rule changes elements of a list, and adds, removes or moves others, and their type lacks the name and "
            "other members: change an object without a type"
        )
    return [
        one if place is None else carry_over(before[place], one, onto[place])
        for place, one in zip(pairs, after, strict=True)
    ]


def _pair_elements(before: list[JSON], after: list[JSON]) -> list[int | None]:
    """Return the former index of each element that is the same, or has the same name, None for the others."""
    known: dict[object, list[int]] = {}
    for place, one in enumerate(before):
        known.setdefault(_identify(one), []).append(place)
    pairs: list[int | None] = []
    for place, one in enumerate(after):
        places = known.get(_identify(one))
        pairs.append(places.pop(places.index(place) if place in places else 0) if places else None)
    return pairs


def _name(element: JSON) -> JSON:
    return as_object(element).get("name")


def _identify(element: JSON) -> object:
    return _name(element) or msgspec.json.encode(element, order="deterministic")


def _carry_members(before: JSONObject, after: JSONObject, onto: Any) -> JSONObject:
    merged = {name: value for name, value in onto.items() if name in after or name not in before}
    for name, value in after.items():
        if name not in before:
            merged[name] = value
        elif not identical(before[name], value):
            merged[name] = carry_over(before[name], value, onto.get(name))
    return merged
