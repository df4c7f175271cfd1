"""Reads the entries of a tar in order (POSIX.1-2001 ustar and pax, GNU long names).

``tarfile`` is not used. It has accepted negative sizes (CVE-2025-8194), stops without an error at an unreadable header
after a readable one, needs no end-of-archive mark, and holds pax bodies of any size. This module needs only names,
sizes and bodies of regular files, and refuses all other entries. Karmada's operator reads the same bytes with Go's
archive/tar: an entry that Go would name, type or size differently is an error
(`tests/tools/test_go_tar.py`).

Readers disagree on fields that deviate from the formats: a prefix after GNU's magic, the shorter prefix of star,
numbers with other characters. This module refuses such a header, so that no reader finds a different name or size in
it. Readers also disagree on the precedence of two headers. Go prefers GNU's name to that of pax, and the last pax
header to all before it. Other readers prefer the last header of either kind. So an entry may have headers of one kind
only, each once, and each record once.

Source: archive/tar of Go 1.26, readHeader, next and mergePAX in reader.go, getFormat in format.go, parseNumeric and
parsePAXRecord in strconv.go.
"""

import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from fleethook.engines.crds.archive.crd_content import ArchiveLimits
from fleethook.engines.crds.crds_errors import CRDsError, Exit

BLOCK: Final = 512
_OCTAL: Final = re.compile(rb"[ \0]*([0-7]*)[ \0]*")
_SIZE: Final = slice(124, 136)
_MTIME: Final = slice(136, 148)
_CHECKSUM: Final = slice(148, 156)
_MAGIC: Final = slice(257, 263)
_USTAR: Final = b"ustar\0"
_GNU: Final = b"ustar  \0"  # magic and version together
_STAR_TRAILER: Final = b"tar\0"
_MAX_INT64: Final = 2**63 - 1
_NUMBERS: Final = {"mode": slice(100, 108), "uid": slice(108, 116), "gid": slice(116, 124)}
_DEVICE: Final = {"major device": slice(329, 337), "minor device": slice(337, 345)}
_GNU_TIMES: Final = {"access time": slice(345, 357), "change time": slice(357, 369)}


class Header(NamedTuple):
    """A header block."""

    name: bytes
    kind: int
    """The type flag, as a number."""
    size: int
    mtime: int
    """Seconds since 1970; may be negative."""
    link: bytes
    """The target; empty for other entries than links."""


def parse_header(block: bytes) -> Header:
    """Read a block of 512 bytes.

    Raises:
        CRDsError: ARCHIVE for a wrong checksum, a malformed number, or fields that readers understand differently.
    """
    # The checksum counts itself as eight spaces.
    if _parse_octal(block[_CHECKSUM]) != sum(block) - sum(block[_CHECKSUM]) + 8 * 32:
        raise distrust("a header with a wrong checksum")
    size, mtime = _parse_number(block[_SIZE]), _parse_number(block[_MTIME])
    if size is None or size < 0:
        raise distrust("a header without a size")
    if mtime is None:
        raise distrust("a header with a malformed mtime")
    _check_numbers(block, _NUMBERS)
    name = _cut_at_nul(block[:100])
    prefix = _parse_prefix(block)
    return Header(prefix + b"/" + name if prefix else name, block[156], size, mtime, _cut_at_nul(block[157:257]))


def distrust(reason: str) -> CRDsError:
    """Return the error for a tar that is malformed, or that readers could understand differently."""
    return CRDsError(Exit.ARCHIVE, f"not a tar that can be trusted: {reason}")


def _parse_prefix(block: bytes) -> bytes:
    if block[_MAGIC] == _USTAR:
        if block[508:] == _STAR_TRAILER:
            raise distrust("a header of star, whose prefix is shorter than that of ustar")
        _check_numbers(block, _DEVICE)
        return _cut_at_nul(block[345:500])
    if block[257:265] == _GNU:
        _check_numbers(block, _DEVICE)
        # If the text is not a time, Go reads it as a prefix. An empty field has no time.
        _check_numbers(block, {name: field for name, field in _GNU_TIMES.items() if block[field.start]})
    return b""


def _check_numbers(block: bytes, fields: dict[str, slice]) -> None:
    for name, field in fields.items():
        if _parse_number(block[field]) is None:
            raise distrust(f"a header with a malformed {name}")


def _parse_number(field: bytes) -> int | None:
    """Parse octal digits, or GNU's base 256 if the first bit is set: two's complement without that bit."""
    if not field[0] & 0x80:
        return _parse_octal(field)
    bits = 8 * len(field) - 1
    value = int.from_bytes(field) - (1 << bits)
    if field[0] & 0x40:
        value -= 1 << bits
    return value if -_MAX_INT64 - 1 <= value <= _MAX_INT64 else None


def _parse_octal(field: bytes) -> int | None:
    digits = _OCTAL.fullmatch(field)
    return int(digits[1] or b"0", 8) if digits else None


def _cut_at_nul(field: bytes) -> bytes:
    return field.partition(b"\0")[0]


_RECORD: Final = re.compile(rb"([1-9][0-9]{0,5}) ")
_SPARSE: Final = b"GNU.sparse."
_INTEGER: Final = re.compile(rb"-?[0-9]{1,18}")
_SECONDS: Final = re.compile(rb"-?[0-9]{1,18}(?:\.[0-9]*)?")
_VALUES: Final = {
    b"size": re.compile(rb"[0-9]{1,18}"), b"uid": _INTEGER, b"gid": _INTEGER, b"mtime": _SECONDS, b"atime": _SECONDS,
    b"ctime": _SECONDS,
}  # fmt: skip
_STRINGS: Final = (b"path", b"linkpath", b"uname", b"gname")


class Attributes(NamedTuple):
    """Attributes of the next entry; None without a header of that kind."""

    pax: Mapping[bytes, bytes] | None = None
    gnu_name: bytes | None = None
    gnu_link: bytes | None = None

    @property
    def name(self) -> bytes:
        """The entry's name; empty if its own header has the name."""
        return self.gnu_name or (self.pax or {}).get(b"path", b"")

    @property
    def link(self) -> bytes:
        """The entry's link target; empty if its own header has the target."""
        return self.gnu_link or (self.pax or {}).get(b"linkpath", b"")

    @property
    def size(self) -> int | None:
        """The entry's size; None if its own header has the size."""
        size = (self.pax or {}).get(b"size")
        return int(size) if size else None

    def with_pax(self, body: bytes) -> "Attributes":
        """Add the body of a pax header; raises CRDsError ARCHIVE for a second one, or one beside a GNU header."""
        if self != Attributes():
            raise distrust("several headers that name one entry")
        records = read_records(body)
        for key, value in records.items():
            _check_record(key, value)
        return Attributes(pax=records)

    def with_gnu_name(self, body: bytes) -> "Attributes":
        """Add the body of a GNU long name; raises CRDsError ARCHIVE as `with_pax`."""
        if self.pax is not None or self.gnu_name is not None:
            raise distrust("several headers that name one entry")
        return self._replace(gnu_name=_parse_gnu_text(body))

    def with_gnu_link(self, body: bytes) -> "Attributes":
        """Add the body of a GNU long link target; raises CRDsError ARCHIVE as `with_pax`."""
        if self.pax is not None or self.gnu_link is not None:
            raise distrust("several headers that name one entry")
        return self._replace(gnu_link=_parse_gnu_text(body))


def check_global(body: bytes) -> None:
    """Allow a comment only, as ``git archive`` writes it; raises CRDsError ARCHIVE for other records.

    POSIX applies these records to all later entries, and Go applies them to none.
    """
    for key in read_records(body):
        if key != b"comment":
            raise distrust(f"a pax global header with {key[:100]!r}")


def read_records(body: bytes) -> dict[bytes, bytes]:
    """Return the records of a pax header; raises CRDsError ARCHIVE for a malformed one, and for a key twice."""
    records: dict[bytes, bytes] = {}
    for key, value in _parse_records(body):
        if key in records:
            raise distrust(f"a pax header with {key[:100]!r} twice")
        records[key] = value
    return records


def _parse_records(body: bytes) -> Iterator[tuple[bytes, bytes]]:
    position = 0
    while position < len(body):
        length = _RECORD.match(body, position)
        end = position + int(length[1]) if length else 0
        key, equals, value = body[length.end() : end].partition(b"=") if length else (b"", b"", b"")
        if not (key and equals and end <= len(body) and value.endswith(b"\n")):
            raise distrust("a pax header with a bad record")
        yield key, value[:-1]
        position = end


def _check_record(key: bytes, value: bytes) -> None:
    if key.startswith(_SPARSE):
        raise distrust("a sparse file")
    if b"\0" in key or (key in _STRINGS and b"\0" in value):
        raise distrust(f"a pax header with a NUL in {key[:100]!r}")
    # With an empty value, the value of the entry's own header counts.
    if value and key in _VALUES and not _VALUES[key].fullmatch(value):
        raise distrust(f"a pax header with a bad {key.decode()}")


def _parse_gnu_text(body: bytes) -> bytes:
    text, _, rest = body.partition(b"\0")
    if not text or rest.strip(b"\0"):
        raise distrust("a GNU long name that is empty, or has data after its terminating NUL")
    return text


FILE: Final = ord("0")
DIRECTORY: Final = ord("5")
PAX_GLOBAL: Final = ord("g")
_OLD_FILE: Final = 0
_GNU_NAME: Final = ord("L")
_GNU_LINK: Final = ord("K")
_PAX: Final = ord("x")
_READ: Final = (FILE, _OLD_FILE, DIRECTORY, PAX_GLOBAL)

_MAX_ATTRIBUTES: Final = 64 * 1024  # bytes of a pax or long name body: a path of 1024 bytes and tar's attributes
_MAX_MTIME: Final = 2**31 - 1  # seconds: the largest time that all file systems can store

Take = Callable[[int], bytes]


class Entry(NamedTuple):
    """One entry, as in the archive; its name is not checked yet."""

    name: str
    kind: int
    """The type flag, as a number; FILE also for the old type flag NUL. PAX_GLOBAL is not a file, but Go's archive/tar
    lists it as an entry."""
    mtime: int
    body: bytes = b""
    """Content of a FILE; empty for other types."""


def entries(take: Take, limits: ArchiveLimits) -> Iterator[Entry]:
    """Yield the entries until the end-of-archive mark; only zeros may follow it.

    Arguments:
        take: Returns the given number of bytes, fewer only at the end.
        limits: ``file_bytes`` and ``entries`` apply.

    Raises:
        CRDsError: ARCHIVE if the data is not a tar, and after an entry that is neither file nor directory; LIMIT if a
            limit is exceeded; also the errors of ``take``.
    """
    attributes = Attributes()
    for count in itertools.count():
        block = _read_exactly(take, BLOCK)
        if not any(block):
            break
        if count == limits.entries:
            raise CRDsError(Exit.LIMIT, f"the tarball has more than {limits.entries} entries")
        header = parse_header(block)
        if header.kind in {_GNU_NAME, _GNU_LINK, _PAX}:
            attributes = _add_attributes(attributes, header, take)
            continue
        if header.kind == PAX_GLOBAL and attributes != Attributes():
            raise distrust("a pax global header between an entry and its own headers")
        header, attributes = _merge(header, attributes), Attributes()
        yield _read_entry(take, header, limits)
        if header.kind not in _READ:
            # Readers disagree on whether such a type has a body, so the meaning of the rest depends on the reader.
            raise distrust(f"an entry of type {header.kind}")
    if attributes != Attributes():
        raise distrust("a header for a further entry is the last one")
    _check_end(take)


def _add_attributes(attributes: Attributes, header: Header, take: Take) -> Attributes:
    body = _read_body(take, header.size, _MAX_ATTRIBUTES, "a header")
    if header.kind == _GNU_NAME:
        return attributes.with_gnu_name(body)
    if header.kind == _GNU_LINK:
        return attributes.with_gnu_link(body)
    return attributes.with_pax(body)


def _merge(header: Header, attributes: Attributes) -> Header:
    size = header.size if attributes.size is None else attributes.size
    return header._replace(name=attributes.name or header.name, link=attributes.link or header.link, size=size)


def _read_entry(take: Take, header: Header, limits: ArchiveLimits) -> Entry:
    name, kind = _decode_name(header.name), header.kind
    mtime = min(max(header.mtime, 0), _MAX_MTIME)
    if kind == PAX_GLOBAL:
        check_global(_read_body(take, header.size, _MAX_ATTRIBUTES, "a header"))
        return Entry(name, kind, mtime)
    if kind == _OLD_FILE:
        kind = DIRECTORY if name.endswith("/") else FILE
    if kind in {FILE, DIRECTORY} and header.link:
        raise distrust(f"a file or directory with the target of a link: {name}")
    if kind == FILE:
        return Entry(name, FILE, mtime, _read_body(take, header.size, limits.file_bytes, name))
    if kind == DIRECTORY and header.size:
        raise distrust(f"a directory with a body: {name}")
    return Entry(name, kind, mtime)


def _read_body(take: Take, size: int, limit: int, name: str) -> bytes:
    if size > limit:
        raise CRDsError(Exit.LIMIT, f"{name} has {size} bytes, more than {limit}")
    body = _read_exactly(take, size)
    _read_exactly(take, -size % BLOCK)
    return body


def _check_end(take: Take) -> None:
    if any(_read_exactly(take, BLOCK)):
        raise distrust("an incomplete end-of-archive mark")
    while rest := take(_MAX_ATTRIBUTES):
        if rest.strip(b"\0"):
            raise distrust("data after the end-of-archive mark")
        if len(rest) % BLOCK:
            raise distrust("a length that is not a multiple of 512")


def _read_exactly(take: Take, size: int) -> bytes:
    taken = take(size)
    if len(taken) < size:
        raise distrust("an end before the end-of-archive mark")
    return taken


def _decode_name(name: bytes) -> str:
    try:
        return name.decode()
    except UnicodeDecodeError:
        raise distrust(f"a name that is not UTF-8: {name[:100]!r}") from None
