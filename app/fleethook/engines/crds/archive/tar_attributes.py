"""Headers that carry a name or other attributes of the next entry: pax ``x`` and ``g``, GNU's ``L`` and ``K``.

Readers disagree on which of two headers takes precedence. Go prefers GNU's name to that of pax, and the last pax header
to all before it. Others prefer the last header of either kind. So an entry may have headers of one kind only, each
once, and each record once.
Source: archive/tar of Go 1.26, next and mergePAX in reader.go, parsePAXRecord in strconv.go.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from fleethook.engines.crds.archive.tar_header import distrust

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

    POSIX gives them to all later entries, and Go to none.
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
    # An empty value means that of the entry's own header.
    if value and key in _VALUES and not _VALUES[key].fullmatch(value):
        raise distrust(f"a pax header with a bad {key.decode()}")


def _parse_gnu_text(body: bytes) -> bytes:
    text, _, rest = body.partition(b"\0")
    if not text or rest.strip(b"\0"):
        raise distrust("a GNU long name that is empty, or has data after its terminating NUL")
    return text
