"""Two directories change places in one step: renameat2(RENAME_EXCHANGE), which Python does not have."""

import ctypes
import errno
import os
from typing import Final, NamedTuple

_RENAME_EXCHANGE: Final = 2
# Errors of a kernel, C library or file system without the call, as opposed to errors of these two names.
_CANNOT: Final = (errno.ENOSYS, errno.EINVAL, errno.EPERM)


class EntryName(NamedTuple):
    """A name in an open directory."""

    directory: int
    name: str


def exchange(one: EntryName, other: EntryName) -> bool:
    """Let two existing names of a file system change places; False, with nothing done, where that is not to be had.

    Links are exchanged, not followed.

    Raises:
        OSError: It is to be had and went wrong.
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
