"""Reads the records of recordings, and reports everything in them that is no record."""

from collections.abc import Iterator
from typing import BinaryIO, Final, NamedTuple

import msgspec

from fleethook.recordings.format import FORMAT, FORMAT_NAME, Header, Record
from fleethook.recordings.read.line_reader import Fault, Line, read_lines

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
