"""Verifies and unpacks CRD tarballs: gzip by zlib, tar by `tarfile` with its data filter, and the limits of both.

``gzip`` of the standard library reads several members as one and skips zeros after the last, so zlib reads the stream
here (RFC 1952). A tarball is inflated into memory, within its limit, before the first header is read.

``tarfile`` stops without an error at a header that it cannot read, and its versions before 3.11.14 loop for a negative
size (CVE-2025-8194) and take long for large pax headers (CVE-2024-6232). So sizes of headers are checked before it uses
them, and zeros alone may follow the last entry.
"""

import copy
import errno
import hashlib
import io
import os
import posixpath
import re
import stat
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Self

from fleethook.engines.crds.archive.names_content_limits import (
    LIMITS,
    TOP,
    ArchiveLimits,
    Content,
    FileDigest,
    MisplacedError,
    Names,
    TarballManifest,
    Tree,
    advise,
    show_name,
)
from fleethook.engines.crds.redaction_and_exit_codes import CRDsError, Exit

_PIECE: Final = 64 * 1024
_GZIP_ONLY: Final = 31  # zlib: 15 bits of window, and 16 for "a gzip header and trailer, nothing else"
_MAGIC: Final = b"\x1f\x8b"
SNIFFED_BYTES: Final = 512
# Offset and value of a tar header's magic (POSIX.1 ustar, also in GNU tar).
_USTAR: Final = (257, b"ustar")
_HTML: Final = re.compile(rb"<\s*(?:!doctype\s+html|html|head|body|script|\?xml)", re.IGNORECASE)


def describe_format(beginning: bytes) -> str:
    """Return the likely format of a file that is not gzip, from its first `SNIFFED_BYTES`; ``""`` for gzip."""
    offset, magic = _USTAR
    if beginning.startswith(_MAGIC):
        return ""
    if not beginning:
        return "it is empty"
    if _HTML.match(beginning.removeprefix(b"\xef\xbb\xbf").lstrip()):
        return "it looks like an HTML page, perhaps a login or an error page"
    if beginning[offset : offset + len(magic)] == magic:
        return "it looks like a plain tar, perhaps decompressed by a proxy"
    return f"it begins with {beginning[:4].hex(' ')}"


def read_regular(path: Path, *, most: int, follow: bool = False) -> bytes:
    """Return the bytes of a regular file, without waiting for a pipe or reading from a device.

    Args:
        path: The file.
        most: The largest size in bytes.
        follow: Follow a link. Only for files that a user named, never for files in the cache.

    Raises:
        OSError: EINVAL if the file is not regular, EFBIG if it has more than ``most`` bytes.
    """
    # O_NONBLOCK, because opening a named pipe would wait for a writer.
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    with os.fdopen(os.open(path, flags), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        data = file.read(most + 1)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"more than {most} bytes", str(path))
    return data


def _inflate(packed: bytes, limits: ArchiveLimits) -> io.BytesIO:
    """Return the content of a gzip file.

    Raises:
        CRDsError: INTEGRITY if the gzip is truncated, damaged or followed by data, LIMIT if it inflates to too much.
    """
    stream, content, most = zlib.decompressobj(_GZIP_ONLY), io.BytesIO(), limits.max_unpacked(len(packed))
    rest, waiting = memoryview(packed), b""
    while not stream.eof:
        if not waiting:
            waiting, rest = bytes(rest[:_PIECE]), rest[_PIECE:]
        given = waiting
        piece = _decompress(stream, given, first=content.tell() == 0)
        waiting = stream.unconsumed_tail
        if not given and not piece:
            raise CRDsError(Exit.INTEGRITY, "the gzip stream is not complete: the file is cut off")
        if content.tell() + len(piece) > most:
            ratio = "" if most == limits.unpacked_bytes else f", over {limits.ratio} times its own size"
            raise CRDsError(Exit.LIMIT, f"the tarball holds more than {most} bytes{ratio}")
        content.write(piece)
    after = stream.unused_data or bytes(rest[: len(_MAGIC)])
    if after:
        what = "another gzip member" if after.startswith(_MAGIC) else "other data"
        raise CRDsError(Exit.INTEGRITY, f"the gzip stream is followed by {what}")
    return content


def _decompress(stream: "zlib._Decompress", data: bytes, *, first: bool) -> bytes:
    try:
        return stream.decompress(data, _PIECE)
    except zlib.error as error:
        if first and not data.startswith(_MAGIC):
            # The message of Karmada's operator (upstream: Unpack in operator/pkg/util/util.go).
            raise CRDsError(Exit.INTEGRITY, "new reader failed. gzip: invalid header") from None
        raise CRDsError(Exit.INTEGRITY, f"the gzip stream is damaged: {error}") from None


# --- Tar --------------------------------------------------------------------------------------------------------------

_EXTENSIONS: Final = (
    tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK,
)  # fmt: skip
_MAX_EXTENSION: Final = 1536
"""Bytes of a header that only carries a name or attributes of the next entry: a path has at most 1,024. The time for it
grows with the square in versions before 3.11.10."""
_END: Final = 2 * tarfile.BLOCKSIZE
_MAX_MTIME: Final = 2**31 - 1


def _distrust(reason: str) -> CRDsError:
    return CRDsError(Exit.ARCHIVE, f"not a tar that can be trusted: {reason}")


class _Member(tarfile.TarInfo):
    """An entry whose header is within the limits."""

    # `tarfile` calls it for each header, also for those of a chain, in all versions. Patches of 2026 call `fromtarfile`
    # and `frombuf` only for the first one.
    def _proc_member(self, archive: tarfile.TarFile) -> Self:
        assert isinstance(archive, _Archive)
        archive.count_header()
        if self.size < 0:
            raise _distrust("a header with a negative size")
        if self.type in _EXTENSIONS and self.size > _MAX_EXTENSION:
            raise CRDsError(Exit.LIMIT, f"a header of the tar has {self.size} bytes, more than {_MAX_EXTENSION}")
        member: Self = super()._proc_member(archive)  # type: ignore[misc]  # not in typeshed
        return member


class _Archive(tarfile.TarFile):
    """A tar in memory, read once in order."""

    def __init__(self, content: io.BytesIO, limits: ArchiveLimits) -> None:
        self._left = limits.entries
        self._limits: Final = limits
        self._content: Final = content
        content.seek(0)
        super().__init__(fileobj=content, mode="r", tarinfo=_Member, encoding="utf-8")

    def count_header(self) -> None:
        """Count a header of any type; raises CRDsError LIMIT for too many."""
        self._left -= 1
        if self._left < 0:
            raise CRDsError(Exit.LIMIT, f"the tarball has more than {self._limits.entries} entries")

    @staticmethod
    def extraction_filter(member: tarfile.TarInfo, path: str) -> tarfile.TarInfo:
        """Check an entry once more. Python before 3.11.4, as in Debian 12, has no filters."""
        return _prepare(member, path)

    def members_in_order(self) -> Iterator[tarfile.TarInfo]:
        """Yield the entries up to the end of the archive; raises CRDsError ARCHIVE or LIMIT."""
        before = -1
        while (member := self.next()) is not None:
            if self.offset <= before:
                raise _distrust("a header whose size leads back")
            before = self.offset
            if member.isreg() and member.size > self._limits.file_bytes:
                raise CRDsError(
                    Exit.LIMIT, f"{member.name} has {member.size} bytes, more than {self._limits.file_bytes}"
                )
            yield member
        rest = self._content.getbuffer()[self.offset :]
        if len(rest) < _END or len(rest) % tarfile.BLOCKSIZE or bytes(rest).strip(b"\0"):
            raise _distrust("a header that cannot be read, or no end-of-archive mark")
        if self.pax_headers.keys() - {"comment"}:
            raise _distrust("a pax global header with more than a comment")

    def read_member(self, member: tarfile.TarInfo) -> bytes:
        """Return the body of a regular file; raises CRDsError ARCHIVE if it is cut off."""
        file = self.extractfile(member)
        body = b"" if file is None else file.read()
        if len(body) != member.size:
            raise _distrust("an end before the end-of-archive mark")
        return body


@contextmanager
def _open_archive(content: io.BytesIO, limits: ArchiveLimits) -> Iterator[_Archive]:
    """Open a tar; errors of `tarfile` become CRDsErrors ARCHIVE."""
    try:
        with _Archive(content, limits) as archive:
            yield archive
    # A malformed header raises various errors of its fields, and a chain of them a RecursionError.
    except (tarfile.TarError, ValueError, LookupError, TypeError, OverflowError, EOFError, RecursionError) as error:
        raise _distrust(f"{type(error).__name__}: {error}") from None


_MAX_PROBLEMS: Final = 16


class OperatorRules:
    """Finds the reasons why Karmada's operator cannot use a tarball. Pass the entries in order."""

    def __init__(self) -> None:
        """Prepare for one tarball."""
        self._directories: Final[set[str]] = set()
        self._problems: Final[list[str]] = []

    def look(self, member: tarfile.TarInfo) -> None:
        """Check the next entry; `Names` must have admitted it."""
        if len(self._problems) < _MAX_PROBLEMS:
            self._problems.extend([problem] if (problem := self._find_problem(member)) else [])

    def problems(self, *, has_global_header: bool = False) -> tuple[str, ...]:
        """Return the first reasons why the operator cannot use the tarball; none if it can."""
        found = "it has a pax global header, as `git archive` writes it (unknown type: 103)"
        return (*([found] if has_global_header else []), *self._problems)

    def _find_problem(self, member: tarfile.TarInfo) -> str:
        path, name = member.name, show_name(member)
        parent = posixpath.dirname(path)
        if parent and parent not in self._directories:
            return f"{name} comes before an entry for its directory {parent}/ (no such file or directory)"
        if member.isdir():
            if path in self._directories:
                return f"the directory {name} has two entries (file exists)"
            self._directories.add(path)
        return ""


# --- Tarballs ---------------------------------------------------------------------------------------------------------

Tarball = bytes | Path
"""A tarball in memory, or a regular file."""


def load(tarball: Path, *, limits: ArchiveLimits = LIMITS) -> bytes:
    """Return the bytes of a file that a user named.

    Raises:
        CRDsError: DISK if it cannot be read or is not a regular file, LIMIT if it is too large.
    """
    try:
        return read_regular(tarball, most=limits.tarball_bytes, follow=True)
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise CRDsError(Exit.LIMIT, f"{tarball} has more than {limits.tarball_bytes} bytes") from None
        raise CRDsError(Exit.DISK, f"cannot read {tarball}: {error.strerror or error}") from error


def verify(tarball: Tarball, *, limits: ArchiveLimits = LIMITS, strict: bool = False) -> TarballManifest:
    """Read a tarball to its end and return its manifest.

    Arguments:
        tarball: The tarball.
        limits: Limits of sizes and counts.
        strict: Treat warnings as errors.

    Raises:
        CRDsError: INTEGRITY if it is truncated or damaged, ARCHIVE if a file in it is not allowed or missing, LIMIT if
            it is too large, DISK if it cannot be read.
    """
    data = _read_bytes(tarball, limits)
    names = Names()
    return _verify_entries(data, _inflate(data, limits), limits, names, content=Content(limits), strict=strict)


def unpack(tarball: Tarball, into: Path, *, limits: ArchiveLimits = LIMITS, strict: bool = False) -> TarballManifest:
    """Verify a tarball, then write ``crds/`` with its content and sync it to disk.

    Arguments:
        tarball: The tarball.
        into: An existing directory without a ``crds``. If writing fails, the written files stay there.
        limits: Limits of sizes and counts.
        strict: Treat warnings as errors.

    Raises:
        CRDsError: As ``verify``, and DISK if a file cannot be written.
    """
    data, names = _read_bytes(tarball, limits), Names()
    content = _inflate(data, limits)
    manifest = _verify_entries(data, content, limits, names, content=Content(limits), strict=strict)
    try:
        if os.path.lexists(into / TOP):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        with _open_archive(content, limits) as archive:
            archive.extractall(into, map(_prepare, archive.members_in_order()))  # noqa: S202 - `extraction_filter` checks
        _sync_tree(into)
    except OSError as error:
        raise CRDsError(Exit.DISK, f"cannot unpack into {into}: {error.strerror or error}") from error
    return manifest


def read_tree(
    tarball: Tarball, *, limits: ArchiveLimits = LIMITS, strict: bool = False
) -> tuple[TarballManifest, Tree]:
    """Verify a tarball and return its CRDs and patches, without writing them; arguments and errors as ``verify``."""
    data, names = _read_bytes(tarball, limits), Names()
    content = Content(limits, keep=True)
    manifest = _verify_entries(data, _inflate(data, limits), limits, names, content=content, strict=strict)
    return manifest, content.build_tree()


def list_files(tarball: bytes, *, limits: ArchiveLimits = LIMITS) -> TarballManifest:
    """Return the manifest of a tarball that has been verified before: as ``verify``, without parsing the YAML."""
    names = Names()
    return _verify_entries(tarball, _inflate(tarball, limits), limits, names, content=None, strict=False)


def _read_bytes(tarball: Tarball, limits: ArchiveLimits) -> bytes:
    return tarball if isinstance(tarball, bytes) else load(tarball, limits=limits)


def _verify_entries(
    data: bytes, inflated: io.BytesIO, limits: ArchiveLimits, names: Names, *, content: Content | None, strict: bool
) -> TarballManifest:
    operator = OperatorRules()
    files: dict[str, FileDigest] = {}
    with _open_archive(inflated, limits) as archive:
        members = archive.members_in_order()
        try:
            for member in members:
                path = names.admit(member)
                operator.look(member)
                if not member.isdir():
                    body = archive.read_member(member)
                    files[path] = FileDigest(len(body), hashlib.sha256(body).hexdigest())
                    if content is not None:
                        content.add(path, body)
        except MisplacedError as error:
            advice = advise([error.name, *(member.name for member in members)])
            raise CRDsError(error.exit, f"{error} ({advice})" if advice else str(error)) from None
        problems = operator.problems(has_global_header=bool(archive.pax_headers))
    warnings = content.finish(names.directories) if content is not None else ()
    if strict and warnings:
        raise CRDsError(Exit.ARCHIVE, "; ".join(warnings))
    return TarballManifest(hashlib.sha256(data).hexdigest(), len(data), files, warnings, problems)


def _prepare(member: tarfile.TarInfo, path: str | None = None) -> tarfile.TarInfo:
    """Return an entry with modes, times and owners of our own; with a ``path``, the data filter has checked it."""
    safe = copy.copy(member if path is None else tarfile.data_filter(member, path))
    safe.mode, safe.mtime = 0o700 if safe.isdir() else 0o640, min(max(safe.mtime, 0), _MAX_MTIME)
    safe.uid, safe.gid, safe.uname, safe.gname = os.getuid(), os.getgid(), "", ""
    return safe


def _sync_tree(directory: Path) -> None:
    for path, _, names in os.walk(directory):
        for name in (".", *names):
            descriptor = os.open(Path(path, name), os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
