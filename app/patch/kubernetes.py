"""JSON Patch as apiservers apply it: the dialect of evanphx/json-patch v4, texts included.

It differs from RFC 6902: ``replace`` of a missing member creates it, ``test`` of null passes on a missing member,
``copy`` of a missing member stores null, indices may be negative or written ``01`` and ``+1``, a missing value is
null, text before the first ``/`` of a path is ignored, and ``add ""`` is an error. Webhook authors rely on parts of
this (``replace`` as upsert above all), so what other people's webhooks send is applied by these rules.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from app.model.json import JSON
from app.patch.draft import Draft
from app.patch.equality import identical
from app.patch.errors import Refusal
from app.patch.kubernetes_paths import (
    MISSING,
    Place,
    delete,
    get_member,
    index_in,
    insert,
    look,
    open_container,
    place_of,
)

Apply = Callable[[Draft], None]


def compile_operation(operation: Mapping[str, JSON]) -> Apply:
    """Return the function that applies ``operation`` to a draft.

    As upstream refuses nothing before its turn, a malformed operation is refused when it is applied.
    """
    op = operation.get("op")
    kind = op if isinstance(op, str) else "unknown"
    compiler = _COMPILERS.get(kind)
    if compiler is None:
        return _refusing(f"Unexpected kind: {kind}")
    return compiler(place_of(operation, "path"), operation)


def _refusing(reason: str) -> Apply:
    def apply(_draft: Draft) -> None:
        raise Refusal(reason)

    return apply


@contextmanager
def _told(where: str) -> Iterator[None]:
    try:
        yield
    except Refusal as refusal:
        raise Refusal(f"{where}: {refusal}") from None


def _holds(container: JSON, key: str | int, value: JSON) -> bool:
    """Whether this very value stands there already: then the document stays itself."""
    there = key in container if isinstance(container, dict) else isinstance(key, int)
    return there and identical(container[key], value)


def _compile_add(path: Place, operation: Mapping[str, JSON]) -> Apply:
    if path.error:
        return _refusing(f"add operation failed to decode path: {MISSING}")
    missing = f'add operation does not apply: doc is missing path: "{path.text}": {MISSING}'
    value = operation.get("value")

    def apply(draft: Draft) -> None:
        if not _holds(look(draft, path, missing), path.key, value):
            with _told(f"error in add for path: '{path.text}'"):
                insert(open_container(draft, path, missing), path.key, value, moves=draft.moves)

    return apply


def _compile_remove(path: Place, _operation: Mapping[str, JSON]) -> Apply:
    if path.error:
        return _refusing(f"remove operation failed to decode path: {MISSING}")
    missing = f'remove operation does not apply: doc is missing path: "{path.text}": {MISSING}'

    def apply(draft: Draft) -> None:
        container = open_container(draft, path, missing)
        with _told(f"error in remove for path: '{path.text}'"):
            delete(container, path.key, moves=draft.moves)

    return apply


def _compile_replace(path: Place, operation: Mapping[str, JSON]) -> Apply:
    if path.error:
        return _refusing(f"replace operation failed to decode path: {path.error}")
    value = operation.get("value")
    if not path.text:
        return _replacing_root(value)
    missing = f"replace operation does not apply: doc is missing path: {path.text}: {MISSING}"

    def apply(draft: Draft) -> None:
        present = look(draft, path, missing)
        try:
            key = index_in(present, path.key) if isinstance(present, list) else path.key
        except Refusal:
            raise Refusal(f"replace operation does not apply: doc is missing key: {path.text}: {MISSING}") from None
        if not _holds(present, key, value):
            open_container(draft, path, missing)[key] = value

    return apply


def _replacing_root(value: JSON) -> Apply:
    if not isinstance(value, dict | list):
        return _refusing("replace operation value must be object or array")

    def apply(draft: Draft) -> None:
        if not identical(draft.root, value):
            draft.root = value

    return apply


def _compile_move(path: Place, operation: Mapping[str, JSON]) -> Apply:
    source = place_of(operation, "from")
    if source.error:
        return _refusing(f"move operation failed to decode from: {source.error}")
    missing = f"move operation does not apply: doc is missing from path: {source.text}: {MISSING}"
    nowhere = f"move operation does not apply: doc is missing destination path: {path.text}: {MISSING}"

    def apply(draft: Draft) -> None:
        container = open_container(draft, source, missing)
        with _told(f"error in move for path: '{source.key}'"):
            value = get_member(container, source.key)
            delete(container, source.key, moves=draft.moves)
        if path.error:
            raise Refusal(f"move operation failed to decode path: {path.error}")
        target = open_container(draft, path, nowhere)
        with _told(f"error in move for path: '{path.text}'"):
            insert(target, path.key, value, moves=draft.moves)

    return apply


def _compile_copy(path: Place, operation: Mapping[str, JSON]) -> Apply:
    source = place_of(operation, "from")
    if source.error:
        return _refusing(f"copy operation failed to decode from: {source.error}")
    missing = f"copy operation does not apply: doc is missing from path: {source.text}: {MISSING}"
    nowhere = f"copy operation does not apply: doc is missing destination path: {path.text}: {MISSING}"

    def apply(draft: Draft) -> None:
        container = look(draft, source, missing)
        with _told(f"error in copy for from: '{source.text}'"):
            value = get_member(container, source.key)
        if path.error:
            raise Refusal(f"copy operation failed to decode path: {MISSING}")
        target = open_container(draft, path, nowhere)
        copied = draft.share(value)
        with _told("error while adding value during copy"):
            insert(target, path.key, copied, moves=draft.moves)

    return apply


def _compile_test(path: Place, operation: Mapping[str, JSON]) -> Apply:
    if path.error:
        return _refusing(f"test operation failed to decode path: {path.error}")
    value = operation.get("value")
    missing = f"test operation does not apply: is missing path: {path.text}: {MISSING}"

    def apply(draft: Draft) -> None:
        found = draft.root
        if path.text:
            container = look(draft, path, missing)
            with _told(f"error in test for path: '{path.text}'"):
                found = get_member(container, path.key)
        # Scalars are compared as JSON text: 1.0 is not 1.
        if not identical(found, value):
            raise Refusal(f"testing value {path.text} failed: test failed")

    return apply


_COMPILERS: Final[dict[str, Callable[[Place, Mapping[str, JSON]], Apply]]] = {
    "add": _compile_add,
    "remove": _compile_remove,
    "replace": _compile_replace,
    "move": _compile_move,
    "copy": _compile_copy,
    "test": _compile_test,
}
