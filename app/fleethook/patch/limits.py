"""Errors of patches, and limits for patches from webhooks.

The limits count work instead of time, so every machine gives the same verdict.
"""

from typing import Final, NamedTuple


class PatchError(ValueError):
    """A JSON Patch is malformed, exceeds a limit, or does not apply to its document.

    Attributes:
        index: Index of the operation in the patch, None if the error concerns the patch itself.
        op: The operation's name.
        path: The operation's path.
        reason: The problem, without the operation.
    """

    def __init__(self, reason: str, *, index: int | None = None, op: str = "", path: str = "") -> None:
        place = "patch" if index is None else f"operation {index} ({op} {path})"
        super().__init__(f"{place}: {reason}")
        self.index = index
        self.op = op
        self.path = path
        self.reason = reason


class StrategicMergeError(ValueError):
    """A strategic merge patch is malformed or does not apply; the text starts with a JSON pointer.

    Attributes:
        path: The JSON pointer of the value in the patch.
        reason: The problem, without the pointer.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path or '/'}: {reason}")
        self.path = path
        self.reason = reason


class OperationError(Exception):
    """One operation does not apply. Never leaves this package: callers get a `PatchError`."""


class PatchLimits(NamedTuple):
    """Limits for one patch of a foreign webhook."""

    operations: int = 10_000
    """kube-apiserver's limit for PATCH requests (endpoints/handlers/patch.go: maxJSONPatchOperations)."""
    size: int = 2 * 1024 * 1024
    """Maximum bytes of the JSON text. etcd stores at most 1.5 MiB, so a patch that replaces an object fits."""
    moved: int = 100_000_000
    """Maximum list elements that insertions and removals shift. 10,000 insertions at the front of a list of 5,000
    elements shift about 100,000,000 and take about 0.1 s."""

    def check_size(self, size: int) -> None:
        """Raise PatchError if the text of a patch has too many bytes."""
        if size > self.size:
            raise PatchError(f"its text has {size} bytes, and the limit is {self.size} bytes")

    def check_operations(self, count: int) -> None:
        """Raise PatchError if a patch has too many operations."""
        if count > self.operations:
            raise PatchError(f"it has {count} operations, and the limit is {self.operations} operations")


LIMITS: Final = PatchLimits()


class MoveCounter:
    """Counts the list elements that the operations of one patch shift."""

    __slots__ = ("_limit", "_moved")

    def __init__(self, limit: int | None) -> None:
        """Start at zero; None means no limit."""
        self._limit: Final = limit
        self._moved = 0

    def add(self, elements: int) -> None:
        """Count elements before an operation shifts them; raises OperationError beyond the limit."""
        self._moved += elements
        if self._limit is not None and self._moved > self._limit:
            raise OperationError(
                f"the patch moves more than {self._limit} elements of lists, which is the limit: add to the end of the "
                "list ('-') or replace the list"
            )
