"""How bringing in a CRD tarball fails, each with the exit code of the command (research 6.6)."""

import enum
from typing import Final


class Exit(enum.IntEnum):
    """What a command of ``fleethook crds`` exits with."""

    OK = 0
    INTERNAL = 1
    USAGE = 2
    NOT_CACHED = 10
    LOCKED = 11
    NETWORK = 20
    HTTP = 21
    TLS = 22
    INTEGRITY = 23
    ARCHIVE = 24
    LIMIT = 25
    DISK = 26
    INTERRUPTED = 130


class CRDsError(Exception):
    """What went wrong, in words that say where and what to do; secrets of addresses are never in them.

    Attributes:
        exit: What kind it is.
        transient: Whether the same may go well later without anybody doing anything.
    """

    def __init__(self, exit_code: Exit, text: str, *, transient: bool = False) -> None:
        super().__init__(text)
        self.exit: Final = exit_code
        self.transient: Final = transient
