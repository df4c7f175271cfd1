"""Reads the records in files of recordings, and reports the lines and files that cannot be read."""

import contextlib
import fcntl
import zlib
from collections.abc import Generator, Iterator
from typing import BinaryIO, Final, NamedTuple

import msgspec

from fleethook.recordings.recording_format import FORMAT, FORMAT_NAME, Header, Record

MAX_LINE: Final = 64 * 1024 * 1024
"""Bytes of the longest line that is read. A review has at most 8 MiB by default, and its record repeats parts of it."""
MAX_SKIPPED: Final = 1024 * 1024 * 1024
"""Bytes of a longer line that are skipped before the rest of the file is given up: a decompression bomb has no end."""
_CHUNK: Final = 64 * 1024
# Bytes that one step of decompression may return: a thousandfold compression is possible.
_MAX_INFLATED: Final = 1024 * 1024
_GZIP: Final = b"\x1f\x8b"
_WITH_GZIP_HEADER: Final = 16 + zlib.MAX_WBITS


class Line(NamedTuple):
    """A line without its line feed; ``number`` counts from 1."""

    number: int
    text: bytes


class Fault(NamedTuple):
    """The reason why something at a line cannot be read."""

    number: int
    reason: str


class _UnreadableError(Exception):
    """The rest of the stream cannot be read."""


def read_lines(stream: BinaryIO, *, max_line: int = MAX_LINE, max_skipped: int = MAX_SKIPPED) -> Iterator[Line | Fault]:
    """Yield the lines of a stream, and its faults at their places.

    Args:
        stream: Gzip, also of several members, or plain text. It is read in order, and not closed.
        max_line: Bytes of the longest line that is yielded.
        max_skipped: Bytes of the longest line that is skipped.
    """
    splitter = _Splitter(max_line, max_skipped)
    try:
        for chunk in _read_chunks(stream):
            yield from splitter.split(chunk)
            if splitter.has_given_up:
                return
    except (_UnreadableError, OSError) as error:
        splitter.has_fault = True
        reason = f"the file cannot be read: {error.strerror}" if isinstance(error, OSError) else str(error)
        yield Fault(splitter.number, reason)
    yield from splitter.end()


class _Splitter:
    """Splits chunks into lines.

    Attributes:
        number: The number of the line that the next chunk continues.
        has_fault: Whether a fault that explains an incomplete last line was reported already.
        has_given_up: Whether a line is so long that the rest of the stream is not read.
    """

    def __init__(self, max_line: int, max_skipped: int) -> None:
        self.number = 1
        self.has_fault = False
        self.has_given_up = False
        self._max_line: Final = max_line
        self._max_skipped: Final = max_skipped
        self._pending: list[bytes] = []
        self._length = 0

    def split(self, chunk: bytes) -> Iterator[Line | Fault]:
        """Yield the lines that a chunk completes."""
        first, *rest = chunk.split(b"\n")
        self._add(first)
        for part in rest:
            yield self._complete()
            self._add(part)
        if self._length > self._max_skipped:
            self.has_given_up = True
            yield Fault(self.number, f"the line has more than {self._max_skipped} bytes; the rest is not read")

    def end(self) -> Iterator[Line | Fault]:
        """Yield the last line, which has no line feed."""
        if not self._length or self.has_fault:
            return
        # A record may be complete without a line feed, for example if an editor removed it.
        yield self._complete()

    def _add(self, part: bytes) -> None:
        self._length += len(part)
        if self._length > self._max_line:
            self._pending.clear()
        else:
            self._pending.append(part)

    def _complete(self) -> Line | Fault:
        number, length = self.number, self._length
        text = b"".join(self._pending) if len(self._pending) != 1 else self._pending[0]
        self.number, self._length = number + 1, 0
        self._pending.clear()
        if length > self._max_line:
            return Fault(number, f"the line has {length} bytes, more than the {self._max_line} that are read")
        return Line(number, text)


def _read_chunks(stream: BinaryIO) -> Iterator[bytes]:
    """Yield the decompressed content; raises _UnreadableError at a place that cannot be read."""
    chunk = stream.read(_CHUNK)
    if not chunk.startswith(_GZIP):
        while chunk:
            yield chunk
            chunk = stream.read(_CHUNK)
        return
    yield from _read_members(stream, chunk)


def _read_members(stream: BinaryIO, chunk: bytes) -> Iterator[bytes]:
    """Yield the content of consecutive gzip members. ``chunk`` is the beginning of the first member."""
    while chunk:
        chunk = yield from _read_member(stream, chunk)
        # Programs that write to tapes fill the last block with zeros (RFC 1952 says nothing about it, gzip skips them).
        chunk = chunk.lstrip(b"\0") or _skip_zeros(stream)
        if chunk and not _GZIP.startswith(chunk[:2]):
            raise _UnreadableError("the bytes after the end of the gzip data are no gzip data")


def _skip_zeros(stream: BinaryIO) -> bytes:
    while chunk := stream.read(_CHUNK):
        if left := chunk.lstrip(b"\0"):
            return left
    return b""


def _read_member(stream: BinaryIO, data: bytes) -> Generator[bytes, None, bytes]:
    """Yield the content of a gzip member; return the bytes after it. Raises _UnreadableError."""
    inflater = zlib.decompressobj(_WITH_GZIP_HEADER)
    while not inflater.eof:
        if not data:
            data = stream.read(_CHUNK)
            if not data:
                yield inflater.flush()
                if _is_being_written(stream):
                    return b""
                raise _UnreadableError("the gzip data is cut off here")
        before = inflater.copy()
        try:
            content = inflater.decompress(data, _MAX_INFLATED)
        except zlib.error as error:
            yield _salvage(before, data)
            raise _UnreadableError(f"the gzip data is damaged: {_describe_gzip_error(error)}") from None
        data = inflater.unconsumed_tail
        if content:
            yield content
    return inflater.unused_data


def _is_being_written(stream: BinaryIO) -> bool:
    """Return whether a server holds the lock of a file, because it still writes to it."""
    try:
        descriptor = stream.fileno()
    except (AttributeError, OSError):  # data in memory
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system or a pipe without locks
        return False
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    return False


def _salvage(inflater: "zlib._Decompress", data: bytes) -> bytes:
    """Return the content of gzip data up to the byte at which it is damaged, or up to the wrong checksum."""
    found = bytearray()
    with contextlib.suppress(zlib.error):
        for start in range(len(data)):
            found += inflater.decompress(data[start : start + 1])
    return bytes(found)


def _describe_gzip_error(error: zlib.error) -> str:
    """Return zlib's reason: ``Error -3 while decompressing data: incorrect data check`` without the number."""
    return str(error).rpartition(": ")[2]


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
