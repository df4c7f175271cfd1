"""Heads of requests that equal an earlier one of their connection, apart from their Content-Length.

An apiserver sends the same head for all reviews of a webhook, and the reviews of several webhooks over one connection.
Comparing a head with a former one takes 1 µs, parsing it takes 20 µs. Equal bytes have equal meanings, so the
comparison is safe.
"""

from typing import Any, Final, NamedTuple

import msgspec

_END: Final = b"\r\n\r\n"
_LENGTH: Final = b"\r\nContent-Length: "
_LINE_END: Final = b"\r\n"
MAX_HEAD: Final = 4096
"""Bytes of the heads that a connection keeps."""
_MAX_DIGITS: Final = 9

Headers = list[tuple[bytes, bytes]]


class _Parts(NamedTuple):
    """A head in the beginning of a read, without the digits of its Content-Length."""

    before: bytes
    digits: bytes
    after: bytes
    size: int


def _split(data: bytes) -> _Parts | None:
    """Return the parts of the head in the beginning of ``data``, None if it is incomplete, long or has no length."""
    size = data.find(_END, 0, MAX_HEAD) + len(_END)
    if size < len(_END):
        return None
    start = data.find(_LENGTH, 0, size)
    if start < 0:
        return None
    start += len(_LENGTH)
    end = data.find(_LINE_END, start, size)
    digits = data[start:end]
    if not digits.isdigit() or len(digits) > _MAX_DIGITS:
        return None
    return _Parts(data[:start], digits, data[end:size], size)


class Repeated(msgspec.Struct, frozen=True):
    """A head that equals a known one.

    Attributes:
        text: Its bytes.
        length: The length of the body.
        headers: The headers as the parser would return them.
        body: The part of the body that has arrived.
    """

    text: bytes
    length: int
    headers: Headers
    body: bytes


class KnownHead:
    """A head that the parser has read, of ``size`` bytes."""

    __slots__ = ("_after", "_before", "_headers", "_position", "size")

    def __init__(self, parts: _Parts, headers: Headers, position: int) -> None:
        """Store a head; use `remember_head` instead."""
        self.size: Final = parts.size
        self._before: Final = parts.before
        self._after: Final = parts.after
        self._headers: Final = headers
        self._position: Final = position

    def find(self, data: bytes) -> Repeated | None:
        """Return the head in the beginning of a read, None if it may differ from this one."""
        head, after, body = data.partition(self._after)
        start = len(self._before)
        digits = head[start:]
        if not after or head[:start] != self._before or not digits.isdigit() or len(digits) > _MAX_DIGITS:
            return None
        headers = self._headers.copy()
        headers[self._position] = b"content-length", digits
        return Repeated(head + after, int(digits), headers, body)


def remember_head(data: bytes, headers: Headers) -> KnownHead | None:
    """Return the head in the beginning of a read.

    Args:
        data: The read, which begins with the head.
        headers: The headers that the parser has found in it, with names in lower case.

    Returns:
        None if the head does not end in this read, is too long, or has not exactly one usual Content-Length.
    """
    parts = _split(data)
    if parts is None:
        return None
    positions = [at for at, (name, _) in enumerate(headers) if name == b"content-length"]
    if len(positions) != 1 or headers[positions[0]][1] != parts.digits:
        return None
    return KnownHead(parts, headers, positions[0])


class KnownHeads:
    """The heads of a connection by their request lines, with the ASGI scopes of their requests."""

    __slots__ = ("_known", "_size")

    def __init__(self) -> None:
        """Begin without heads."""
        self._known: Final[dict[bytes, tuple[KnownHead, dict[str, Any]]]] = {}
        self._size = 0

    def find(self, data: bytes) -> tuple[Repeated, dict[str, Any]] | None:
        """Return the head in the beginning of a read, and the scope of its former request; None if it may be new."""
        found = self._known.get(_read_line(data))
        if found is None or (repeated := found[0].find(data)) is None:
            return None
        return repeated, found[1]

    def add(self, data: bytes, headers: Headers, scope: dict[str, Any]) -> None:
        """Keep the head in the beginning of a read if `remember_head` does; forget the former ones if they are many."""
        known = remember_head(data, headers)
        if known is None:
            return
        line = _read_line(data)
        former = self._known.pop(line, None)
        self._size += known.size - (former[0].size if former else 0)
        if self._size > MAX_HEAD:
            self._known.clear()
            self._size = known.size
        self._known[line] = known, scope


def _read_line(data: bytes) -> bytes:
    end = data.find(_LINE_END, 0, MAX_HEAD)
    return data[:end] if end > 0 else b""
