"""The manifest of a verified tarball."""

from collections.abc import Mapping
from typing import NamedTuple


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
