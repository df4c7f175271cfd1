"""Paths and array indices as evanphx/json-patch v4 understands them."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from app.model.json import JSON
from app.patch.draft import Draft
from app.patch.errors import Refusal
from app.patch.limits import Moves
from app.patch.pointer import Tokens

MISSING: Final = "missing value"

_ATOI: Final = re.compile(r"([+-]?)0*([0-9]+)", re.ASCII)
# The largest index that Go's int holds; asked by length first, because int() of very many digits raises.
_LARGEST: Final = 2**63 - 1
_DIGITS: Final = len(str(_LARGEST))
_ABSENT: Final = {
    "path": f"operation missing path field: {MISSING}",
    "from": f"operation, missing from field: {MISSING}",
}


@dataclass(frozen=True, slots=True)
class Place:
    """Where an operation works.

    Attributes:
        text: The path as written.
        parents: The tokens of the container; None for a path without any slash, which is nowhere.
        key: The last token.
        error: Why the operation states no such path; empty if it does.
    """

    text: str = ""
    parents: Tokens | None = None
    key: str = ""
    error: str = ""


class _NowhereError(Exception):
    """The way to a place ends before its last token."""


def place_of(operation: Mapping[str, JSON], member: str) -> Place:
    """Return the place that ``member``, ``path`` or ``from``, of ``operation`` names."""
    path = operation.get(member)
    if not isinstance(path, str):
        return Place(error=_ABSENT[member] if path is None else _undecodable(path))
    # What stands before the first slash is ignored.
    tokens = tuple(part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:])
    return Place(path, tokens[:-1], tokens[-1]) if tokens else Place(path)


def _undecodable(value: JSON) -> str:
    kinds = ((bool, "bool"), (dict, "object"), (list, "array"))
    kind = next((name for type_, name in kinds if isinstance(value, type_)), "number")
    return f"json: cannot unmarshal {kind} into Go value of type string"


def look(draft: Draft, place: Place, missing: str) -> JSON:
    """Return the container of ``place``, to be looked at only; raises Refusal with ``missing`` if there is none."""
    return _container(draft, place, missing=missing, change=False)


def open_container(draft: Draft, place: Place, missing: str) -> JSON:
    """Return the container of ``place``, ready to be changed; raises Refusal with ``missing`` if there is none."""
    return _container(draft, place, missing=missing, change=True)


def _container(draft: Draft, place: Place, *, missing: str, change: bool) -> JSON:
    if place.parents is None:
        raise Refusal(missing)
    try:
        way = draft.container if change else draft.find
        container = way(place.parents, _locate)
    except _NowhereError:
        raise Refusal(missing) from None
    if not isinstance(container, dict | list):
        raise Refusal(missing)
    return container


def _locate(node: JSON, token: str) -> str | int:
    if isinstance(node, list):
        try:
            return index_in(node, token)
        except Refusal:
            raise _NowhereError from None
    if isinstance(node, dict) and token in node:
        return token
    raise _NowhereError


def get_member(container: JSON, key: str) -> JSON:
    """Return a member, None where an object lacks it; raises Refusal for an index that is none."""
    return container[index_in(container, key)] if isinstance(container, list) else container.get(key)


def index_in(array: list[JSON], token: str, *, room: int = 0) -> int:
    """Return the index that ``token`` means; negative ones count from the end, ``room`` places behind the last."""
    index, length = _atoi(token), len(array) + room
    if not -length <= index < length:
        raise Refusal(f"Unable to access invalid index: {index}: invalid index referenced")
    return index + length if index < 0 else index


def _atoi(token: str) -> int:
    match = _ATOI.fullmatch(token)
    if match is None:
        raise Refusal(f"strconv.Atoi: parsing {json.dumps(token, ensure_ascii=False)}: invalid syntax")
    sign, digits = match.groups()
    if len(digits) > _DIGITS or int(digits) > _LARGEST:
        raise Refusal(f"strconv.Atoi: parsing {json.dumps(token)}: value out of range")
    return -int(digits) if sign == "-" else int(digits)


def insert(container: JSON, key: str, value: JSON, *, moves: Moves) -> None:
    """Add a member or an element; raises Refusal for an index that is none, or beyond the limit of moves."""
    if isinstance(container, dict):
        container[key] = value
        return
    if key == "-":
        container.append(value)
        return
    try:
        _atoi(key)
    except Refusal as refusal:
        raise Refusal(f"value was not a proper array index: '{key}': {refusal}") from None
    # Counted from one past the end, so that -1 appends.
    index = index_in(container, key, room=1)
    moves.add(len(container) - index)
    container.insert(index, value)


def delete(container: JSON, key: str, *, moves: Moves) -> None:
    """Remove a member or an element; raises Refusal if there is none, or beyond the limit of moves."""
    if isinstance(container, list):
        index = index_in(container, key)
        moves.add(len(container) - index)
        del container[index]
    elif key in container:
        del container[key]
    else:
        raise Refusal(f"Unable to remove nonexistent key: {key}: {MISSING}")
