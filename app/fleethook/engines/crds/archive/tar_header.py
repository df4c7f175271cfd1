"""Parses a header block of a tar (POSIX.1-2001 ustar, GNU) as Go's archive/tar does, or refuses it.

Readers disagree on fields that deviate from the formats: a prefix after GNU's magic, the shorter prefix of star,
numbers with other characters. Such a header is refused, so that no reader finds another name or size in it.
Source: archive/tar of Go 1.26, readHeader in reader.go, getFormat in format.go, parseNumeric in strconv.go.
"""

import re
from typing import Final, NamedTuple

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
        # Go takes a text other than a time for a prefix. An empty field has no time.
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
