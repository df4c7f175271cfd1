"""JSON Patch as apiservers apply it: the dialect of evanphx/json-patch v4, texts included.

It differs from RFC 6902: ``replace`` of a missing member creates it, ``test`` of null passes on a missing member,
``copy`` of a missing member stores null, indices may be negative or written ``01`` and ``+1``, a missing value is
null, text before the first ``/`` of a path is ignored, and ``add ""`` is an error. Webhook authors rely on parts of
this (``replace`` as upsert above all), so what other people's webhooks send is applied by these rules.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

from app.model.json import JSON
from app.patch.draft import Draft, clone
from app.patch.equality import identical
from app.patch.errors import Refusal

Apply = Callable[[Draft], None]
Tokens = tuple[str, ...]

_ATOI: Final = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)


def compile_operation(operation: Mapping[str, JSON]) -> Apply:
    """Return the function that applies ``operation`` to a draft.

    As in upstream nothing is checked before it is applied, so a malformed operation is refused in its turn.
    """
    op = operation.get("op")

    def apply(draft: Draft) -> None:
        if op not in _APPLIERS:
            raise Refusal(f"Unexpected kind: {op if isinstance(op, str) else 'unknown'}")
        path = operation.get("path")
        if not isinstance(path, str):
            raise Refusal("missing operation path: missing value")
        _APPLIERS[op](draft, path, operation)

    return apply


def _tokens(path: str) -> Tokens:
    """Return the tokens of a path; empty where it has no slash; what stands before the first one is ignored."""
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:])


def _atoi(token: str) -> int:
    if not _ATOI.fullmatch(token):
        raise Refusal(f'strconv.Atoi: parsing "{token}": invalid syntax')
    return int(token)


def _index(token: str, length: int) -> int:
    """Return the index that ``token`` means in an array of ``length``; negative ones count from its end."""
    index = _atoi(token)
    if not -length <= index < length:
        raise Refusal(f"Unable to access invalid index: {index}: invalid index referenced")
    return index + length if index < 0 else index


def _get(node: JSON, token: str) -> JSON:
    """Return a member, None where an object lacks it; raises Refusal for an index that is none."""
    if isinstance(node, list):
        return node[_index(token, len(node))]
    return node.get(token)


class _NoContainerError(Exception):
    """The way to a place ends before its last token."""


def _step(node: JSON, token: str) -> JSON:
    try:
        child = _get(node, token)
    except Refusal:
        raise _NoContainerError from None
    if not isinstance(child, (dict, list)):
        raise _NoContainerError
    return child


def _container(draft: Draft, path: str, missing: str) -> tuple[JSON, str]:
    """Return the container and the key that ``path`` ends in; ``missing`` says what to refuse with."""
    tokens = _tokens(path)
    if not tokens or not isinstance(draft.root, (dict, list)):
        raise Refusal(missing)
    try:
        return draft.parent(_normal(draft, tokens), _step), tokens[-1]
    except _NoContainerError:
        raise Refusal(missing) from None


def _normal(draft: Draft, tokens: Tokens) -> Tokens:
    """Return ``tokens`` with array indices on the way written plainly, as a draft needs them."""
    node = draft.root
    plain: list[str] = []
    for token in tokens[:-1]:
        child = _step(node, token)
        plain.append(str(_index(token, len(node))) if isinstance(node, list) else token)
        node = child
    return (*plain, tokens[-1])


def _insert(container: JSON, key: str, value: JSON) -> None:
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
    container.insert(_index(key, len(container) + 1), value)


def _delete(container: JSON, key: str) -> None:
    if isinstance(container, list):
        del container[_index(key, len(container))]
    elif key in container:
        del container[key]
    else:
        raise Refusal(f"Unable to remove nonexistent key: {key}: missing value")


def _quoted(path: str) -> str:
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _add(draft: Draft, path: str, operation: Mapping[str, JSON]) -> None:
    missing = f"add operation does not apply: doc is missing path: {_quoted(path)}: missing value"
    container, key = _container(draft, path, missing)
    _wrapped("add", path, lambda: _insert(container, key, operation.get("value")))


def _remove(draft: Draft, path: str, _operation: Mapping[str, JSON]) -> None:
    missing = f"remove operation does not apply: doc is missing path: {_quoted(path)}: missing value"
    container, key = _container(draft, path, missing)
    _wrapped("remove", path, lambda: _delete(container, key))


def _replace(draft: Draft, path: str, operation: Mapping[str, JSON]) -> None:
    value = operation.get("value")
    if path == "":
        if not isinstance(value, (dict, list)):
            raise Refusal("replace operation hit impossible case")
        draft.root = value
        return
    missing = f"replace operation does not apply: doc is missing path: {path}: missing value"
    container, key = _container(draft, path, missing)
    if isinstance(container, dict):
        container[key] = value
        return
    try:
        container[_index(key, len(container))] = value
    except Refusal:
        raise Refusal(f"replace operation does not apply: doc is missing key: {path}: missing value") from None


def _source(draft: Draft, name: str, operation: Mapping[str, JSON]) -> tuple[str, JSON, str, JSON]:
    source = operation.get("from")
    if not isinstance(source, str):
        raise Refusal(f"{name} operation failed to decode from: missing value")
    missing = f"{name} operation does not apply: doc is missing from path: {source}: missing value"
    container, key = _container(draft, source, missing)
    found: list[JSON] = []
    _wrapped(name, source, lambda: found.append(_get(container, key)))
    return source, container, key, found[0]


def _move(draft: Draft, path: str, operation: Mapping[str, JSON]) -> None:
    source, container, key, value = _source(draft, "move", operation)
    _wrapped("move", source, lambda: _delete(container, key))
    missing = f"move operation does not apply: doc is missing destination path: {path}: missing value"
    target, last = _container(draft, path, missing)
    _wrapped("move", path, lambda: _insert(target, last, value))


def _copy(draft: Draft, path: str, operation: Mapping[str, JSON]) -> None:
    _, _, _, value = _source(draft, "copy", operation)
    missing = f"copy operation does not apply: doc is missing destination path: {path}: missing value"
    target, last = _container(draft, path, missing)
    _wrapped("copy", path, lambda: _insert(target, last, clone(value)))


def _test(draft: Draft, path: str, operation: Mapping[str, JSON]) -> None:
    value = operation.get("value")
    if path == "":
        found = draft.root
    else:
        missing = f"test operation does not apply: is missing path: {path}: missing value"
        # On a draft of its own: looking must not copy anything.
        container, key = _container(Draft(draft.root), path, missing)
        got: list[JSON] = []
        _wrapped("test", path, lambda: got.append(_get(container, key)))
        found = got[0]
    # Scalars are compared as JSON text: 1.0 is not 1.
    if not identical(found, value):
        raise Refusal(f"testing value {path} failed: test failed")


def _wrapped(name: str, path: str, action: Callable[[], object]) -> None:
    try:
        action()
    except Refusal as refusal:
        raise Refusal(f"error in {name} for path: '{path}': {refusal}") from None


_APPLIERS: Final[dict[str, Callable[[Draft, str, Mapping[str, JSON]], None]]] = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "move": _move,
    "copy": _copy,
    "test": _test,
}
