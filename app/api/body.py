"""Reading a request body from an ASGI server, within limits."""

from collections.abc import Iterable

from starlette.types import Receive


class RequestError(Exception):
    """A request that is refused before its body is looked at.

    Attributes:
        code: The HTTP status.
        reason: The Kubernetes status reason.
    """

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason


class ClientGoneError(Exception):
    """The client closed the connection before its request was complete; nobody is left to answer."""


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


async def read_body(receive: Receive, *, limit: int) -> bytes:
    """Return the whole body.

    Raises:
        RequestError: 413, it is longer than ``limit`` bytes.
        ClientGoneError: The client went away.
    """
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
    while message.get("more_body", False):
        message = await receive()
        if message["type"] != "http.request":
            raise ClientGoneError
        chunk: bytes = message.get("body", b"")
        size += len(chunk)
        if size > limit:
            raise _too_large(limit)
        chunks.append(chunk)
    return b"".join(chunks)


def _too_large(limit: int) -> RequestError:
    return RequestError(413, "RequestEntityTooLarge", f"the body is larger than {limit} bytes")
