"""Sends answers. Large ones are sent in pieces, to limit the memory of an answer that the client does not read.

The event loop buffers all bytes that it gets and the client does not read. So it gets one piece, and signals when it
can take the next one. The rest of the answer stays with its request, to which its memory is charged.
"""

from typing import Final, NamedTuple

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fleethook.server.protocol.request_body import (
    RETRY_AFTER_SECONDS,
    BodyBudget,
    BodyCharge,
    OverBudgetError,
    client_of,
)
from fleethook.server.reviews.codec import encode_error

PIECE_BYTES: Final = 64 * 1024
RETRY_AFTER: Final = (b"retry-after", b"%d" % RETRY_AFTER_SECONDS)
_TOO_BUSY: Final = encode_error(
    503, "ServiceUnavailable", "other answers take all the memory that the setting body_memory allows; try again later"
)


async def send_body(send: Send, body: bytes, *, more_body: bool = False) -> None:
    """Send a part of an answer; each piece waits until the client has read enough of the previous ones."""
    if len(body) <= PIECE_BYTES:
        await send({"type": "http.response.body", "body": body, "more_body": more_body})
        return
    view = memoryview(body)
    for start in range(0, len(body), PIECE_BYTES):
        end = start + PIECE_BYTES
        piece = bytes(view[start:end])
        await send({"type": "http.response.body", "body": piece, "more_body": more_body or end < len(body)})


class PacedApp:
    """Sends the large answers of an application in pieces, and charges them to the body memory."""

    def __init__(self, app: ASGIApp, budget: BodyBudget) -> None:
        self._app: Final = app
        self._budget: Final = budget

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request; pass any other scope to the application."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        with BodyCharge(self._budget, client_of(scope.get("client"))) as charge:
            await self._app(scope, receive, _Paced(send, charge).send)


class _Paced:
    """The channel of one answer. It delays the start of the answer until its size is known."""

    def __init__(self, send: Send, charge: BodyCharge) -> None:
        self._send: Final = send
        self._charge: Final = charge
        self._start: Message | None = None
        self._refused = False

    async def send(self, message: Message) -> None:
        """Send a message of the application."""
        if message["type"] == "http.response.start":
            self._start = message
            return
        if self._refused or message["type"] != "http.response.body":
            return
        body: bytes = message.get("body", b"")
        if len(body) > PIECE_BYTES and not await self._has_room(len(body)):
            return
        if self._start is not None:
            await self._send(self._start)
            self._start = None
        await send_body(self._send, body, more_body=message.get("more_body", False))

    async def _has_room(self, size: int) -> bool:
        """Charge an answer and return True. If there is no room in time, send 503 and return False.

        Raises:
            OverBudgetError: There is no room, and the answer has begun.
        """
        try:
            await self._charge.add(size)
        except OverBudgetError:
            if self._start is None:
                raise
            self._refused = True
            headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(_TOO_BUSY))]
            headers.append(RETRY_AFTER)
            await self._send({"type": "http.response.start", "status": 503, "headers": headers})
            await self._send({"type": "http.response.body", "body": _TOO_BUSY})
            return False
        return True


def close_after_answer(send: Send) -> Send:
    """Return a channel that closes the connection after the answer, so that the client connects to another replica."""

    async def send_and_close(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], (b"connection", b"close")]}
        await send(message)

    return send_and_close


JSON_TYPE: Final = (b"content-type", b"application/json")


class Reply(NamedTuple):
    """A JSON answer.

    Attributes:
        status: The HTTP status.
        body: The JSON text.
        headers: Headers beside the type and the length of the body.
    """

    status: int
    body: bytes
    headers: tuple[tuple[bytes, bytes], ...] = ()

    def all_headers(self) -> list[tuple[bytes, bytes]]:
        """Return all headers in their order."""
        return [JSON_TYPE, (b"content-length", b"%d" % len(self.body)), *self.headers]


async def send_reply(send: Send, reply: Reply) -> None:
    """Send an answer by an ASGI channel."""
    await send({"type": "http.response.start", "status": reply.status, "headers": reply.all_headers()})
    await send_body(send, reply.body)
