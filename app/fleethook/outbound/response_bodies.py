"""Write the body of a request, and read that of a response within its limit."""

import zlib
from typing import Final

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from aiohttp.payload import Payload
from yarl import URL

from fleethook.model.formats.text import escape_line
from fleethook.outbound.call_errors_and_failure_log import (
    CallError,
    describe_redirect,
    describe_status,
    posting,
)

RESPONSE_LIMIT: Final = 8 * 1024 * 1024
"""The maximum size of a response body in bytes."""
_CHUNK: Final = 65536
# Values of ``wbits`` in zlib.decompressobj: 15 is the largest window, 16 more means gzip, negative means raw deflate.
_GZIP: Final = 31
_ZLIB: Final = 15
_RAW_DEFLATE: Final = -15
_DEFLATE_METHOD: Final = 8


class ResponseBodyError(ValueError):
    """The body was not read, or not to its end; the text gives the reason."""


class SingleWriteBody(Payload):
    """A request body that is passed to the transport in one write.

    aiohttp stops writing as soon as the response is complete, and keeps the connection. If the body were written in
    pieces, the server would read the next request as the missing rest of it.
    """

    _value: bytes

    def __init__(self, value: bytes) -> None:
        super().__init__(value, content_type="application/json")
        self._size = len(value)

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """Return the body as text; aiohttp requires this method of every payload."""
        return self._value.decode(encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        """Write the complete body."""
        await writer.write(self._value)


async def read_body(response: aiohttp.ClientResponse, *, limit: int) -> bytes:
    """Return the body of a response, decompressed if the server compressed it although the request forbids that.

    Args:
        response: A response of a session that does not decompress.
        limit: The maximum size in bytes, both on the wire and decompressed. Decompression stops one byte beyond it.

    Raises:
        BodyError: The body is larger, has an unknown encoding, or cannot be decompressed.
    """
    too_large = ResponseBodyError(f"the response is larger than {limit:,} bytes")
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
    inflated = _inflate(body, encoding, limit=limit)
    if len(inflated) > limit:
        raise too_large
    return inflated


def _inflate(body: bytes, encoding: str, *, limit: int) -> bytes:
    if encoding in ("gzip", "x-gzip"):
        window = _GZIP
    elif encoding == "deflate":
        # RFC 9110 defines the zlib format, but some servers send raw deflate.
        window = _ZLIB if body[0] & 0x0F == _DEFLATE_METHOD else _RAW_DEFLATE
    else:
        raise ResponseBodyError(
            f"the response has the Content-Encoding {encoding!r}, although the request allows identity only"
        )
    decompressor = zlib.decompressobj(wbits=window)
    try:
        inflated = decompressor.decompress(body, limit + 1)
    except zlib.error as error:
        raise ResponseBodyError(f"the response cannot be decompressed: {error}") from None
    # Further gzip members are refused: a body may have any number of them, and each costs time.
    if len(inflated) <= limit and (not decompressor.eof or decompressor.unused_data):
        raise ResponseBodyError("the response cannot be decompressed: it is truncated or has trailing data")
    return inflated


async def read_response(response: aiohttp.ClientResponse, *, url: URL, limit: int) -> bytes:
    """Return the body of a successful response.

    Args:
        response: The response; its body is read to the end, unless an error is raised.
        url: The URL of the call.
        limit: The maximum size of the body in bytes.

    Raises:
        CallError: The response is a redirect, has another status, or its body is empty or cannot be read.
    """
    code = response.status
    location = response.headers.get("Location")
    if 300 <= code < 400 and location is not None:
        raise CallError(posting(url, describe_redirect(url, location)), code=code)
    try:
        body = await read_body(response, limit=limit)
    except ResponseBodyError as error:
        raise CallError(posting(url, escape_line(str(error))), code=code) from None
    if not 200 <= code <= 206:
        raise CallError(describe_status(code, body), code=code)
    if not body:
        content_type = escape_line(response.headers.get("Content-Type", ""))
        raise CallError(f"0-length response with status code: {code} and content type: {content_type}", code=code)
    return body
