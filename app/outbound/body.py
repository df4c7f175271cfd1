"""A request's body, and an answer's body within a limit."""

import zlib
from typing import Final

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from aiohttp.payload import Payload

_CHUNK: Final = 65536
# zlib's way to say which format (zlib.decompressobj): 15 is the largest window, 16 more means gzip, less than 0 raw.
_GZIP: Final = 31
_ZLIB: Final = 15
_RAW_DEFLATE: Final = -15
_DEFLATE_METHOD: Final = 8


class BodyError(ValueError):
    """A body that is not read, or not to the end; the text says why."""


class WholeBody(Payload):
    """A request's body that is handed to the transport at once.

    aiohttp stops writing as soon as an answer is complete, and keeps the connection: of a body in pieces, the rest
    would be missing, and the next request be taken for it.
    """

    _value: bytes

    def __init__(self, value: bytes) -> None:
        super().__init__(value, content_type="application/json")
        self._size = len(value)

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """Return the body as text, which aiohttp wants of every payload."""
        return self._value.decode(encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        """Write everything."""
        await writer.write(self._value)


async def read_body(response: aiohttp.ClientResponse, *, limit: int) -> bytes:
    """Return the body of an answer, decompressed if it is compressed against the request.

    Args:
        response: Of a session that does not decompress.
        limit: Bytes, both on the wire and decompressed; nothing beyond them is kept or inflated.

    Raises:
        BodyError: It is larger, or in an encoding that is not known.
    """
    too_large = BodyError(f"it answers more than {limit:,} bytes")
    if (response.content_length or 0) > limit:
        raise too_large
    chunks: list[bytes] = []
    size = 0
    async for chunk in response.content.iter_chunked(_CHUNK):
        size += len(chunk)
        if size > limit:
            raise too_large
        chunks.append(chunk)
    body = b"".join(chunks)
    encoding = response.headers.get("Content-Encoding", "").strip().lower()
    if not body or encoding in ("", "identity"):
        return body
    inflated = _inflated(body, encoding, limit=limit)
    if len(inflated) > limit:
        raise too_large
    return inflated


def _inflated(body: bytes, encoding: str, *, limit: int) -> bytes:
    if encoding in ("gzip", "x-gzip"):
        window = _GZIP
    elif encoding == "deflate":
        # By RFC 9110 that is zlib's format, and by what some servers send it is the bare one.
        window = _ZLIB if body[0] & 0x0F == _DEFLATE_METHOD else _RAW_DEFLATE
    else:
        raise BodyError(f"it answers in the encoding {encoding!r}, and was asked for none")
    decompressor = zlib.decompressobj(wbits=window)
    try:
        inflated = decompressor.decompress(body, limit + 1)
    except zlib.error as error:
        raise BodyError(f"its answer cannot be decompressed: {error}") from None
    # A gzip file may have members without end, each of which costs more to look for than to inflate.
    if len(inflated) <= limit and (not decompressor.eof or decompressor.unused_data):
        raise BodyError("its answer cannot be decompressed: it ends early, or something follows it")
    return inflated
