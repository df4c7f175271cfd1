"""Tests of reading gzip within its limits."""

import gzip

import pytest

from fleethook.engines.crds.archive.inflate import GzipReader
from fleethook.engines.crds.archive.limits import ArchiveLimits
from fleethook.engines.crds.crds_errors import CRDsError, Exit

DATA = bytes(range(256)) * 1000
PACKED = gzip.compress(DATA)


def read(packed: bytes, limits: ArchiveLimits | None = None) -> bytes:
    reader = GzipReader(packed, limits=limits or ArchiveLimits())
    taken = reader.take(len(DATA) * 2)
    reader.drain()
    return taken


def test_pieces_are_read_in_order() -> None:
    reader = GzipReader(PACKED, limits=ArchiveLimits())
    assert [reader.take(3), reader.take(100_000), reader.take(10**9), reader.take(1)] == [
        DATA[:3], DATA[3:100_003], DATA[100_003:], b"",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("packed", "message"),
    [
        (PACKED[:-1], "the file is cut off"),
        (PACKED[:-9], "the file is cut off"),
        (b"", "the file is cut off"),
        (PACKED + PACKED, "followed by another gzip member"),
        (PACKED + b"\0", "followed by something else"),
        (b"PK" + PACKED, r"new reader failed\. gzip: invalid header"),
        (PACKED[:-8] + b"\0\0\0\0" + PACKED[-4:], "the gzip stream is damaged"),
    ],
)
def test_a_file_that_is_not_one_complete_gzip_is_refused(packed: bytes, message: str) -> None:
    with pytest.raises(CRDsError, match=message) as caught:
        read(packed)
    assert caught.value.exit is Exit.INTEGRITY


def test_the_content_has_a_limit_and_a_ratio_to_the_file() -> None:
    assert read(PACKED, ArchiveLimits(unpacked_bytes=len(DATA))) == DATA
    with pytest.raises(CRDsError, match=f"holds more than {len(DATA) - 1} bytes$") as caught:
        read(PACKED, ArchiveLimits(unpacked_bytes=len(DATA) - 1))
    assert caught.value.exit is Exit.LIMIT
    with pytest.raises(CRDsError, match="over 2 times its own size"):
        read(PACKED, ArchiveLimits(ratio=2, ratio_from_bytes=10))
