"""JSON Patch (RFC 6902): compiles and applies patches in two dialects, of which this module has the strict one."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal

from fleethook.model.json import JSON
from fleethook.patch import json_patch_kubernetes
from fleethook.patch.diff import equal, identical
from fleethook.patch.pointer_and_limits import (
    Draft,
    OperationError,
    PatchError,
    PatchLimits,
    Tokens,
    locate,
    parse,
    parse_index,
)

Apply = Callable[[Draft], None]

_END: Final = "-"


def _compile_operation(operation: Mapping[str, JSON]) -> Apply:
    """Return the function that applies ``operation`` to a draft; raises OperationError if it is malformed."""
    op, path = operation.get("op"), operation.get("path")
    # The patch may come from a webhook: op can be a list or an object, which are no keys of a dict.
    compiler = _COMPILERS.get(op) if isinstance(op, str) else None
    if compiler is None:
        raise OperationError(f"op must be one of {', '.join(_COMPILERS)}, not {op!r}")
    if not isinstance(path, str):
        raise OperationError("path is missing")
    return compiler(_parse_tokens(path), operation)


def _parse_tokens(pointer: str) -> Tokens:
    try:
        return parse(pointer)
    except ValueError as error:
        raise OperationError(str(error)) from None


def _parse_source(operation: Mapping[str, JSON]) -> Tokens:
    source = operation.get("from")
    if not isinstance(source, str):
        raise OperationError("from is missing")
    return _parse_tokens(source)


def _require_value(operation: Mapping[str, JSON]) -> JSON:
    if "value" not in operation:
        raise OperationError("value is missing")
    return operation["value"]


def _add_at(draft: Draft, tokens: Tokens, value: JSON) -> None:
    if not tokens:
        _set_root(draft, value)
        return
    parents, last = tokens[:-1], tokens[-1]
    present = draft.find(parents, locate)
    if isinstance(present, dict):
        # A patch that changes nothing returns the document itself, so do not copy for an identical value.
        if last not in present or not identical(present[last], value):
            draft.container(parents, locate)[last] = value
    elif isinstance(present, list):
        index = len(present) if last == _END else parse_index(last)
        if index > len(present):
            raise OperationError(f"index {index} is out of range: the array has {len(present)} elements")
        draft.moves.add(len(present) - index)
        draft.container(parents, locate).insert(index, value)
    else:
        raise OperationError(f"cannot add {last!r}: its parent is neither object nor array")


def _remove_at(draft: Draft, tokens: Tokens) -> JSON:
    if not tokens:
        raise OperationError("the document itself cannot be removed")
    parent = draft.container(tokens[:-1], locate)
    key = locate(parent, tokens[-1])
    if isinstance(key, int):
        draft.moves.add(len(parent) - key)
    return parent.pop(key)


def _set_root(draft: Draft, value: JSON) -> None:
    if not identical(draft.root, value):
        draft.root = value


def _compile_add(tokens: Tokens, operation: Mapping[str, JSON]) -> Apply:
    value = _require_value(operation)
    return lambda draft: _add_at(draft, tokens, value)


def _compile_remove(tokens: Tokens, _operation: Mapping[str, JSON]) -> Apply:
    def apply(draft: Draft) -> None:
        _remove_at(draft, tokens)

    return apply


def _compile_replace(tokens: Tokens, operation: Mapping[str, JSON]) -> Apply:
    value = _require_value(operation)
    if not tokens:
        return lambda draft: _set_root(draft, value)
    parents, last = tokens[:-1], tokens[-1]

    def apply(draft: Draft) -> None:
        present = draft.find(parents, locate)
        key = locate(present, last)
        if not identical(present[key], value):
            draft.container(parents, locate)[key] = value

    return apply


def _compile_move(tokens: Tokens, operation: Mapping[str, JSON]) -> Apply:
    source = _parse_source(operation)
    if len(source) < len(tokens) and tokens[: len(source)] == source:
        raise OperationError("a value cannot be moved into itself")

    def apply(draft: Draft) -> None:
        if source == tokens:
            draft.find(source, locate)
        elif not tokens:
            draft.root = draft.find(source, locate)
        else:
            _add_at(draft, tokens, _remove_at(draft, source))

    return apply


def _compile_copy(tokens: Tokens, operation: Mapping[str, JSON]) -> Apply:
    source = _parse_source(operation)
    return lambda draft: _add_at(draft, tokens, draft.share(draft.find(source, locate)))


def _compile_test(tokens: Tokens, operation: Mapping[str, JSON]) -> Apply:
    value = _require_value(operation)

    def apply(draft: Draft) -> None:
        if not equal(draft.find(tokens, locate), value):
            raise OperationError("the value is another one")

    return apply


_COMPILERS: Final[dict[str, Callable[[Tokens, Mapping[str, JSON]], Apply]]] = {
    "add": _compile_add,
    "remove": _compile_remove,
    "replace": _compile_replace,
    "move": _compile_move,
    "copy": _compile_copy,
    "test": _compile_test,
}


Dialect = Literal["rfc6902", "kubernetes"]

_DIALECTS: Final[dict[str, Callable[[Mapping[str, JSON]], Callable[[Draft], None]]]] = {
    "rfc6902": _compile_operation,
    "kubernetes": json_patch_kubernetes.compile_operation,
}


class CompiledPatch:
    """A JSON Patch with parsed and checked operations, for any number of documents."""

    __slots__ = ("_appliers", "_limits", "_operations")

    def __init__(
        self, operations: Sequence[Mapping[str, JSON]], dialect: Dialect, *, limits: PatchLimits | None = None
    ) -> None:
        if limits is not None:
            limits.check_operations(len(operations))
        self._limits: Final = limits
        self._operations: Final = tuple(operations)
        compiler = _DIALECTS[dialect]
        appliers: list[Callable[[Draft], None]] = []
        for index, operation in enumerate(self._operations):
            if not isinstance(operation, Mapping):
                raise PatchError(f"element {index} is not an object")
            try:
                appliers.append(compiler(operation))
            except OperationError as refusal:
                raise self._error(index, refusal) from None
        self._appliers: Final = tuple(appliers)

    def apply(self, document: JSON) -> JSON:
        """Return ``document`` with every operation applied, in order.

        ``document`` stays unchanged and shares all branches without a change with the result.

        Raises:
            PatchError: An operation does not apply. The error names the first one.
        """
        draft = Draft(document, max_moved=None if self._limits is None else self._limits.moved)
        index = 0
        try:
            for index, applier in enumerate(self._appliers):  # noqa: B007 - the error names the operation that failed
                applier(draft)
        except OperationError as refusal:
            raise self._error(index, refusal) from None
        except RecursionError:
            raise self._error(index, OperationError("the document or the value is nested too deeply")) from None
        return draft.root

    def _error(self, index: int, refusal: OperationError) -> PatchError:
        operation = self._operations[index]
        op, path = operation.get("op"), operation.get("path")
        return PatchError(
            str(refusal),
            index=index,
            op=op if isinstance(op, str) else repr(op),
            path=path if isinstance(path, str) else repr(path),
        )


def compile_patch(
    operations: Sequence[Mapping[str, JSON]] | None, *, dialect: Dialect = "rfc6902", limits: PatchLimits | None = None
) -> CompiledPatch:
    """Compile ``operations``.

    Args:
        operations: A decoded JSON Patch document; None is an empty patch in the kubernetes dialect.
        dialect: ``rfc6902`` follows the RFC strictly, ``kubernetes`` behaves like kube-apiserver.
        limits: The limits for a foreign patch; None for a patch that this process made.

    Raises:
        PatchError: The patch or one of its operations is malformed, or the patch has too many operations.
    """
    if operations is None and dialect == "kubernetes":
        return CompiledPatch((), dialect)
    if not isinstance(operations, list | tuple):
        raise PatchError("a JSON Patch is an array of operations")
    return CompiledPatch(operations, dialect, limits=limits)


def apply(
    document: JSON,
    operations: Sequence[Mapping[str, JSON]] | None,
    *,
    dialect: Dialect = "rfc6902",
    limits: PatchLimits | None = None,
) -> JSON:
    """Return ``document`` patched, as `compile_patch` and `CompiledPatch.apply` do; raises PatchError."""
    return compile_patch(operations, dialect=dialect, limits=limits).apply(document)
