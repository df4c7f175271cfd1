"""What the cache refuses to work with, and how it words what the file system will not do."""

import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from app.crds.cache.record import TARBALL
from app.crds.failures import CRDsError, Exit

_KEY: Final = re.compile(r"[0-9a-f]{64}")


def is_key(name: str) -> bool:
    """Tell whether a name is one of an entry: a SHA-256, hexadecimal."""
    return _KEY.fullmatch(name) is not None


@contextmanager
def on_disk(doing: str) -> Iterator[None]:
    """Word what the operating system says: DISK, with what we were doing and the path."""
    try:
        yield
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        raise CRDsError(Exit.DISK, f"{doing}: {error.strerror or error}{where}", transient=True) from error


def entry_exists(path: Path) -> bool:
    """Tell whether there is something at an entry's path that we may use.

    Symbolic links are refused because they lead where nobody has checked modes and owners; somebody else's files and
    files that everybody may write, because who can write an entry decides what the control planes get. Owner may be
    whoever we run as, and root, which is who pre-seeds volumes; a group may write, which is how volumes are shared.

    Raises:
        CRDsError: DISK for what is refused.
    """
    with on_disk("looking at the cache"):
        directory = _status(path)
        if directory is None:
            return False
        _refuse(path, directory, stat.S_ISDIR, "directory")
        tarball = _status(path / TARBALL)
        if tarball is not None:
            _refuse(path / TARBALL, tarball, stat.S_ISREG, "regular file")
        return True


def has_tarball(path: Path) -> bool:
    """Tell whether an entry that exists has a tarball with something in it."""
    tarball = _status(path / TARBALL)
    return tarball is not None and tarball.st_size > 0


def _status(path: Path) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except FileNotFoundError:
        return None


def _refuse(path: Path, status: os.stat_result, is_kind: Callable[[int], bool], kind: str) -> None:
    if stat.S_ISLNK(status.st_mode):
        wrong = "is a symbolic link"
    elif not is_kind(status.st_mode):
        wrong = f"is no {kind}"
    elif status.st_uid not in {0, os.geteuid()}:
        wrong = f"belongs to user {status.st_uid}, not to {os.geteuid()}"
    elif status.st_mode & stat.S_IWOTH:
        wrong = "can be written by everybody"
    else:
        return
    raise CRDsError(Exit.DISK, f"{path} {wrong}: refused; remove it or put it right")
