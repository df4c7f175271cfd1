"""Reads the bodies of requests and sends those of answers; limits the size of each and the memory of all.

The setting ``body_memory`` limits the memory of all bodies. A body counts to the address of its client. A review of a
logical cluster counts to the cluster as soon as the caller is authorized
(`fleethook.engines.dispatch.review.cluster_endpoint.RequestQuota`). The memory is released after the answer.

Large answers are sent in pieces: the event loop buffers all bytes that it gets and the client does not read. So it gets
one piece, and signals when it can take the next one. The rest of the answer stays with its request.
"""

import asyncio
from types import TracebackType
from typing import Final, Self

import msgspec
from starlette.types import Message, Receive, Send

from fleethook.fair_limits import Limit, LimitError

DECODED_BYTES_PER_BYTE: Final = 32
"""Maximum bytes that a byte of JSON takes when decoded: ``{"":0},`` is an object of 200 bytes and a reference of 8."""
# Bytes of an object with up to five members, of a list, of a value, and of a key with its place in a large object.
_DECODED_BYTES: Final = {b"{": 200, b"[": 80, b",": 72, b":": 96}
# Ample: the bodies that have been read are answered within milliseconds.
_MAX_WAIT_SECONDS: Final = 5.0


class BodyBudget(Limit):
    """Bytes of bodies, and of the objects decoded from them, that all requests may hold at a time."""

    def __init__(self, limit: int, *, max_wait: float = _MAX_WAIT_SECONDS) -> None:
        """Share ``limit`` bytes; a request waits for room for ``max_wait`` seconds."""
        super().__init__(limit)
        self._max_wait: Final = max_wait
        self._waiting: Final[list[asyncio.Future[None]]] = []

    @property
    def largest(self) -> int:
        """The maximum charge of one request, so that a single request always finds room."""
        return self.limit // 2

    def has_room(self, client: str, body_bytes: int, *, charged: int = 0) -> bool:
        """Return whether a body, and the objects decoded from it, find room at once beside the charged bytes."""
        size = min((1 + DECODED_BYTES_PER_BYTE) * body_bytes, self.largest)
        return self.allows(client, size - charged)

    async def wait(self, client: str, size: int) -> None:
        """Charge as soon as there is room; raises LimitError if that takes too long."""
        try:
            async with asyncio.timeout(self._max_wait):
                while not self.take(client, size):
                    waiter = asyncio.get_running_loop().create_future()
                    self._waiting.append(waiter)
                    await waiter
        except TimeoutError:
            self.refused += 1
            raise LimitError from None

    def release(self, consumer: str, size: int = 1) -> None:
        """Release ``size`` bytes of a client."""
        super().release(consumer, size)
        waiting, self._waiting[:] = self._waiting[:], []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)


class BodyCharge(msgspec.Struct, eq=False):
    """The memory of one request, from the first byte of its body to the end of its answer.

    Attributes:
        size: The charged bytes.
    """

    _budget: BodyBudget
    _client: str
    size: int = 0

    def assign(self, client: str, body_bytes: int) -> bool:
        """Charge the request to another client from now on, and return True; return False if that client has no room.

        Args:
            client: The other client.
            body_bytes: The size of the body, for a request that has not been charged yet.
        """
        size = self.size
        if size and self._client == client:
            return True
        self.give_back()
        self._client = client
        # Without room, the caller refuses the request at once.
        return self.take(size) if size else self._budget.has_room(client, body_bytes)

    async def add(self, size: int) -> None:
        """Charge ``size`` bytes more; raises LimitError if there is no room in time."""
        size = min(size, self._budget.largest - self.size)
        if not self._budget.take(self._client, size):
            await self._budget.wait(self._client, size)
        self.size += size

    def take(self, size: int) -> bool:
        """Charge ``size`` bytes more and return True, or return False if there is no room now."""
        size = min(size, self._budget.largest - self.size)
        if not self._budget.take(self._client, size):
            return False
        self.size += size
        return True

    def has_room(self, body_bytes: int) -> bool:
        """Return whether a body, of which a part may be charged, and the objects decoded from it find room at once."""
        # Without other bodies, there is room for each.
        return self._budget.total == self.size or self._budget.has_room(self._client, body_bytes, charged=self.size)

    def take_decoded(self, body_bytes: int) -> None:
        """Charge a body and the objects decoded from it, for which `has_room` has found room."""
        self.take((1 + DECODED_BYTES_PER_BYTE) * body_bytes - self.size)

    def give_back(self) -> None:
        """Release all charged bytes."""
        if self.size:
            self._budget.release(self._client, self.size)
            self.size = 0

    async def add_decoded(self, body: bytes) -> None:
        """Charge the objects that will be decoded from a body; raises LimitError if there is no room in time.

        Counting them takes milliseconds for 1 MiB, so it is done only if the worst case finds no room.
        """
        worst = DECODED_BYTES_PER_BYTE * len(body)
        if not self.take(worst):
            await self.add(min(worst, count_decoded(body)))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.give_back()


def count_decoded(body: bytes) -> int:
    """Return the maximum bytes of the objects that are decoded from a JSON text."""
    return len(body) + sum(size * body.count(mark) for mark, size in _DECODED_BYTES.items())


RETRY_AFTER_SECONDS: Final = 1
"""``Retry-After`` of each 503: the server answers bodies within milliseconds, and ends stalled ones within seconds."""


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
    except LimitError:
        raise _no_room() from None
    return body


async def _read_chunks(receive: Receive, *, limit: int, charge: BodyCharge | None) -> bytes:
    message = await receive()
    if message["type"] != "http.request":
        raise ClientGoneError
    body: bytes = message.get("body", b"")
    if len(body) > limit:
        raise too_large(limit)
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
            raise too_large(limit)
        if charge is not None:
            await charge.add(len(chunk))
        chunks.append(chunk)
    return b"".join(chunks)


def too_large(limit: int) -> RequestError:
    """Return the refusal of a body with more bytes than the limit."""
    return RequestError(413, "RequestEntityTooLarge", f"the body is larger than {limit} bytes")


def _no_room() -> RequestError:
    text = "the bodies of other requests take all the memory that the setting body_memory allows; try again later"
    return RequestError(503, "ServiceUnavailable", text, retry_after=RETRY_AFTER_SECONDS)


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


class Reply(msgspec.Struct, frozen=True):
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
