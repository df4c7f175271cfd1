"""Refuses links and unsafe owners or modes in the cache, and translates errors of the file system."""

import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from fleethook.engines.crds.cache.entry_record import TARBALL
from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.engines.crds.descriptors import DIRECTORY, NO_DIRECTORY

_KEY: Final = re.compile(r"[0-9a-f]{64}")


def is_key(name: str) -> bool:
    """Return whether a name is the key of an entry: a hexadecimal SHA-256 digest."""
    return _KEY.fullmatch(name) is not None


@contextmanager
def translate_os_errors(doing: str) -> Iterator[None]:
    """Turn an OSError of the block into a CRDsError DISK; the message has ``doing`` and the path."""
    try:
        yield
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        raise CRDsError(Exit.DISK, f"{doing}: {error.strerror or error}{where}", transient=True) from error


def open_directory(path: Path, parent: int | None = None) -> int | None:
    """Open a directory of the cache and return its descriptor, or None if it does not exist.

    Args:
        path: The directory. With ``parent`` only the last component is opened; errors show all of it.
        parent: Descriptor of the parent directory.

    Raises:
        CRDsError: DISK for a link, and for a file that is not a directory.
        OSError: The directory cannot be opened.
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
        raise _make_refusal(path, "is a symbolic link" if linked else "is not a directory") from None


def open_entry(path: Path, parent: int) -> int | None:
    """Open an entry's directory, if its owner and mode are safe, and return its descriptor; None if it does not exist.

    A user who can write an entry decides on the CRDs of the control planes. So symbolic links, files of other users and
    world-writable files are refused. The owner may be the user of this process, or root, which pre-seeds volumes. The
    group may write, because that is how pods share volumes.

    Raises:
        CRDsError: DISK for a directory that is refused or cannot be opened.
    """
    with translate_os_errors("reading the cache"):
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
    """Return whether an open entry has a tarball that is not empty."""
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
        wrong = f"is not a {kind}"
    elif status.st_uid not in {0, os.geteuid()}:
        wrong = f"belongs to user {status.st_uid}, not to {os.geteuid()}"
    elif status.st_mode & stat.S_IWOTH:
        wrong = "is world-writable"
    else:
        return
    raise _make_refusal(path, wrong)


def _make_refusal(path: Path, wrong: str) -> CRDsError:
    return CRDsError(Exit.DISK, f"{path} {wrong}: refused; remove it, or correct its type, owner and mode")
