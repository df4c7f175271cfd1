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

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from fleethook.model.json import JSON
from fleethook.patch.draft import Draft
from fleethook.patch.equality import identical
from fleethook.patch.json_patch_kubernetes_paths import (
    MISSING,
    OperationPath,
    delete,
    find_container,
    get_member,
    insert,
    own_container,
    parse_path,
    resolve_index,
)
from fleethook.patch.patch_errors import OperationError

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
