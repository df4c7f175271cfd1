"""Large answers are sent in pieces."""

from collections.abc import MutableMapping
from typing import Any

from fleethook.server.protocol.sending import PIECE_BYTES, Reply, send_body, send_reply


async def test_a_large_answer_is_sent_in_pieces() -> None:
    sent: list[MutableMapping[str, Any]] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    await send_body(send, b"x" * (2 * PIECE_BYTES + 1))
    assert [(len(one["body"]), one["more_body"]) for one in sent] == [
        (PIECE_BYTES, True), (PIECE_BYTES, True), (1, False),
    ]  # fmt: skip


async def test_an_answer_is_sent_with_its_headers() -> None:
    sent: list[MutableMapping[str, Any]] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    reply = Reply(429, b'{"a":1}', ((b"retry-after", b"1"),))
    await send_reply(send, reply)
    headers = [(b"content-type", b"application/json"), (b"content-length", b"7"), (b"retry-after", b"1")]
    assert sent[0] == {"type": "http.response.start", "status": 429, "headers": headers}
    assert b"".join(one.get("body", b"") for one in sent[1:]) == b'{"a":1}'
    assert not sent[-1].get("more_body")
