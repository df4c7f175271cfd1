"""What a patch that does not apply says."""


class PatchError(ValueError):
    """An operation that is malformed or does not fit its document.

    Attributes:
        index: Position of the operation in the patch, None where the patch as a whole is at fault.
        op: The operation's name.
        path: The operation's path.
        reason: What is wrong.
    """

    def __init__(self, reason: str, *, index: int | None = None, op: str = "", path: str = "") -> None:
        place = "patch" if index is None else f"operation {index} ({op} {path})"
        super().__init__(f"{place}: {reason}")
        self.index = index
        self.op = op
        self.path = path
        self.reason = reason


class StrategicMergeError(ValueError):
    """A strategic merge patch that does not fit; the text starts with the JSON pointer of the place.

    Attributes:
        path: The pointer, into the patch.
        reason: What is wrong.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path or '/'}: {reason}")
        self.path = path
        self.reason = reason


class OperationError(Exception):
    """Why one operation does not apply."""
