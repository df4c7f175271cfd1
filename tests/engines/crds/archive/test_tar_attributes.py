"""Tests of headers that carry attributes of the next entry. tests/tools/test_go_tar.py compares the reader with Go's."""

import pytest

from fleethook.engines.crds.archive.tar import Attributes, check_global, read_records
from fleethook.engines.crds.crds_errors import CRDsError, Exit


def record(key: str, value: str) -> bytes:
    size = len(key) + len(value) + 3
    total = size + len(str(size + len(str(size))))
    return f"{total} {key}={value}\n".encode()


def test_records_of_pax_set_name_link_and_size() -> None:
    found = Attributes().with_pax(record("path", "a/b") + record("linkpath", "c") + record("size", "12"))
    assert (found.name, found.link, found.size) == (b"a/b", b"c", 12)
    assert Attributes().with_pax(record("size", "")).size is None


def test_gnu_headers_set_name_and_link() -> None:
    found = Attributes().with_gnu_name(b"long\0\0").with_gnu_link(b"target\0")
    assert (found.name, found.link, found.size) == (b"long", b"target", None)


def test_an_entry_has_headers_of_one_kind_each_once() -> None:
    pax, name, link = record("path", "a"), Attributes().with_gnu_name(b"a\0"), Attributes().with_gnu_link(b"a\0")
    for before in (Attributes().with_pax(pax), name, link):
        with pytest.raises(CRDsError, match="several headers that name one entry"):
            before.with_pax(pax)
    for twice in (lambda: name.with_gnu_name(b"b\0"), lambda: link.with_gnu_link(b"b\0")):
        with pytest.raises(CRDsError, match="several headers that name one entry"):
            twice()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (record("path", "a") + record("path", "b"), "with b'path' twice"),
        (record("path", "a")[:-1], "a bad record"),
        (b"x path=a\n", "a bad record"),
        (b"99 path=a\n", "a bad record"),
        (b"7 path\n", "a bad record"),
        (record("GNU.sparse.major", "1"), "a sparse file"),
        (record("path", "a\0b"), "a NUL in b'path'"),
        (record("size", "-1"), "a bad size"),
        (record("mtime", "soon"), "a bad mtime"),
    ],
)
def test_a_header_that_readers_understand_differently_is_refused(body: bytes, message: str) -> None:
    with pytest.raises(CRDsError, match=message) as caught:
        Attributes().with_pax(body)
    assert caught.value.exit is Exit.ARCHIVE


@pytest.mark.parametrize("body", [b"", b"\0", b"a\0b"])
def test_a_gnu_text_ends_at_its_only_nul(body: bytes) -> None:
    with pytest.raises(CRDsError, match="a GNU long name that is empty, or has data after"):
        Attributes().with_gnu_name(body)


def test_a_global_header_has_a_comment_only() -> None:
    check_global(record("comment", "0" * 40))
    with pytest.raises(CRDsError, match="a pax global header with b'path'"):
        check_global(record("path", "a"))
    assert read_records(record("a", "1") + record("b", "2")) == {b"a": b"1", b"b": b"2"}
