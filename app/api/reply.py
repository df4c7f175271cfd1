"""An answer to one HTTP request, before it is known how it is sent."""

from typing import Final, NamedTuple

from starlette.types import Send

from app.api.sending import send_body

JSON_TYPE: Final = (b"content-type", b"application/json")


class Reply(NamedTuple):
    """An answer of JSON.

    Attributes:
        status: The HTTP status.
        body: The JSON text.
        headers: Further headers, beside the type and the length of the body.
    """

    status: int
    body: bytes
    headers: tuple[tuple[bytes, bytes], ...] = ()

    def all_headers(self) -> list[tuple[bytes, bytes]]:
        """Return the headers, in the order in which they are sent."""
        return [JSON_TYPE, (b"content-length", b"%d" % len(self.body)), *self.headers]


async def send_reply(send: Send, reply: Reply) -> None:
    """Send an answer by an ASGI channel."""
    await send({"type": "http.response.start", "status": reply.status, "headers": reply.all_headers()})
    await send_body(send, reply.body)
