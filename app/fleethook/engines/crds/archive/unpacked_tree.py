"""The tree that a CRD tarball unpacks to: the allowed paths and types of its entries, its files, and its comparison.

Upstream: ``ValidateTarball`` in pkg/util/validation/validation.go (v1.17.1). Where upstream refuses an entry, the
message is upstream's. Archives of another layout get advice how to pack them. Upstream: charts/_crds (v0.9 to v1.2),
charts/karmada/_crds (since v1.3) and .github/workflows/release.yml (since v1.7).

Files are written relative to descriptors, without following links, and compared with a manifest.
"""

import errno
import hashlib
import os
import posixpath
import re
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from fleethook.engines.crds.archive import tar
from fleethook.engines.crds.archive.crd_content import BASES, MAC_METADATA, REQUIRED
from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.engines.crds.descriptors import (
    DIRECTORY,
    DIRECTORY_MODE,
    EXISTING,
    FILE_MODE,
    NEW,
    NO_DIRECTORY,
    Directory,
    open_at,
    open_directory_at,
    open_parent,
    write_all,
)

TOP: Final = "crds"
_MAX_NAME_BYTES: Final = 255  # NAME_MAX of the file systems in use, in bytes
_MAX_PATH_BYTES: Final = 1024  # a quarter of PATH_MAX, which includes the path of the cache
_MAX_DEPTH: Final = 16
_DOT: Final = "./"
_ITSELF: Final = (".", _DOT)
_HINT: Final = " (--normalize-dot accepts names as `tar -C directory .` writes them)"
# A backslash is a separator on other systems; control characters break names and log lines.
_FORBIDDEN: Final = re.compile(r"[\\\x00-\x1f\x7f]")


class MisplacedError(CRDsError):
    """An entry is not below ``crds``: the archive may have another layout."""

    def __init__(self, text: str, name: str) -> None:
        super().__init__(Exit.ARCHIVE, text)
        self.name: Final = name


class Names:
    """The paths of an archive so far, to find duplicates, and paths that are both file and directory."""

    def __init__(self, *, normalize_dot: bool = False) -> None:
        """Prepare for one archive; ``normalize_dot`` accepts names with a leading ``./``."""
        self._normalize_dot: Final = normalize_dot
        self.files: Final[set[str]] = set()
        self.directories: Final[set[str]] = set()

    def admit(self, entry: tar.Entry) -> str:
        """Check an entry and return its path without a final slash; ``""`` for the root directory ``.``.

        Raises:
            CRDsError: ARCHIVE if the entry is not allowed; the message has its name.
        """
        _check_characters(entry.name)
        directory = entry.kind == tar.DIRECTORY
        if not directory and entry.kind != tar.FILE:
            raise CRDsError(Exit.ARCHIVE, f"unknown type: {entry.kind} in {entry.name}")
        path = self.path_of(entry.name, directory=directory)
        if self._normalize_dot and directory and entry.name in _ITSELF:
            return ""
        _check_place(entry, path, hint=not self._normalize_dot)
        _check_lengths(path)
        parents = [path[:index] for index, character in enumerate(path) if character == "/"]
        if path in self.files or not self.files.isdisjoint(parents):
            twice = "a file twice" if path in self.files and not directory else "a file and a directory"
            raise CRDsError(Exit.ARCHIVE, f"the given file contains {twice}: {entry.name}")
        if not directory and path in self.directories:
            raise CRDsError(Exit.ARCHIVE, f"the given file contains a file and a directory: {entry.name}")
        self.directories.update(parents)
        (self.directories if directory else self.files).add(path)
        return path

    def path_of(self, name: str, *, directory: bool = False) -> str:
        """Return the path that a name means, without checking it."""
        path = name.removeprefix(_DOT) if self._normalize_dot else name
        # As upstream, the root "/" keeps its slash.
        return path.removesuffix("/") if directory and path != "/" else path


def _check_characters(name: str) -> None:
    if forbidden := _FORBIDDEN.search(name):
        raise CRDsError(Exit.ARCHIVE, f"the given file contains a name with {forbidden[0]!r}: {name!r}")


def _check_place(entry: tar.Entry, path: str, *, hint: bool) -> None:
    directory = entry.kind == tar.DIRECTORY
    fits = path.startswith(f"{TOP}/") or (directory and path == TOP)
    if fits and _clean_path(path) == path:
        return
    how = "unexpected" if _clean_path(path) == path else "unclean"
    text = f"the given file contains {how} file {'dir' if directory else 'path'}: {entry.name}"
    if hint and (entry.name in _ITSELF or entry.name.startswith(_DOT)):
        raise CRDsError(Exit.ARCHIVE, text + _HINT)
    raise MisplacedError(text, entry.name)


def _check_lengths(path: str) -> None:
    parts = path.split("/")
    if len(parts) > _MAX_DEPTH or len(path.encode()) > _MAX_PATH_BYTES:
        raise CRDsError(Exit.ARCHIVE, f"the given file contains too long a path: {path}")
    if any(len(part.encode()) > _MAX_NAME_BYTES for part in parts):
        raise CRDsError(Exit.ARCHIVE, f"the given file contains too long a name: {path}")


def _clean_path(path: str) -> str:
    """Return the path as Go's filepath.Clean does; POSIX keeps two slashes in front, Go does not."""
    clean = posixpath.normpath(path)
    return clean[1:] if clean.startswith("//") else clean


_PACK: Final = f"`tar -czf crds.tar.gz {TOP}` in its parent directory"
_FOREIGN: Final = (
    (
        re.compile(r"((?:[^/]+/)*_crds)(?:/|$)"),
        f"this is the layout of Karmada's repository and chart: unpack it, rename {{0}} to {TOP}, pack it by {_PACK}",
    ),
    (
        re.compile(rf"((?:[^/]+/)+){TOP}/bases(?:/|$)"),
        f"the directory {TOP} is below {{0}}: unpack it, and pack {{0}}{TOP} by {_PACK}",
    ),
    (
        re.compile(r"((?:[^/]+/)*artifacts/deploy)/[a-z0-9.]+\.karmada\.io_[a-z]+\.yaml$"),
        "this is the layout of Karmada releases before 0.9, whose CRDs are in {0}: use a later release",
    ),
    (
        re.compile(r"(?:\./)?(?:(?:bases|patches)(?:/|$)|kustomization\.yaml$|[a-z0-9.-]+_[a-z]+\.yaml$)"),
        f"this is the content of the directory {TOP} without the directory: pack it by {_PACK}",
    ),
    (re.compile(r"(?:.*/)?\._[^/]+"), MAC_METADATA),
)
"""Archives of another layout, by the name of an entry, and the advice for each. The first one that fits a name wins."""


def advise(names: Collection[str]) -> str:
    """Return the layout of an archive that is no CRD tarball, and how to make one of it; `""` if it is unknown."""
    for pattern, advice in _FOREIGN:
        if found := next(filter(None, map(pattern.match, names)), None):
            return advice.format(*found.groups())
    return ""


def describe(files: Collection[str]) -> str:
    """Return the layout of a verified tarball, with the releases that have it."""
    below = [path.removeprefix(BASES) for path in files if path.startswith(BASES) and path.endswith(".yaml")]
    grouped = sum("/" in path for path in below)
    if grouped == len(below):
        return f"a directory below {BASES} for each API group, as in Karmada 1.7 and later"
    return f"{'all' if not grouped else 'some'} CRDs directly in {BASES}, as in Karmada 0.9 to 1.6"


class FileDigest(NamedTuple):
    """One regular file."""

    size: int
    sha256: str


class Manifest(NamedTuple):
    """A tarball, and the files in it."""

    sha256: str
    """Digest of the tarball as downloaded, hexadecimal."""
    size: int
    """Size of the tarball in bytes."""
    files: Mapping[str, FileDigest]
    """Files by path below the cache entry, such as ``crds/bases/…``."""
    warnings: tuple[str, ...] = ()
    operator_problems: tuple[str, ...] = ()
    """Reasons why Karmada's operator cannot use the tarball."""


_PIECE: Final = 64 * 1024


class Written(NamedTuple):
    """A file to write, with its path below the directory; the path is checked and has no dot components."""

    path: str
    body: bytes
    mtime: int


def write_tree(into: Directory, directories: Collection[str], files: Iterable[Written]) -> None:
    """Write new directories and files below an existing directory, and sync them to disk.

    Raises:
        CRDsError: DISK if a path exists or cannot be written; the written files stay.
    """
    try:
        with open_directory_at(into) as root:
            ordered = sorted(directories)
            for directory in ordered:
                with open_parent(root, directory) as (parent, name):
                    os.mkdir(name, DIRECTORY_MODE, dir_fd=parent)
            paths = [_write(root, file) for file in files]
            # Synced last and together: the first fsync makes the file system write most of the others' data too.
            for path in paths:
                _sync(root, path, EXISTING)
            for directory in reversed(ordered):
                _sync(root, directory, DIRECTORY)
            os.fsync(root)
    except OSError as error:
        where = "the cache" if isinstance(into, int) else into
        raise CRDsError(Exit.DISK, f"cannot unpack into {where}: {error.strerror or error}") from error


def verify_tree(directory: Directory, manifest: Manifest, *, required: Collection[str] = REQUIRED) -> list[str]:
    """Return the differences of ``crds/`` in a directory from the manifest, one line each, sorted by path.

    Raises:
        CRDsError: DISK if a file cannot be read.
    """
    files = manifest.files
    try:
        with open_directory_at(directory) as root:
            missing = [f"{path} is missing" for path in required if not _is_directory(root, path)]
            found = set(_walk(root, TOP))
            lines = {path: "is missing" for path in files if path not in found}
            lines |= {path: "does not belong there" for path in found if path not in files}
            for path in found & files.keys():
                if difference := _compare_file(root, path, files[path]):
                    lines[path] = difference
    except OSError as error:
        where = "the cache" if isinstance(directory, int) else directory
        raise CRDsError(Exit.DISK, f"cannot read {where}: {error.strerror or error}") from error
    return missing + [f"{path} {lines[path]}" for path in sorted(lines)]


def _write(root: int, file: Written) -> str:
    with open_parent(root, file.path) as (parent, name), open_at(name, NEW, parent) as descriptor:
        write_all(descriptor, file.body)
        os.fchmod(descriptor, FILE_MODE)  # independent of the umask
        os.utime(descriptor, (file.mtime, file.mtime))
    return file.path


def _sync(root: int, path: str, flags: int) -> None:
    with open_parent(root, path) as (parent, name), open_at(name, flags, parent) as descriptor:
        os.fsync(descriptor)


def _is_directory(root: int, path: str) -> bool:
    try:
        with open_parent(root, path) as (parent, name), open_at(name, DIRECTORY, parent):
            return True
    except OSError as error:
        if error.errno not in (*NO_DIRECTORY, errno.ENOENT):
            raise
        return False


def _walk(root: int, top: str) -> Iterator[str]:
    waiting = [top]
    while waiting:
        path = waiting.pop()
        try:
            with open_parent(root, path) as (parent, name), open_at(name, DIRECTORY, parent) as descriptor:
                entries = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in os.scandir(descriptor)]
        except OSError as error:
            if error.errno not in (*NO_DIRECTORY, errno.ENOENT):
                raise
            continue
        for name, is_directory in entries:
            below = f"{path}/{name}"
            if is_directory:
                waiting.append(below)
            else:
                yield below


def _compare_file(root: int, path: str, expected: FileDigest) -> str:
    with open_parent(root, path) as (parent, name):
        if not stat.S_ISREG(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
            return "is not a regular file"
        with open_at(name, EXISTING, parent) as descriptor:
            size = os.fstat(descriptor).st_size
            if size != expected.size:
                return f"has {size} bytes instead of {expected.size}"
            digest = hashlib.sha256()
            while piece := os.read(descriptor, _PIECE):
                digest.update(piece)
    return "" if digest.hexdigest() == expected.sha256 else "has different content"
