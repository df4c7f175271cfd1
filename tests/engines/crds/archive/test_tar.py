"""The tar layer alone: headers made by hand, as no tool would write them."""

import io

import pytest

from fleethook.engines.crds.archive import tar
from fleethook.engines.crds.archive.crd_content import LIMITS, ArchiveLimits
from fleethook.engines.crds.crds_errors import CRDsError, Exit
from tests.engines.crds.archive.tar_headers import END, header, pax, record


def read(plain: bytes, limits: ArchiveLimits = LIMITS) -> list[tar.Entry]:
    return list(tar.entries(io.BytesIO(plain).read, limits))


@pytest.mark.parametrize(
    ("plain", "entry"),
    [
        (header(), tar.Entry("crds/x", tar.FILE, 1_700_000_000)),
        (header(kind=b"\0"), tar.Entry("crds/x", tar.FILE, 1_700_000_000)),
        (header("crds/x/", kind=b"\0"), tar.Entry("crds/x/", tar.DIRECTORY, 1_700_000_000)),
        (header("crds/x/", kind=b"0"), tar.Entry("crds/x/", tar.FILE, 1_700_000_000)),
        (header(prefix=b"crds/deep"), tar.Entry("crds/deep/crds/x", tar.FILE, 1_700_000_000)),
        (header(magic=b"ustar  \0"), tar.Entry("crds/x", tar.FILE, 1_700_000_000)),
        (header(prefix=b"not a prefix", magic=b"custom\0\0"), tar.Entry("crds/x", tar.FILE, 1_700_000_000)),
        (header(name="crds/y\0hidden"), tar.Entry("crds/y", tar.FILE, 1_700_000_000)),
        (header(size=b"           5") + b"hello" + bytes(507), tar.Entry("crds/x", tar.FILE, 1_700_000_000, b"hello")),
        (header(size=b"\x80" + bytes(10) + b"\5") + b"hello" + bytes(507), tar.Entry("crds/x", tar.FILE, 1_700_000_000, b"hello")),
        (header(mtime=b"\xff" * 12), tar.Entry("crds/x", tar.FILE, 0)),
        (header(mtime=b"\x80" + bytes(3) + b"\x7f" + b"\xff" * 7), tar.Entry("crds/x", tar.FILE, 2**31 - 1)),
        (header(link=b"\0hidden"), tar.Entry("crds/x", tar.FILE, 1_700_000_000)),
        (header(prefix=b"00000000000\0" * 2, magic=b"ustar  \0"), tar.Entry("crds/x", tar.FILE, 1_700_000_000)),
        (pax(record(b"path", b"crds/other")) + header(), tar.Entry("crds/other", tar.FILE, 1_700_000_000)),
        (pax(record(b"path", b"")) + header(), tar.Entry("crds/x", tar.FILE, 1_700_000_000)),
        (pax(record(b"SCHILY.xattr.x", b"a\0b")) + header(), tar.Entry("crds/x", tar.FILE, 1_700_000_000)),
        (pax(record(b"size", b"5")) + header() + b"hello" + bytes(507), tar.Entry("crds/x", tar.FILE, 1_700_000_000, b"hello")),
        (pax(record(b"mtime", b"1.5"), record(b"comment", b"=")) + header(), tar.Entry("crds/x", tar.FILE, 1_700_000_000)),
        (pax(b"crds/long\0", kind=b"L") + header(), tar.Entry("crds/long", tar.FILE, 1_700_000_000)),
    ],
)  # fmt: skip
def test_a_header_says(plain: bytes, entry: tar.Entry) -> None:
    assert read(plain + END) == [entry]


@pytest.mark.parametrize(
    ("plain", "entry"),
    [
        (header(kind=b"2", link=b"crds/y"), tar.Entry("crds/x", ord("2"), 1_700_000_000)),
        (pax(b"target\0", kind=b"K") + header(kind=b"2"), tar.Entry("crds/x", ord("2"), 1_700_000_000)),
        (
            pax(b"crds/long\0\0", kind=b"L") + pax(b"to", kind=b"K") + header(kind=b"1"),
            tar.Entry("crds/long", ord("1"), 1_700_000_000),
        ),
        (header(kind=b"S", size=b"%011o\0" % 512), tar.Entry("crds/x", ord("S"), 1_700_000_000)),
    ],
)
def test_behind_an_entry_of_another_type_nothing_is_read(plain: bytes, entry: tar.Entry) -> None:
    found = tar.entries(io.BytesIO(plain + END).read, LIMITS)
    assert next(found) == entry
    with pytest.raises(CRDsError, match=f"an entry of type {entry.kind}$"):
        next(found)


@pytest.mark.parametrize(
    ("plain", "text"),
    [
        (b"", "an end before the end-of-archive mark"),
        (header(), "an end before the end-of-archive mark"),
        (header() + bytes(511), "an end before the end-of-archive mark"),
        (header() + bytes(512), "an end before the end-of-archive mark"),
        (header() + bytes(512) + header(), "an incomplete end-of-archive mark"),
        (header() + END + header(), "data after the end-of-archive mark"),
        (header() + END + bytes(1), "a length that is not a multiple of 512"),
        (header(size=b"%011o\0" % 512), "an end before the end-of-archive mark"),
        (header(checksum=b"0000000\0") + END, "a header with a wrong checksum"),
        (header(checksum=b"????????") + END, "a header with a wrong checksum"),
        (header(size=b"-0000000001\0") + END, "a header without a size"),
        (header(size=b"0x000000001\0") + END, "a header without a size"),
        (header(size=b"0000_000001\0") + END, "a header without a size"),
        (header(size=b"00000008001\0") + END, "a header without a size"),
        (header(size=b"1 1\0") + END, "a header without a size"),
        (header(size=b"\xff" * 12) + END, "a header without a size"),
        (header(size=b"\xc0" + bytes(11)) + END, "a header without a size"),
        (header(size=b"\xbf" + b"\xff" * 11) + END, "a header without a size"),
        (header(mtime=b"yesterday...") + END, "a header with a malformed mtime"),
        (header(mtime=b"\x80" + b"\xff" * 11) + END, "a header with a malformed mtime"),
        (header(mode=b"-0000644") + END, "a header with a malformed mode"),
        (header(uid=b"0x1") + END, "a header with a malformed uid"),
        (header(gid=b"8\0\0\0\0\0\0\0") + END, "a header with a malformed gid"),
        (header(major=b"x") + END, "a header with a malformed major device"),
        (header(minor=b"x", magic=b"ustar  \0") + END, "a header with a malformed minor device"),
        (header(prefix=b"crds/bases/work", magic=b"ustar  \0") + END, "a header with a malformed access time"),
        (header(prefix=b"00000000000\0evil", magic=b"ustar  \0") + END, "a header with a malformed change time"),
        (header(trailer=b"tar\0") + END, "a header of star, whose prefix is shorter than that of ustar"),
        (header(link=b"crds/y") + END, "a file or directory with the target of a link: crds/x"),
        (pax(record(b"linkpath", b"y")) + header() + END, "a file or directory with the target of a link: crds/x"),
        (pax(b"y\0", kind=b"K") + header("crds/", kind=b"5") + END, "a file or directory with the target of a link: crds/"),
        (pax(b"crds/a", kind=b"L") + pax(record(b"path", b"crds/b")) + header() + END, "several headers that name one entry"),
        (pax(record(b"path", b"crds/b")) + pax(b"crds/a", kind=b"L") + header() + END, "several headers that name one entry"),
        (pax(record(b"comment", b"x")) + pax(b"target", kind=b"K") + header() + END, "several headers that name one entry"),
        (pax(b"crds/a", kind=b"L") * 2 + header() + END, "several headers that name one entry"),
        (pax(b"target", kind=b"K") * 2 + header() + END, "several headers that name one entry"),
        (pax(record(b"mtime", b"1")) * 2 + header() + END, "several headers that name one entry"),
        (pax(b"\0crds/a", kind=b"L") + header() + END, "a GNU long name that is empty, or has data after its terminating NUL"),
        (pax(b"crds/a\0b", kind=b"L") + header() + END, "a GNU long name that is empty, or has data after its terminating NUL"),
        (pax(record(b"path", b"crds/a"), record(b"path", b"")) + header() + END, "a pax header with b'path' twice"),
        (pax(record(b"path", b"crds/a\0b")) + header() + END, "a pax header with a NUL in b'path'"),
        (pax(record(b"a\0", b"b")) + header() + END, r"a pax header with a NUL in b'a\x00'"),
        (pax(record(b"mtime", b"noon")) + header() + END, "a pax header with a bad mtime"),
        (pax(record(b"uid", b"1.5")) + header() + END, "a pax header with a bad uid"),
        (pax(record(b"path", b"evil"), kind=b"g") + header() + END, "a pax global header with b'path'"),
        (pax(record(b"path", b"crds/a")) + pax(record(b"comment", b"x"), kind=b"g") + header() + END, "a pax global header between an entry and its own headers"),
        (header("crds/", kind=b"5", size=b"00000000001\0") + bytes(512) + END, "a directory with a body: crds/"),
        (header(name="caf", prefix=b"\xe9") + END, r"a name that is not UTF-8: b'\xe9/caf'"),
        (pax(record(b"path", b"\xff")) + header() + END, r"a name that is not UTF-8: b'\xff'"),
        (pax(record(b"path", b"crds/y")) + END, "a header for a further entry is the last one"),
        (pax(record(b"GNU.sparse.major", b"1")) + header() + END, "a sparse file"),
        (pax(record(b"size", b"-1")) + header() + END, "a pax header with a bad size"),
        (pax(record(b"size", b"1" * 30)) + header() + END, "a pax header with a bad size"),
        (pax(record(b"size", "٣".encode())) + header() + END, "a pax header with a bad size"),
        (pax(b"path=crds/y\n") + header() + END, "a pax header with a bad record"),
        (pax(b"0 path=crds/y\n") + header() + END, "a pax header with a bad record"),
        (pax(b"99 path=crds/y\n") + header() + END, "a pax header with a bad record"),
        (pax(b"5 pathcrds/y\n") + header() + END, "a pax header with a bad record"),
        (pax(b"10 path=a b") + header() + END, "a pax header with a bad record"),
        (pax(b"9999999999999 a=b\n") + header() + END, "a pax header with a bad record"),
    ],
)  # fmt: skip
def test_it_is_no_tar_with(plain: bytes, text: str) -> None:
    with pytest.raises(CRDsError) as caught:
        read(plain)
    assert (caught.value.exit, str(caught.value)) == (Exit.ARCHIVE, f"not a tar that can be trusted: {text}")


@pytest.mark.parametrize(
    ("plain", "text"),
    [
        (header(size=b"%011o\0" % (LIMITS.file_bytes + 1)), "crds/x has 8388609 bytes, more than 8388608"),
        (header(size=b"\x80" + bytes(3) + b"\x7f" + b"\xff" * 7), f"crds/x has {2**63 - 1} bytes, more than 8388608"),
        (pax(record(b"size", b"9" * 18)) + header(), f"crds/x has {'9' * 18} bytes, more than 8388608"),
        (header(kind=b"x", size=b"%011o\0" % 65537), "a header has 65537 bytes, more than 65536"),
        (header(kind=b"g", size=b"77777777777\0"), "a header has 8589934591 bytes, more than 65536"),
        (header(kind=b"L", size=b"%011o\0" % 65537), "a header has 65537 bytes, more than 65536"),
    ],
)
def test_a_size_beyond_the_limit_is_not_read(plain: bytes, text: str) -> None:
    with pytest.raises(CRDsError) as caught:
        read(plain + END)
    assert (caught.value.exit, str(caught.value)) == (Exit.LIMIT, text)


def test_headers_that_are_no_entries_count_as_entries() -> None:
    names = pax(record(b"comment", b"x"), kind=b"g") * 5
    assert [entry.kind for entry in read(names + header() + END, ArchiveLimits(entries=6))] == [tar.PAX_GLOBAL] * 5 + [
        tar.FILE
    ]
    with pytest.raises(CRDsError, match="more than 5 entries"):
        read(names + header() + END, ArchiveLimits(entries=5))
