"""Exchanges two directories atomically: renameat2(RENAME_EXCHANGE), which Python does not provide."""

import ctypes
import errno
import os
from typing import Final, NamedTuple

_RENAME_EXCHANGE: Final = 2
# Errors of a kernel, C library or file system without the call; other errors are about the two names.
_CANNOT: Final = (errno.ENOSYS, errno.EINVAL, errno.EPERM)


class EntryName(NamedTuple):
    """A name in an open directory."""

    directory: int
    name: str


def exchange(one: EntryName, other: EntryName) -> bool:
    """Exchange two existing names of a file system; returns False, without a change, if the system cannot do that.

    Links are exchanged, not followed.

    Raises:
        OSError: The exchange failed.
    """
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    if rename(one.directory, os.fsencode(one.name), other.directory, os.fsencode(other.name), _RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in _CANNOT:
        return False
    raise OSError(number, os.strerror(number), one.name, None, other.name)
