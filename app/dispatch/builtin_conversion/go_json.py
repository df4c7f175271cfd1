"""Members of objects as Go writes them: which are left out, and what stands for nothing."""

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from app.model.json import JSON, JSONObject

# Go's encoding/json writes these so that its output can stand in HTML and JavaScript.
_ESCAPED: Final = {character: f"\\u{character:04x}" for character in map(ord, "<>&\u2028\u2029")}

_MAPS: Final = ("matchlabels",)
"""Members, in small letters, whose own members are data."""

ZERO: Final = "0"
"""A quantity that is not set."""


def omit_empty(**members: JSON) -> JSONObject:
    """Return an object without the members that Go's ``omitempty`` leaves out."""
    return {name: value for name, value in members.items() if value not in (None, "", [], {}) and value is not False}


def omit_null(**members: JSON) -> JSONObject:
    """Return an object of the members that are not null: pointers in Go, of which zero is a value."""
    return {name: value for name, value in members.items() if value is not None}


def as_struct(value: JSON) -> Mapping[str, JSON]:
    """Return a member that is a Go struct; raises TypeError if it is something else."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise TypeError("an object is expected")
    return value


def as_structs(value: JSON) -> list[Mapping[str, JSON]]:
    """Return a member that is a list of Go structs; raises TypeError if it is something else."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise TypeError("an array is expected")
    return [as_struct(one) for one in value]


def as_string(value: JSON) -> str:
    """Return a member that is a string; raises TypeError if it is something else."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise TypeError("a string is expected")
    return value


def convert_pointer(value: JSON, convert: Callable[[Mapping[str, JSON]], JSONObject]) -> JSONObject | None:
    """Return a pointer to a struct, converted."""
    return None if value is None else convert(as_struct(value))


def fold_member_names(value: JSON, names: Mapping[str, str]) -> JSON:
    """Return JSON with its members named as Go's encoding/json takes them: regardless of case.

    Args:
        value: The document.
        names: The known ones, by themselves in small letters.
    """
    if isinstance(value, list):
        return [fold_member_names(one, names) for one in value]
    if not isinstance(value, dict):
        return value
    return {
        names.get(name.lower(), name): fold_member_names(one, names) if name.lower() not in _MAPS else one
        for name, one in value.items()
    }


def go_json(value: JSON) -> str:
    """Return JSON as Go's encoding/json writes it."""
    return msgspec.json.encode(value).decode().translate(_ESCAPED)
