"""What a verified tarball holds."""

from collections.abc import Mapping
from typing import NamedTuple


class FileDigest(NamedTuple):
    """One regular file."""

    size: int
    sha256: str


class Manifest(NamedTuple):
    """A tarball, and what unpacking it gives."""

    sha256: str
    """Of the tarball as downloaded, hexadecimal."""
    size: int
    """Of the tarball, in bytes."""
    files: Mapping[str, FileDigest]
    """By path below the cache entry: ``crds/bases/…``, slashes between."""
    warnings: tuple[str, ...] = ()
    operator_problems: tuple[str, ...] = ()
    """Why Karmada's own operator cannot use the tarball."""
