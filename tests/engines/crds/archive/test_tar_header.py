"""Tests of header blocks. tests/tools/test_go_tar.py compares the reader with Go's."""

import tarfile
from typing import Any

import pytest

from fleethook.engines.crds.archive.tar import BLOCK, parse_header
from fleethook.engines.crds.crds_errors import CRDsError, Exit


def block(format_: int = tarfile.USTAR_FORMAT, **members: Any) -> bytearray:
    info = tarfile.TarInfo("a/b")
    for name, value in members.items():
        setattr(info, name, value)
    return bytearray(info.tobuf(format_))


def seal(made: bytearray) -> bytes:
    """Return a block with the right checksum."""
    made[148:156] = b" " * 8
    made[148:156] = b"%06o\0 " % sum(made)
    return bytes(made)


def test_a_header_has_its_fields() -> None:
    found = parse_header(bytes(block(name="link", type=tarfile.SYMTYPE, linkname="target", mtime=7)))
    assert found == (b"link", ord("2"), 0, 7, b"target")
    assert parse_header(bytes(block(size=1234))).size == 1234


def test_the_prefix_of_ustar_is_part_of_the_name() -> None:
    name = f"{'d' * 80}/{'f' * 80}"
    assert parse_header(bytes(block(name=name))).name == name.encode()


def test_numbers_of_gnu_have_base_256() -> None:
    assert parse_header(bytes(block(tarfile.GNU_FORMAT, size=8**12))).size == 8**12
    assert parse_header(bytes(block(tarfile.GNU_FORMAT, mtime=-5))).mtime == -5


@pytest.mark.parametrize(
    ("field", "text", "message"),
    [
        (slice(124, 136), b"-0000000001\0", "a header without a size"),
        (slice(124, 136), b"\xff" * 12, "a header without a size"),
        (slice(124, 136), b"0x000000001\0", "a header without a size"),
        (slice(136, 148), b"9" * 12, "a header with a malformed mtime"),
        (slice(100, 108), b"rw-r--r-", "a header with a malformed mode"),
        (slice(329, 337), b"x" * 8, "a header with a malformed major device"),
        (slice(508, 512), b"tar\0", "a header of star"),
    ],
)
def test_a_field_that_readers_understand_differently_is_refused(field: slice, text: bytes, message: str) -> None:
    made = block()
    made[field] = text
    with pytest.raises(CRDsError, match=f"not a tar that can be trusted: {message}") as caught:
        parse_header(seal(made))
    assert caught.value.exit is Exit.ARCHIVE


def test_a_wrong_checksum_is_refused() -> None:
    made = block()
    assert len(made) == BLOCK
    made[0] ^= 1
    with pytest.raises(CRDsError, match="wrong checksum"):
        parse_header(bytes(made))
