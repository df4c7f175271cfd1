"""Sends answers. Large ones are sent in pieces, to limit the memory of an answer that the client does not read.

The event loop buffers all bytes that it gets and the client does not read. So it gets one piece, and signals when it
can take the next one. The rest of the answer stays with its request, to which its memory is charged.
"""

from typing import Final, NamedTuple

from starlette.types import Message, Send

from fleethook.server.protocol.request_body import RETRY_AFTER_SECONDS

PIECE_BYTES: Final = 64 * 1024
RETRY_AFTER: Final = (b"retry-after", b"%d" % RETRY_AFTER_SECONDS)


async def send_body(send: Send, body: bytes) -> None:
    """Send the body of an answer; each piece waits until the client has read enough of the previous ones."""
    if len(body) <= PIECE_BYTES:
        await send({"type": "http.response.body", "body": body})
        return
    view = memoryview(body)
    for start in range(0, len(body), PIECE_BYTES):
        end = start + PIECE_BYTES
        piece = bytes(view[start:end])
        await send({"type": "http.response.body", "body": piece, "more_body": end < len(body)})


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
