"""Reads and writes members of objects as Go's encoding/json does: omitted members, zero values, letter case."""

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from app.model.json import JSON, JSONObject

# Go's encoding/json escapes these characters for HTML and JavaScript.
_ESCAPED: Final = {character: f"\\u{character:04x}" for character in map(ord, "<>&\u2028\u2029")}

_MAPS: Final = ("matchlabels",)
"""Members, in lower case, whose own members are data."""

ZERO: Final = "0"
"""The zero value of a quantity."""


def omit_empty(**members: JSON) -> JSONObject:
    """Return an object without the members that Go's ``omitempty`` omits."""
    return {name: value for name, value in members.items() if value not in (None, "", [], {}) and value is not False}


def omit_null(**members: JSON) -> JSONObject:
    """Return an object without null members: pointers in Go, which keep zero values."""
    return {name: value for name, value in members.items() if value is not None}


def as_struct(value: JSON) -> Mapping[str, JSON]:
    """Return a member that is a struct in Go; raises TypeError for other types."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise TypeError("expected an object")
    return value


def as_structs(value: JSON) -> list[Mapping[str, JSON]]:
    """Return a member that is a list of structs in Go; raises TypeError for other types."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise TypeError("expected an array")
    return [as_struct(one) for one in value]


def as_string(value: JSON) -> str:
    """Return a member that is a string; raises TypeError for other types."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise TypeError("expected a string")
    return value


def convert_pointer(value: JSON, convert: Callable[[Mapping[str, JSON]], JSONObject]) -> JSONObject | None:
    """Convert a pointer to a struct."""
    return None if value is None else convert(as_struct(value))


def fold_member_names(value: JSON, names: Mapping[str, str]) -> JSON:
    """Return JSON with the canonical names of its members: Go's encoding/json ignores their letter case.

    Args:
        value: The document.
        names: The canonical names by their names in lower case.
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
    """Encode JSON as Go's encoding/json does."""
    return msgspec.json.encode(value).decode().translate(_ESCAPED)
