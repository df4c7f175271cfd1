"""Verifies and unpacks CRD tarballs.

A tarball is read into memory once, so that the verified bytes are the bytes in use. It is verified to its end before
the first file is written, and inflated a second time for writing: one file is in memory at a time.

``gzip`` and ``tarfile`` of the standard library read several members as one, skip zeros after the last, and stop before
the trailer when the tar in it ends. They do not notice a truncated or damaged end, so the gzip stream (RFC 1952) is
read by zlib here.
"""

import errno
import hashlib
import posixpath
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from fleethook.engines.crds.archive import tar
from fleethook.engines.crds.archive.crd_content import LIMITS, ArchiveLimits, Content, Tree
from fleethook.engines.crds.archive.unpacked_tree import (
    FileDigest,
    Manifest,
    MisplacedError,
    Names,
    Written,
    advise,
    write_tree,
)
from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.engines.crds.descriptors import Directory, read_regular

_PIECE: Final = 64 * 1024
_GZIP_ONLY: Final = 31  # zlib: 15 bits of window, and 16 for "a gzip header and trailer, nothing else"
_MAGIC: Final = b"\x1f\x8b"


class GzipReader:
    """Reads the content of a gzip file in order."""

    def __init__(self, packed: bytes, *, limits: ArchiveLimits) -> None:
        self._pieces: Final = _inflate(packed, limits.max_unpacked(len(packed)), limits)
        self._piece = memoryview(b"")

    def take(self, size: int) -> bytes:
        """Return the next ``size`` bytes, fewer only at the end.

        Raises:
            CRDsError: INTEGRITY if the gzip is truncated, damaged or followed by data, LIMIT if it inflates to too
                much.
        """
        if size <= len(self._piece):
            taken, self._piece = self._piece[:size], self._piece[size:]
            return bytes(taken)
        parts: list[memoryview] = []
        while size > 0 and (self._piece or self._next_piece()):
            parts.append(self._piece[:size])
            self._piece = self._piece[size:]
            size -= len(parts[-1])
        return b"".join(parts)

    def drain(self) -> None:
        """Read and drop the rest, so that the checksum is verified; raises as ``take``."""
        while self._next_piece():
            pass

    def _next_piece(self) -> bool:
        self._piece = memoryview(next(self._pieces, b""))
        return bool(self._piece)


def _inflate(packed: bytes, max_bytes: int, limits: ArchiveLimits) -> Iterator[bytes]:
    stream = zlib.decompressobj(_GZIP_ONLY)
    rest, waiting, total = memoryview(packed), b"", 0
    while not stream.eof:
        if not waiting:
            waiting, rest = bytes(rest[:_PIECE]), rest[_PIECE:]
        given = waiting
        piece = _decompress(stream, given, first=total == 0)
        waiting = stream.unconsumed_tail
        if not given and not piece:
            raise CRDsError(Exit.INTEGRITY, "the gzip stream is not complete: the file is cut off")
        total += len(piece)
        if total > max_bytes:
            raise CRDsError(Exit.LIMIT, _describe_excess(max_bytes, limits))
        if piece:
            yield piece
    after = stream.unused_data or bytes(rest[: len(_MAGIC)])
    if after:
        what = "another gzip member" if after.startswith(_MAGIC) else "other data"
        raise CRDsError(Exit.INTEGRITY, f"the gzip stream is followed by {what}")


def _decompress(stream: "zlib._Decompress", data: bytes, *, first: bool) -> bytes:
    try:
        return stream.decompress(data, _PIECE)
    except zlib.error as error:
        if first and not data.startswith(_MAGIC):
            # The message of Karmada's operator (upstream: Unpack in operator/pkg/util/util.go).
            raise CRDsError(Exit.INTEGRITY, "new reader failed. gzip: invalid header") from None
        raise CRDsError(Exit.INTEGRITY, f"the gzip stream is damaged: {error}") from None


def _describe_excess(max_bytes: int, limits: ArchiveLimits) -> str:
    if max_bytes == limits.unpacked_bytes:
        return f"the tarball holds more than {max_bytes} bytes"
    return f"the tarball holds more than {max_bytes} bytes, over {limits.ratio} times its own size"


_MAX_PROBLEMS: Final = 16
_DOT: Final = "./"


class OperatorRules:
    """Finds the reasons why Karmada's operator cannot use a tarball. Pass the entries in order."""

    def __init__(self) -> None:
        """Prepare for one tarball."""
        self._directories: Final[set[str]] = set()
        self._problems: Final[list[str]] = []

    def look(self, entry: tar.Entry) -> None:
        """Check the next entry; `Names` must have admitted it."""
        if len(self._problems) < _MAX_PROBLEMS:
            self._problems.extend([problem] if (problem := self._find_problem(entry)) else [])

    def problems(self) -> tuple[str, ...]:
        """Return the first reasons why the operator cannot use the tarball; none if it can."""
        return tuple(self._problems)

    def _find_problem(self, entry: tar.Entry) -> str:
        if entry.kind == tar.PAX_GLOBAL:
            return "it has a pax global header, as `git archive` writes it (unknown type: 103)"
        path = entry.name.removesuffix("/")
        if entry.name.startswith(_DOT) or path == ".":
            return f"the name {entry.name} begins with ./ (unclean file dir or path)"
        parent = posixpath.dirname(path)
        if parent and parent not in self._directories:
            return f"{entry.name} comes before an entry for its directory {parent}/ (no such file or directory)"
        if entry.kind == tar.DIRECTORY:
            if path in self._directories:
                return f"the directory {entry.name} has two entries (file exists)"
            self._directories.add(path)
        return ""


__all__ = ["FileDigest", "Manifest", "list_files", "load", "read_tree", "unpack", "verify"]

Tarball = bytes | Path
"""A tarball in memory, or a regular file."""


def load(tarball: Path, *, limits: ArchiveLimits = LIMITS) -> bytes:
    """Return the bytes of a file that a user named.

    Raises:
        CRDsError: DISK if it cannot be read or is not a regular file, LIMIT if it is too large.
    """
    try:
        return read_regular(tarball, most=limits.download_bytes, follow=True)
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise CRDsError(Exit.LIMIT, f"{tarball} has more than {limits.download_bytes} bytes") from None
        raise CRDsError(Exit.DISK, f"cannot read {tarball}: {error.strerror or error}") from error


def verify(
    tarball: Tarball, *, limits: ArchiveLimits = LIMITS, strict: bool = False, normalize_dot: bool = False
) -> Manifest:
    """Read a tarball to its end and return its manifest.

    Arguments:
        tarball: The tarball.
        limits: Limits of sizes and counts.
        strict: Treat warnings as errors.
        normalize_dot: Accept ``./crds/…`` for ``crds/…``; upstream refuses it.

    Raises:
        CRDsError: INTEGRITY if it is truncated or damaged, ARCHIVE if a file in it is not allowed or missing, LIMIT if
            it is too large, DISK if it cannot be read.
    """
    data, names = _read_bytes(tarball, limits), Names(normalize_dot=normalize_dot)
    return _verify_entries(data, limits, names, content=Content(limits), strict=strict)


def unpack(
    tarball: Tarball,
    into: Directory,
    *,
    limits: ArchiveLimits = LIMITS,
    strict: bool = False,
    normalize_dot: bool = False,
) -> Manifest:
    """Verify a tarball, then write ``crds/`` with its content and sync it to disk.

    Arguments:
        tarball: The tarball.
        into: An existing directory without a ``crds``. If writing fails, the written files stay there.
        limits: Limits of sizes and counts.
        strict: Treat warnings as errors.
        normalize_dot: Accept ``./crds/…`` for ``crds/…``; the files are written to ``crds/…``.

    Raises:
        CRDsError: As ``verify``, and DISK if a file cannot be written.
    """
    data, names = _read_bytes(tarball, limits), Names(normalize_dot=normalize_dot)
    found = _verify_entries(data, limits, names, content=Content(limits), strict=strict)
    write_tree(into, names.directories, _read_again(data, limits, names))
    return found


def read_tree(
    tarball: Tarball, *, limits: ArchiveLimits = LIMITS, strict: bool = False, normalize_dot: bool = False
) -> tuple[Manifest, Tree]:
    """Verify a tarball and return its CRDs and patches, without writing them; arguments and errors as ``verify``."""
    data, names = _read_bytes(tarball, limits), Names(normalize_dot=normalize_dot)
    content = Content(limits, keep=True)
    return _verify_entries(data, limits, names, content=content, strict=strict), content.build_tree()


def list_files(tarball: bytes, *, limits: ArchiveLimits = LIMITS, normalize_dot: bool = False) -> Manifest:
    """Return the manifest of a tarball that has been verified before: as ``verify``, without parsing the YAML."""
    return _verify_entries(tarball, limits, Names(normalize_dot=normalize_dot), content=None, strict=False)


def _read_bytes(tarball: Tarball, limits: ArchiveLimits) -> bytes:
    return tarball if isinstance(tarball, bytes) else load(tarball, limits=limits)


def _verify_entries(
    data: bytes, limits: ArchiveLimits, names: Names, *, content: Content | None, strict: bool
) -> Manifest:
    inflated = GzipReader(data, limits=limits)
    operator = OperatorRules()
    files: dict[str, FileDigest] = {}
    entries = tar.entries(inflated.take, limits)
    try:
        for entry in entries:
            if entry.kind == tar.PAX_GLOBAL:
                operator.look(entry)
                continue
            path = names.admit(entry)
            operator.look(entry)
            if entry.kind == tar.FILE:
                files[path] = FileDigest(len(entry.body), hashlib.sha256(entry.body).hexdigest())
                if content is not None:
                    content.add(path, entry.body)
        warnings = content.finish(names.directories) if content is not None else ()
    except MisplacedError as error:
        advice = advise([error.name, *_list_names(entries)])
        inflated.drain()
        raise CRDsError(error.exit, f"{error} ({advice})" if advice else str(error)) from None
    except CRDsError:
        # A damaged gzip stream can look like an invalid tar: report the damage (INTEGRITY) if there is any.
        inflated.drain()
        raise
    if strict and warnings:
        raise CRDsError(Exit.ARCHIVE, "; ".join(warnings))
    return Manifest(hashlib.sha256(data).hexdigest(), len(data), files, warnings, operator.problems())


def _list_names(entries: Iterator[tar.Entry]) -> list[str]:
    """Return the names up to the first entry that cannot be read; raises CRDsError INTEGRITY."""
    names: list[str] = []
    try:
        for entry in entries:
            names.append(entry.name)  # noqa: PERF401 - names before an error are kept
    except CRDsError as error:
        if error.exit is Exit.INTEGRITY:
            raise
    return names


def _read_again(data: bytes, limits: ArchiveLimits, names: Names) -> Iterator[Written]:
    for entry in tar.entries(GzipReader(data, limits=limits).take, limits):
        if entry.kind == tar.FILE:
            yield Written(names.path_of(entry.name), entry.body, entry.mtime)
