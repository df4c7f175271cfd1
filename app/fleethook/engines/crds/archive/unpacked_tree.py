"""The tree that a CRD tarball unpacks to: the allowed paths and types of its entries, and its files.

Upstream: ``ValidateTarball`` in pkg/util/validation/validation.go (v1.17.1). Where upstream refuses an entry, the
message is upstream's. Archives of another layout get advice how to pack them. Upstream: charts/_crds (v0.9 to v1.2),
charts/karmada/_crds (since v1.3) and .github/workflows/release.yml (since v1.7).
"""

import posixpath
import re
import tarfile
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from fleethook.engines.crds.archive.crd_content import BASES, MAC_METADATA
from fleethook.engines.crds.crds_errors import CRDsError, Exit

TOP: Final = "crds"
_MAX_NAME_BYTES: Final = 255  # NAME_MAX of the file systems in use, in bytes
_MAX_PATH_BYTES: Final = 1024  # a quarter of PATH_MAX, which includes the path of the cache
_MAX_DEPTH: Final = 16
_FILE_TYPES: Final = (tarfile.REGTYPE, tarfile.AREGTYPE)
# A backslash is a separator on other systems; control characters break names and log lines. tarfile reads bytes
# that are not UTF-8 as surrogates.
_FORBIDDEN: Final = re.compile(r"[\\\x00-\x1f\x7f\ud800-\udfff]")


class MisplacedError(CRDsError):
    """An entry is not below ``crds``: the archive may have another layout."""

    def __init__(self, text: str, name: str) -> None:
        super().__init__(Exit.ARCHIVE, text)
        self.name: Final = name


class Names:
    """The paths of an archive so far, to find duplicates, and paths that are both file and directory."""

    def __init__(self) -> None:
        """Prepare for one archive."""
        self.files: Final[set[str]] = set()
        self.directories: Final[set[str]] = set()

    def admit(self, member: tarfile.TarInfo) -> str:
        """Check an entry and return its path.

        Raises:
            CRDsError: ARCHIVE if the entry is not allowed; the message has its name.
        """
        _check_characters(member.name)
        directory, name = member.isdir(), show_name(member)
        if not directory and member.type not in _FILE_TYPES:
            raise CRDsError(Exit.ARCHIVE, f"unknown type: {member.type[0]} in {name}")
        path = member.name
        _check_place(member)
        _check_lengths(path)
        parents = [path[:index] for index, character in enumerate(path) if character == "/"]
        if path in self.files or not self.files.isdisjoint(parents):
            twice = "a file twice" if path in self.files and not directory else "a file and a directory"
            raise CRDsError(Exit.ARCHIVE, f"the given file contains {twice}: {name}")
        if not directory and path in self.directories:
            raise CRDsError(Exit.ARCHIVE, f"the given file contains a file and a directory: {name}")
        self.directories.update(parents)
        (self.directories if directory else self.files).add(path)
        return path


def show_name(member: tarfile.TarInfo) -> str:
    """Return the name of an entry as Karmada's operator shows it; tarfile removes the slashes behind a directory."""
    return f"{member.name}/" if member.isdir() else member.name


def _check_characters(name: str) -> None:
    if forbidden := _FORBIDDEN.search(name):
        raise CRDsError(Exit.ARCHIVE, f"the given file contains a name with {forbidden[0]!r}: {name!r}")


def _check_place(member: tarfile.TarInfo) -> None:
    directory, path = member.isdir(), member.name
    fits = path.startswith(f"{TOP}/") or (directory and path == TOP)
    if fits and _clean_path(path) == path:
        return
    how = "unexpected" if _clean_path(path) == path else "unclean"
    text = f"the given file contains {how} file {'dir' if directory else 'path'}: {show_name(member)}"
    raise MisplacedError(text, path)


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
