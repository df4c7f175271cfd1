"""What the cache refuses to work with, and how it words what the file system will not do."""

import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from app.crds.cache.metadata import TARBALL
from app.crds.descriptors import DIRECTORY, NO_DIRECTORY
from app.crds.failures import CRDsError, Exit

_KEY: Final = re.compile(r"[0-9a-f]{64}")


def is_key(name: str) -> bool:
    """Tell whether a name is one of an entry: a SHA-256, hexadecimal."""
    return _KEY.fullmatch(name) is not None


@contextmanager
def translate_os_errors(doing: str) -> Iterator[None]:
    """Word what the operating system says: DISK, with what we were doing and the path."""
    try:
        yield
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        raise CRDsError(Exit.DISK, f"{doing}: {error.strerror or error}{where}", transient=True) from error


def open_directory(path: Path, parent: int | None = None) -> int | None:
    """Open a directory of ours, and return its descriptor; None if it is not there.

    Args:
        path: The directory, relative to ``parent`` by its last component, and for errors.
        parent: The open directory that it is in.

    Raises:
        CRDsError: DISK for a link, wherever it leads, and for other files than directories.
        OSError: It cannot be opened.
    """
    try:
        return os.open(path if parent is None else path.name, DIRECTORY, dir_fd=parent)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno not in NO_DIRECTORY:
            raise
        status = _stat(path if parent is None else path.name, parent)
        linked = status is not None and stat.S_ISLNK(status.st_mode)
        raise _make_refusal(path, "is a symbolic link" if linked else "is no directory") from None


def open_entry(path: Path, parent: int) -> int | None:
    """Open an entry's directory, if we may use it, and return its descriptor; None if it is not there.

    Symbolic links are refused because they lead where nobody has checked modes and owners; somebody else's files and
    files that everybody may write, because who can write an entry decides what the control planes get. Owner may be
    whoever we run as, and root, which is who pre-seeds volumes; a group may write, which is how volumes are shared.

    Raises:
        CRDsError: DISK for a directory that is refused or cannot be opened.
    """
    with translate_os_errors("looking at the cache"):
        directory = open_directory(path, parent)
        if directory is None:
            return None
        try:
            _check_owner_and_mode(path, os.fstat(directory), stat.S_ISDIR, "directory")
            tarball = _stat(TARBALL, directory)
            if tarball is not None:
                _check_owner_and_mode(path / TARBALL, tarball, stat.S_ISREG, "regular file")
        except BaseException:
            os.close(directory)
            raise
        return directory


def has_tarball(directory: int) -> bool:
    """Tell whether an open entry has a tarball with something in it."""
    tarball = _stat(TARBALL, directory)
    return tarball is not None and tarball.st_size > 0


def _stat(path: str | Path, parent: int | None) -> os.stat_result | None:
    try:
        return os.stat(path, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _check_owner_and_mode(path: Path, status: os.stat_result, is_kind: Callable[[int], bool], kind: str) -> None:
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
    raise _make_refusal(path, wrong)


def _make_refusal(path: Path, wrong: str) -> CRDsError:
    return CRDsError(Exit.DISK, f"{path} {wrong}: refused; remove it or put it right")
