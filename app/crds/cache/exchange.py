"""Two directories change places in one step: renameat2(RENAME_EXCHANGE), which Python does not have."""

import ctypes
import errno
import os
from pathlib import Path
from typing import Final

_AT_FDCWD: Final = -100
_RENAME_EXCHANGE: Final = 2
# What says that this kernel, C library or file system cannot, and not that these two paths cannot.
_CANNOT: Final = (errno.ENOSYS, errno.EINVAL, errno.EPERM)


def exchange(one: Path, other: Path) -> bool:
    """Let two existing paths of a file system change places; False, with nothing done, where that is not to be had.

    Raises:
        OSError: It is to be had and went wrong.
    """
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    if rename(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in _CANNOT:
        return False
    raise OSError(number, os.strerror(number), str(one), None, str(other))
