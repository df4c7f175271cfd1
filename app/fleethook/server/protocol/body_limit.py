"""Reads a request body within ``body_limit``; a longer body gets 413."""

from collections.abc import Iterable
from typing import Final

from starlette.types import Receive

from fleethook.server.protocol.body_memory import BodyCharge, OverBudgetError

# The server answers bodies within milliseconds, and ends stalled ones within seconds
# (`fleethook.server.protocol.body_memory`).
_RETRY_SECONDS: Final = 1


class RequestError(Exception):
    """A refusal of a request: the caller gets an HTTP error with a ``Status`` instead of a review.

    Attributes:
        code: The HTTP status.
        reason: The Kubernetes status reason.
        retry_after: Seconds after which the client may try again, None for no header.
    """

    def __init__(self, code: int, reason: str, message: str, *, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.retry_after = retry_after


class ClientGoneError(Exception):
    """The client closed the connection before its request was complete, so there is no answer."""


def check_headers(headers: Iterable[tuple[bytes, bytes]], *, limit: int) -> str:
    """Check the headers of a JSON request, and return its ``X-Request-Id``, or ``""``.

    Raises:
        RequestError: 415 for another content type or an encoded body, 413 for an announced size over ``limit`` bytes.
    """
    content_type = request_id = b""
    for name, value in headers:
        if name == b"content-type":
            content_type = value
        elif name == b"content-length":
            if int(value) > limit:
                raise _too_large(limit)
        elif name == b"x-request-id":
            request_id = value
        elif name == b"content-encoding" and value != b"identity":
            raise RequestError(415, "UnsupportedMediaType", "the body must not be encoded (Content-Encoding)")
    if content_type != b"application/json" and content_type.partition(b";")[0].strip().lower() != b"application/json":
        found = content_type.decode("latin-1") or "none"
        raise RequestError(415, "UnsupportedMediaType", f"Content-Type must be application/json, not {found}")
    return request_id.decode("latin-1")[:128] if request_id else ""


async def read_body(receive: Receive, *, limit: int, charge: BodyCharge | None = None) -> bytes:
    """Return the complete body.

    Args:
        receive: The ASGI channel. While there is no room for the bytes read, the server does not read from the client.
        limit: The maximum number of bytes of a body.
        charge: The memory to which the body and the objects in it are charged.

    Raises:
        RequestError: 413 for a body of more than ``limit`` bytes; 503 if other bodies take all memory.
        ClientGoneError: The client closed the connection.
    """
    if charge is None:
        return await _read_chunks(receive, limit=limit, charge=None)
    try:
        body = await _read_chunks(receive, limit=limit, charge=charge)
        await charge.add_decoded(body)
    except OverBudgetError:
        raise _no_room() from None
    return body


async def _read_chunks(receive: Receive, *, limit: int, charge: BodyCharge | None) -> bytes:
    message = await receive()
    if message["type"] != "http.request":
        raise ClientGoneError
    body: bytes = message.get("body", b"")
    if len(body) > limit:
        raise _too_large(limit)
    if not message.get("more_body", False):
        return body
    chunks = [body]
    size = len(body)
    if charge is not None:
        await charge.add(size)
    while message.get("more_body", False):
        message = await receive()
        if message["type"] != "http.request":
            raise ClientGoneError
        chunk: bytes = message.get("body", b"")
        size += len(chunk)
        if size > limit:
            raise _too_large(limit)
        if charge is not None:
            await charge.add(len(chunk))
        chunks.append(chunk)
    return b"".join(chunks)


def _too_large(limit: int) -> RequestError:
    return RequestError(413, "RequestEntityTooLarge", f"the body is larger than {limit} bytes")


def _no_room() -> RequestError:
    text = "the bodies of other requests take all the memory that the setting body_memory allows; try again later"
    return RequestError(503, "ServiceUnavailable", text, retry_after=_RETRY_SECONDS)
