"""Limits of the work that a patch makes: counted, never timed, so that a verdict is the same on every machine."""

from typing import Final, NamedTuple

from app.patch.errors import OperationError, PatchError


class PatchLimits(NamedTuple):
    """Limits of one patch from outside."""

    operations: int = 10_000
    """kube-apiserver's limit for PATCH requests (endpoints/handlers/patch.go: maxJSONPatchOperations)."""
    size: int = 2 * 1024 * 1024
    """Bytes of its text. etcd stores at most 1.5 MiB, so a patch that replaces a whole object fits."""
    moved: int = 100_000_000
    """Elements of lists that insertions and removals move. To insert 10,000 elements at the front of a list of 5,000
    moves that many, and takes about 0.1 s."""

    def check_size(self, size: int) -> None:
        """Refuse a patch whose text has too many bytes; raises PatchError."""
        if size > self.size:
            raise PatchError(f"its text has {size} bytes, and the limit is {self.size} bytes")

    def check_operations(self, count: int) -> None:
        """Refuse a patch that has too many operations; raises PatchError."""
        if count > self.operations:
            raise PatchError(f"it has {count} operations, and the limit is {self.operations} operations")


LIMITS: Final = PatchLimits()


class MoveCounter:
    """Counts the elements that the operations of one patch move."""

    __slots__ = ("_limit", "_moved")

    def __init__(self, limit: int | None) -> None:
        """Begin at zero; without a limit nothing is refused."""
        self._limit: Final = limit
        self._moved = 0

    def add(self, elements: int) -> None:
        """Count elements before they are moved; raises OperationError beyond the limit."""
        self._moved += elements
        if self._limit is not None and self._moved > self._limit:
            raise OperationError(
                f"the patch moves more than {self._limit} elements of lists, which is the limit: add to the end of a "
                "list ('-'), or replace the list"
            )
