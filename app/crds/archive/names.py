"""Which entries a CRD tarball may have (upstream: ValidateTarball in pkg/util/validation; research 2.3, 6.5).

The texts are upstream's where upstream refuses, and ours where only we do.
"""

import posixpath
import re
from typing import Final

from app.crds.archive import tar
from app.crds.failures import CRDsError, Exit

TOP: Final = "crds"
_MOST_NAME: Final = 255  # NAME_MAX of the file systems in use, in bytes
_MOST_PATH: Final = 1024  # a quarter of PATH_MAX: the cache's own path comes in front
_MOST_DEPTH: Final = 16
# A backslash separates on other systems, the others end a name or a line of a log.
_ODD: Final = re.compile(r"[\\\x00-\x1f\x7f]")


class Names:
    """The paths of an archive so far: what may not come twice, or as a file and a directory."""

    def __init__(self) -> None:
        self.files: Final[set[str]] = set()
        self.directories: Final[set[str]] = set()

    def admit(self, entry: tar.Entry) -> str:
        """Return the path of an entry without its final slash, parents noted.

        Raises:
            CRDsError: ARCHIVE, with the name.
        """
        _check_characters(entry.name)
        directory = entry.kind == tar.DIRECTORY
        if not directory and entry.kind != tar.FILE:
            raise CRDsError(Exit.ARCHIVE, f"unknown type: {entry.kind} in {entry.name}")
        path = entry.name.removesuffix("/") if directory else entry.name
        _check_place(entry.name, path, "dir" if directory else "path", bare=directory)
        _check_lengths(path)
        parents = _parents(path)
        if path in self.files or not self.files.isdisjoint(parents):
            twice = "a file twice" if path in self.files and not directory else "a file and a directory"
            raise CRDsError(Exit.ARCHIVE, f"the given file contains {twice}: {entry.name}")
        if not directory and path in self.directories:
            raise CRDsError(Exit.ARCHIVE, f"the given file contains a file and a directory: {entry.name}")
        self.directories.update(parents)
        (self.directories if directory else self.files).add(path)
        return path


def _check_characters(name: str) -> None:
    if odd := _ODD.search(name):
        raise CRDsError(Exit.ARCHIVE, f"the given file contains a name with {odd[0]!r}: {name!r}")


def _check_place(name: str, path: str, what: str, *, bare: bool) -> None:
    if _clean(path) != path:
        raise CRDsError(Exit.ARCHIVE, f"the given file contains unclean file {what}: {name}")
    if not (path.startswith(f"{TOP}/") or (bare and path == TOP)):
        raise CRDsError(Exit.ARCHIVE, f"the given file contains unexpected file {what}: {name}")


def _check_lengths(path: str) -> None:
    parts = path.split("/")
    if len(parts) > _MOST_DEPTH or len(path.encode()) > _MOST_PATH:
        raise CRDsError(Exit.ARCHIVE, f"the given file contains too long a path: {path}")
    if any(len(part.encode()) > _MOST_NAME for part in parts):
        raise CRDsError(Exit.ARCHIVE, f"the given file contains too long a name: {path}")


def _clean(path: str) -> str:
    """Return the path as Go's filepath.Clean does; POSIX keeps two slashes in front, Go does not."""
    clean = posixpath.normpath(path)
    return clean[1:] if clean.startswith("//") else clean


def _parents(path: str) -> list[str]:
    return [path[:index] for index, character in enumerate(path) if character == "/"]
