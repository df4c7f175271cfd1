"""Compiles and applies JSON Patch documents in two dialects.

The rules of paths, such as negative indexes, are in `fleethook.patch.json_patch_kubernetes_paths` and
`fleethook.patch.rfc6902`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal

from fleethook.model.json import JSON
from fleethook.patch import json_patch_kubernetes, rfc6902
from fleethook.patch.draft import Draft
from fleethook.patch.limits import PatchLimits
from fleethook.patch.patch_errors import OperationError, PatchError

Dialect = Literal["rfc6902", "kubernetes"]

_COMPILERS: Final[dict[str, Callable[[Mapping[str, JSON]], Callable[[Draft], None]]]] = {
    "rfc6902": rfc6902.compile_operation,
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
        compiler = _COMPILERS[dialect]
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
