"""Reads the entries of a tar in order (POSIX.1-2001 ustar and pax, GNU long names).

``tarfile`` is not used. It has accepted negative sizes (CVE-2025-8194), stops without an error at an unreadable header
after a readable one, needs no end-of-archive mark, and holds pax bodies of any size. This module needs only names,
sizes and bodies of regular files, and refuses all other entries. Karmada's operator reads the same bytes with Go's
archive/tar: an entry that Go would name, type or size differently is an error
(`tests/engines/crds/archive/test_against_go.py`).
"""

import itertools
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from fleethook.engines.crds.archive.limits import ArchiveLimits
from fleethook.engines.crds.archive.tar_attributes import Attributes, check_global
from fleethook.engines.crds.archive.tar_header import BLOCK, Header, distrust, parse_header
from fleethook.engines.crds.crds_errors import CRDsError, Exit

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
