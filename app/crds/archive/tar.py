"""The entries of a tar, in order (POSIX.1-2001 ustar and pax, GNU long names), read by hand.

Not ``tarfile``: it has taken negative sizes (CVE-2025-8194), stops quietly at a header it cannot read when another came
before, needs no end-of-archive mark, and holds pax bodies of any size. What is needed here is small: names, sizes and
bodies of regular files, and an error for everything else.
"""

import itertools
import re
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from app.crds.archive.limits import Limits
from app.crds.failures import CRDsError, Exit

FILE: Final = ord("0")
DIRECTORY: Final = ord("5")
_OLD_FILE: Final = 0
_GNU_NAME: Final = ord("L")
_GNU_LINK: Final = ord("K")
_PAX: Final = ord("x")
_PAX_GLOBAL: Final = ord("g")

_BLOCK: Final = 512
_MOST_ATTRIBUTES: Final = 64 * 1024  # bytes of a pax or long name body: a path of 1024 bytes and whatever else tar adds
_LATEST: Final = 2**31 - 1  # seconds: what every file system can hold
_OCTAL: Final = re.compile(rb"[ \0]*([0-7]*)[ \0]*")
_RECORD: Final = re.compile(rb"([1-9][0-9]{0,5}) ")

Take = Callable[[int], bytes]


class Entry(NamedTuple):
    """One member, as the archive has it; the name is not to be trusted."""

    name: str
    kind: int
    """The type flag, as a number; FILE for the old way of saying file as well."""
    mtime: int
    body: bytes = b""
    """Of a FILE; not read for others."""


class _Attributes(NamedTuple):
    """What the headers before an entry say about it."""

    name: bytes = b""
    size: int | None = None


class _Header(NamedTuple):
    """What an entry is, all its headers taken together."""

    name: bytes
    kind: int
    size: int


def entries(take: Take, limits: Limits) -> Iterator[Entry]:
    """Yield the entries until the end-of-archive mark, behind which only zeros may follow.

    Arguments:
        take: Returns the next so many bytes, fewer only at the end.
        limits: Bounds ``file_bytes`` and ``entries``.

    Raises:
        CRDsError: ARCHIVE for what is not a tar, LIMIT for what is too large a one, and what ``take`` raises.
    """
    attributes = _Attributes()
    for count in itertools.count():
        block = _exactly(take, _BLOCK)
        if not any(block):
            break
        if count == limits.entries:
            raise CRDsError(Exit.LIMIT, f"the tarball has more than {limits.entries} entries")
        kind, size = _checked(block)
        if kind in {_GNU_NAME, _GNU_LINK, _PAX, _PAX_GLOBAL}:
            attributes = _with_attributes(attributes, kind, _body(take, size, _MOST_ATTRIBUTES, "a header"))
        else:
            size = size if attributes.size is None else attributes.size
            yield _entry(take, block, _Header(attributes.name or _short_name(block), kind, size), limits)
            attributes = _Attributes()
    if attributes != _Attributes():
        raise _bad("a header for a further entry is the last one")
    _check_end(take)


def _entry(take: Take, block: bytes, header: _Header, limits: Limits) -> Entry:
    name, kind = _text(header.name), header.kind
    mtime = min(max(_number(block[136:148]) or 0, 0), _LATEST)
    if kind == _OLD_FILE:
        kind = DIRECTORY if name.endswith("/") else FILE
    if kind == FILE:
        return Entry(name, FILE, mtime, _body(take, header.size, limits.file_bytes, name))
    if kind == DIRECTORY and header.size:
        # Some readers skip so many bytes, others none: what the rest of the archive is would depend on the reader.
        raise _bad(f"a directory with a body: {name}")
    return Entry(name, kind, mtime)


def _checked(block: bytes) -> tuple[int, int]:
    """Return the type flag and the size of a header whose checksum is right."""
    told = _number(block[148:156])
    # The checksum counts itself as eight spaces.
    if told != sum(block) - sum(block[148:156]) + 8 * 32:
        raise _bad("a header with a wrong checksum")
    size = _number(block[124:136])
    if size is None:
        raise _bad("a header without a size")
    return block[156], size


def _short_name(block: bytes) -> bytes:
    name = _until_nul(block[:100])
    # GNU's own magic has two spaces here, and other things than a prefix behind it.
    prefix = _until_nul(block[345:500]) if block[257:263] == b"ustar\0" else b""
    return prefix + b"/" + name if prefix else name


def _with_attributes(attributes: _Attributes, kind: int, body: bytes) -> _Attributes:
    if kind == _GNU_NAME:
        return attributes._replace(name=body.removesuffix(b"\0"))
    if kind != _PAX:
        return attributes  # links are refused whatever they point to; what holds for all entries is about none of ours
    for key, value in _records(body):
        if key.startswith(b"GNU.sparse."):
            raise _bad("a sparse file")
        if key == b"path" and value:
            attributes = attributes._replace(name=value)
        elif key == b"size" and value:
            if not value.isdigit() or len(value) > len(str(2**63)):
                raise _bad("a pax header with a bad size")
            attributes = attributes._replace(size=int(value))
    return attributes


def _records(body: bytes) -> Iterator[tuple[bytes, bytes]]:
    position = 0
    while position < len(body):
        length = _RECORD.match(body, position)
        end = position + int(length[1]) if length else 0
        key, equals, value = body[length.end() : end].partition(b"=") if length else (b"", b"", b"")
        if not (key and equals and end <= len(body) and value.endswith(b"\n")):
            raise _bad("a pax header with a bad record")
        yield key, value[:-1]
        position = end


def _body(take: Take, size: int, most: int, name: str) -> bytes:
    if size > most:
        raise CRDsError(Exit.LIMIT, f"{name} has {size} bytes, more than {most}")
    body = _exactly(take, size)
    _exactly(take, -size % _BLOCK)
    return body


def _check_end(take: Take) -> None:
    if any(_exactly(take, _BLOCK)):
        raise _bad("an end-of-archive mark that is only half there")
    while rest := take(_MOST_ATTRIBUTES):
        if rest.strip(b"\0"):
            raise _bad("something behind the end-of-archive mark")
        if len(rest) % _BLOCK:
            raise _bad("a length that is no multiple of 512")


def _exactly(take: Take, size: int) -> bytes:
    taken = take(size)
    if len(taken) < size:
        raise _bad("an end before the end-of-archive mark")
    return taken


def _number(field: bytes) -> int | None:
    """Read a number as octal digits, or in GNU's base 256 where the first bit is set; negative ones are none."""
    if field[0] & 0x80:
        return None if field[0] & 0x40 else int.from_bytes(field) - (0x80 << 8 * (len(field) - 1))
    octal = _OCTAL.fullmatch(field)
    return int(octal[1] or b"0", 8) if octal else None


def _until_nul(field: bytes) -> bytes:
    return field.partition(b"\0")[0]


def _text(name: bytes) -> str:
    try:
        return name.decode()
    except UnicodeDecodeError:
        raise _bad(f"a name that is not UTF-8: {name[:100]!r}") from None


def _bad(what: str) -> CRDsError:
    return CRDsError(Exit.ARCHIVE, f"not a tar that can be trusted: {what}")
