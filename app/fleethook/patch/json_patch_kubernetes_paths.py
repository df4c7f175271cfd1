"""Paths and array indices, negative ones included, as evanphx/json-patch v4 reads them."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fleethook.model.json import JSON
from fleethook.patch.draft import Draft
from fleethook.patch.limits import MoveCounter
from fleethook.patch.patch_errors import OperationError
from fleethook.patch.pointer import Tokens

MISSING: Final = "missing value"

_ATOI: Final = re.compile(r"([+-]?)0*([0-9]+)", re.ASCII)
# The largest index in Go's int. The length is compared first because Python's int() rejects more than 4,300 digits.
_MAX_INDEX: Final = 2**63 - 1
_MAX_DIGITS: Final = len(str(_MAX_INDEX))
_ABSENT: Final = {
    "path": f"operation missing path field: {MISSING}",
    "from": f"operation, missing from field: {MISSING}",
}


@dataclass(frozen=True, slots=True)
class OperationPath:
    """The ``path`` or ``from`` of an operation.

    Attributes:
        text: The path as written.
        parents: The tokens of the container; None for a path without a slash, which has no container.
        key: The last token.
        error: Why the path is missing or unreadable, ``""`` if it is readable.
    """

    text: str = ""
    parents: Tokens | None = None
    key: str = ""
    error: str = ""


class _MissingParentError(Exception):
    """A container on the path to a target does not exist."""


def parse_path(operation: Mapping[str, JSON], member: str) -> OperationPath:
    """Return the target in ``member`` of an operation, which is ``path`` or ``from``."""
    path = operation.get(member)
    if not isinstance(path, str):
        return OperationPath(error=_ABSENT[member] if path is None else _describe_type_error(path))
    # Upstream ignores the text before the first slash.
    tokens = tuple(part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:])
    return OperationPath(path, tokens[:-1], tokens[-1]) if tokens else OperationPath(path)


def _describe_type_error(value: JSON) -> str:
    kinds = ((bool, "bool"), (dict, "object"), (list, "array"))
    kind = next((name for type_, name in kinds if isinstance(value, type_)), "number")
    return f"json: cannot unmarshal {kind} into Go value of type string"


def find_container(draft: Draft, target: OperationPath, missing: str) -> JSON:
    """Return the container of ``target`` for reading only; raises OperationError(missing) if there is none."""
    return _get_container(draft, target, missing=missing, change=False)


def own_container(draft: Draft, target: OperationPath, missing: str) -> JSON:
    """Return the container of ``target``, copied for a change; raises OperationError(missing) if there is none."""
    return _get_container(draft, target, missing=missing, change=True)


def _get_container(draft: Draft, target: OperationPath, *, missing: str, change: bool) -> JSON:
    if target.parents is None:
        raise OperationError(missing)
    try:
        get = draft.container if change else draft.find
        container = get(target.parents, _locate)
    except _MissingParentError:
        raise OperationError(missing) from None
    if not isinstance(container, dict | list):
        raise OperationError(missing)
    return container


def _locate(node: JSON, token: str) -> str | int:
    if isinstance(node, list):
        try:
            return resolve_index(node, token)
        except OperationError:
            raise _MissingParentError from None
    if isinstance(node, dict) and token in node:
        return token
    raise _MissingParentError


def get_member(container: JSON, key: str) -> JSON:
    """Return a member, or None if an object lacks it; raises OperationError for an invalid index."""
    return container[resolve_index(container, key)] if isinstance(container, list) else container.get(key)


def resolve_index(array: list[JSON], token: str, *, room: int = 0) -> int:
    """Return the index that ``token`` writes; negative ones count back from ``room`` elements behind the last one.

    Raises:
        OperationError: The token is no integer, or the index is out of range.
    """
    index, length = _atoi(token), len(array) + room
    if not -length <= index < length:
        raise OperationError(f"Unable to access invalid index: {index}: invalid index referenced")
    return index + length if index < 0 else index


def _atoi(token: str) -> int:
    match = _ATOI.fullmatch(token)
    if match is None:
        raise OperationError(f"strconv.Atoi: parsing {json.dumps(token, ensure_ascii=False)}: invalid syntax")
    sign, digits = match.groups()
    if len(digits) > _MAX_DIGITS or int(digits) > _MAX_INDEX:
        raise OperationError(f"strconv.Atoi: parsing {json.dumps(token)}: value out of range")
    return -int(digits) if sign == "-" else int(digits)


def insert(container: JSON, key: str, value: JSON, *, moves: MoveCounter) -> None:
    """Add a member or an element; raises OperationError for an invalid index or beyond the limit of moves."""
    if isinstance(container, dict):
        container[key] = value
        return
    if key == "-":
        container.append(value)
        return
    try:
        _atoi(key)
    except OperationError as refusal:
        raise OperationError(f"value was not a proper array index: '{key}': {refusal}") from None
    # Upstream counts negative indices from one element past the end, so -1 appends.
    index = resolve_index(container, key, room=1)
    moves.add(len(container) - index)
    container.insert(index, value)


def delete(container: JSON, key: str, *, moves: MoveCounter) -> None:
    """Remove a member or an element; raises OperationError if it does not exist or beyond the limit of moves."""
    if isinstance(container, list):
        index = resolve_index(container, key)
        moves.add(len(container) - index)
        del container[index]
    elif key in container:
        del container[key]
    else:
        raise OperationError(f"Unable to remove nonexistent key: {key}: {MISSING}")
