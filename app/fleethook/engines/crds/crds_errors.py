"""Errors of CRD tarballs, each with the exit code of ``fleethook crds``."""

import enum
from typing import Final


class Exit(enum.IntEnum):
    """Exit codes of ``fleethook crds``."""

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
    """An error about a CRD tarball. The message names the place and the remedy, and has no secrets of URLs.

    Attributes:
        exit: The exit code of a command.
        transient: Whether a later try may succeed without a change by the user.
    """

    def __init__(self, exit_code: Exit, text: str, *, transient: bool = False) -> None:
        super().__init__(text)
        self.exit: Final = exit_code
        self.transient: Final = transient
