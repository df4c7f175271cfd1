"""JSON Patch as kube-apiserver applies it: the dialect and the error texts of evanphx/json-patch v4.

It differs from RFC 6902 in these points:

- ``replace`` of a missing member creates it, and ``copy`` of a missing member stores null.
- ``test`` of null passes on a missing member.
- Array indices may be negative or written ``01`` and ``+1``.
- A missing ``value`` is null, and text before the first ``/`` of a path is ignored.
- ``add`` with the path ``""`` is an error.

Webhook authors rely on some of these, above all on ``replace``. Patches of foreign webhooks are therefore applied in
this dialect.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from fleethook.model.json import JSON
from fleethook.patch.diff import identical
from fleethook.patch.pointer_and_limits import Draft, MoveCounter, OperationError, Tokens

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


Apply = Callable[[Draft], None]


def compile_operation(operation: Mapping[str, JSON]) -> Apply:
    """Return the function that applies ``operation`` to a draft.

    Upstream reports a malformed operation only when it applies it, so compilation never fails.
    """
    op = operation.get("op")
    kind = op if isinstance(op, str) else "unknown"
    compiler = _COMPILERS.get(kind)
    if compiler is None:
        return _always_fail(f"Unexpected kind: {kind}")
    return compiler(parse_path(operation, "path"), operation)


def _always_fail(reason: str) -> Apply:
    def apply(_draft: Draft) -> None:
        raise OperationError(reason)

    return apply


@contextmanager
def _prefix_errors(where: str) -> Iterator[None]:
    try:
        yield
    except OperationError as refusal:
        raise OperationError(f"{where}: {refusal}") from None


def _has_value(container: JSON, key: str | int, value: JSON) -> bool:
    """Return whether the container already holds this value, so that the document need not be copied."""
    there = key in container if isinstance(container, dict) else isinstance(key, int)
    return there and identical(container[key], value)


def _compile_add(path: OperationPath, operation: Mapping[str, JSON]) -> Apply:
    if path.error:
        return _always_fail(f"add operation failed to decode path: {MISSING}")
    missing = f'add operation does not apply: doc is missing path: "{path.text}": {MISSING}'
    value = operation.get("value")

    def apply(draft: Draft) -> None:
        if not _has_value(find_container(draft, path, missing), path.key, value):
            with _prefix_errors(f"error in add for path: '{path.text}'"):
                insert(own_container(draft, path, missing), path.key, value, moves=draft.moves)

    return apply


def _compile_remove(path: OperationPath, _operation: Mapping[str, JSON]) -> Apply:
    if path.error:
        return _always_fail(f"remove operation failed to decode path: {MISSING}")
    missing = f'remove operation does not apply: doc is missing path: "{path.text}": {MISSING}'

    def apply(draft: Draft) -> None:
        container = own_container(draft, path, missing)
        with _prefix_errors(f"error in remove for path: '{path.text}'"):
            delete(container, path.key, moves=draft.moves)

    return apply


def _compile_replace(path: OperationPath, operation: Mapping[str, JSON]) -> Apply:
    if path.error:
        return _always_fail(f"replace operation failed to decode path: {path.error}")
    value = operation.get("value")
    if not path.text:
        return _compile_replace_root(value)
    missing = f"replace operation does not apply: doc is missing path: {path.text}: {MISSING}"

    def apply(draft: Draft) -> None:
        present = find_container(draft, path, missing)
        try:
            key = resolve_index(present, path.key) if isinstance(present, list) else path.key
        except OperationError:
            raise OperationError(
                f"replace operation does not apply: doc is missing key: {path.text}: {MISSING}"
            ) from None
        if not _has_value(present, key, value):
            own_container(draft, path, missing)[key] = value

    return apply


def _compile_replace_root(value: JSON) -> Apply:
    if not isinstance(value, dict | list):
        return _always_fail("replace operation value must be object or array")

    def apply(draft: Draft) -> None:
        if not identical(draft.root, value):
            draft.root = value

    return apply


def _compile_move(path: OperationPath, operation: Mapping[str, JSON]) -> Apply:
    source = parse_path(operation, "from")
    if source.error:
        return _always_fail(f"move operation failed to decode from: {source.error}")
    missing, nowhere = _describe_missing("move", source, path)

    def apply(draft: Draft) -> None:
        container = own_container(draft, source, missing)
        with _prefix_errors(f"error in move for path: '{source.key}'"):
            value = get_member(container, source.key)
            delete(container, source.key, moves=draft.moves)
        if path.error:
            raise OperationError(f"move operation failed to decode path: {path.error}")
        target = own_container(draft, path, nowhere)
        with _prefix_errors(f"error in move for path: '{path.text}'"):
            insert(target, path.key, value, moves=draft.moves)

    return apply


def _describe_missing(op: str, source: OperationPath, path: OperationPath) -> tuple[str, str]:
    """Return the errors of an operation whose source or destination has no container."""
    problem = f"{op} operation does not apply: doc is missing"
    return f"{problem} from path: {source.text}: {MISSING}", f"{problem} destination path: {path.text}: {MISSING}"


def _compile_copy(path: OperationPath, operation: Mapping[str, JSON]) -> Apply:
    source = parse_path(operation, "from")
    if source.error:
        return _always_fail(f"copy operation failed to decode from: {source.error}")
    missing, nowhere = _describe_missing("copy", source, path)

    def apply(draft: Draft) -> None:
        container = find_container(draft, source, missing)
        with _prefix_errors(f"error in copy for from: '{source.text}'"):
            value = get_member(container, source.key)
        if path.error:
            raise OperationError(f"copy operation failed to decode path: {MISSING}")
        target = own_container(draft, path, nowhere)
        copied = draft.share(value)
        with _prefix_errors("error while adding value during copy"):
            insert(target, path.key, copied, moves=draft.moves)

    return apply


def _compile_test(path: OperationPath, operation: Mapping[str, JSON]) -> Apply:
    if path.error:
        return _always_fail(f"test operation failed to decode path: {path.error}")
    value = operation.get("value")
    missing = f"test operation does not apply: is missing path: {path.text}: {MISSING}"

    def apply(draft: Draft) -> None:
        found = draft.root
        if path.text:
            container = find_container(draft, path, missing)
            with _prefix_errors(f"error in test for path: '{path.text}'"):
                found = get_member(container, path.key)
        # Upstream compares scalars as JSON text: 1.0 is not 1.
        if not identical(found, value):
            raise OperationError(f"testing value {path.text} failed: test failed")

    return apply


_COMPILERS: Final[dict[str, Callable[[OperationPath, Mapping[str, JSON]], Apply]]] = {
    "add": _compile_add,
    "remove": _compile_remove,
    "replace": _compile_replace,
    "move": _compile_move,
    "copy": _compile_copy,
    "test": _compile_test,
}
