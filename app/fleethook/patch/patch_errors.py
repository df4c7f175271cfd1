"""Errors of patches that are malformed or do not apply to their document."""


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
