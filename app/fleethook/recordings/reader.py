"""Reads the records in files of recordings, and reports the lines and files that cannot be read."""

import gzip
import io
import zlib
from collections.abc import Iterator
from typing import BinaryIO, Final, NamedTuple

import msgspec

from fleethook.recordings.recording_format import FORMAT, FORMAT_NAME, Header, Record

MAX_LINE: Final = 64 * 1024 * 1024
"""Bytes of the longest line that is read. A review has at most 8 MiB by default, and its record repeats parts of it."""
_CHUNK: Final = 1024 * 1024
_GZIP: Final = b"\x1f\x8b"


class Line(NamedTuple):
    """A line without its line feed; ``number`` counts from 1."""

    number: int
    text: bytes


class Fault(NamedTuple):
    """The reason why the rest of a file, from a line on, cannot be read."""

    number: int
    reason: str


def read_lines(stream: BinaryIO, *, max_line: int = MAX_LINE) -> Iterator[Line | Fault]:
    """Yield the lines of a stream; a fault ends it.

    The gzip data of a server that still writes, or was killed, lacks its end; that is no fault.

    Args:
        stream: Gzip, also of several members, or plain text. It is read in order, and not closed.
        max_line: Bytes of the longest line.
    """
    plain = stream if isinstance(stream, io.BufferedReader) else io.BufferedReader(stream)  # type: ignore[type-var]
    is_gzip = plain.peek(2).startswith(_GZIP)
    opened = gzip.GzipFile(fileobj=plain) if is_gzip else plain
    number, pending = 1, b""
    try:
        while chunk := opened.read1(_CHUNK):
            first, *others = chunk.split(b"\n")
            pending += first
            for text in others:
                yield Line(number, pending)
                number, pending = number + 1, text
            if len(pending) > max_line:
                yield Fault(number, f"the line has more than {max_line} bytes; the rest of the file is not read")
                return
    except EOFError:
        if pending:
            yield Fault(number, "the gzip data is cut off here")
        return
    except (OSError, zlib.error) as error:
        yield Fault(number, f"the file cannot be read: {error}")
        return
    if pending:
        yield Line(number, pending)


_decode_record: Final = msgspec.json.Decoder(Record).decode
_decode_header: Final = msgspec.json.Decoder(Header).decode
_ERRORS: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class Entry(NamedTuple):
    """A record and its place."""

    file: str
    line: int
    record: Record


class Problem(NamedTuple):
    """Something that cannot be used, and the reason."""

    file: str
    line: int
    reason: str

    @property
    def place(self) -> str:
        """The place as ``FILE:LINE``."""
        return f"{self.file}:{self.line}"


def read_entries(stream: BinaryIO, file: str) -> Iterator[Entry | Problem]:
    """Yield the records of a file in their order, and the problems between them.

    Several files may follow each other in one stream, as ``cat`` writes them. Nothing is read of a file with another
    format or another major version.

    Args:
        stream: The content, compressed or not.
        file: The name for places.
    """
    is_known, is_first = False, True
    for line in read_lines(stream):
        if isinstance(line, Fault):
            yield Problem(file, line.number, line.reason)
            continue
        reason = ""
        if is_known:
            try:
                yield Entry(file, line.number, _decode_record(line.text))
            except _ERRORS as error:
                reason = _describe(error)
            else:
                continue
        header = _read_header(line)
        if header is not None:
            is_known = header.format == FORMAT
            reason = "" if is_known else _describe_unknown(header)
        elif is_first:
            yield Problem(file, line.number, "this is no recording of fleethook: the first line is no header")
            return
        if reason:
            yield Problem(file, line.number, reason)
        is_first = False


def _read_header(line: Line) -> Header | None:
    """Return the header in a line, None if the line is none."""
    try:
        header = _decode_header(line.text)
    except _ERRORS:
        return None
    return header if header.format.startswith(f"{FORMAT_NAME}/") else None


def _describe_unknown(header: Header) -> str:
    return (
        f"the format is {header.format}, and this fleethook reads {FORMAT}: use the fleethook that wrote it "
        f"({header.version}), or a newer one"
    )


def _describe(error: Exception) -> str:
    if isinstance(error, msgspec.ValidationError):
        return f"the line is no record: {error}"
    if isinstance(error, RecursionError):
        return "the line is JSON nested too deep"
    return f"the line is not JSON: {error}"
