"""Tests of answers to HTTP requests."""

from collections.abc import MutableMapping
from typing import Any

from fleethook.server.reviews.reply import Reply, send_reply


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
