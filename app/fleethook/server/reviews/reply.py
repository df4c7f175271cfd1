"""An answer to one HTTP request, which either path can send."""

from typing import Final, NamedTuple

from starlette.types import Send

from fleethook.server.protocol.sending import send_body

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
