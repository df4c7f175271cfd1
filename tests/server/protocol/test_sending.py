"""Large answers are sent in pieces, and charged to the body memory."""

from collections.abc import MutableMapping
from typing import Any

import pytest

from fleethook.server.protocol.request_body import BodyBudget, BodyCharge, OverBudgetError
from fleethook.server.protocol.sending import PIECE_BYTES, PacedApp, Reply, send_reply

AT_ONCE = 0.0


async def send_answer(budget: BodyBudget, *sizes: int, sent: list[dict[str, object]] | None = None) -> Any:
    """Return the messages of an answer in parts of these sizes, with the bytes that were charged at each."""
    messages: list[dict[str, object]] = [] if sent is None else sent

    async def app(scope: object, receive: object, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for size in sizes:
            await send({"type": "http.response.body", "body": b"x" * size, "more_body": True})
        await send({"type": "http.response.body"})

    async def send(message: dict[str, object]) -> None:
        messages.append({**message, "held": budget.total})

    await PacedApp(app, budget)({"type": "http"}, None, send)  # type: ignore[arg-type]
    return messages


async def test_a_large_answer_is_sent_in_pieces_and_charged_until_its_end() -> None:
    budget = BodyBudget(10 * PIECE_BYTES)
    start, *pieces, end = await send_answer(budget, 2 * PIECE_BYTES + 1)
    assert start["status"] == 200
    assert [len(piece["body"]) for piece in pieces] == [PIECE_BYTES, PIECE_BYTES, 1]
    assert [piece["more_body"] for piece in (*pieces, end)] == [True, True, True, False]
    assert {piece["held"] for piece in pieces} == {2 * PIECE_BYTES + 1}
    assert budget.total == 0


async def test_a_large_answer_without_room_is_503() -> None:
    budget = BodyBudget(2 * PIECE_BYTES, max_wait=AT_ONCE)
    with BodyCharge(budget, "other") as other:
        await other.add(PIECE_BYTES)
        with BodyCharge(budget, "another") as another:
            await another.add(PIECE_BYTES // 2)
            start, body = await send_answer(budget, PIECE_BYTES + 1)
    assert (start["status"], body["type"]) == (503, "http.response.body")
    assert (b"retry-after", b"1") in start["headers"]


async def test_an_answer_that_has_begun_is_cut_if_there_is_no_room() -> None:
    budget, sent = BodyBudget(2 * PIECE_BYTES, max_wait=AT_ONCE), list[dict[str, object]]()
    with BodyCharge(budget, "other") as other, BodyCharge(budget, "another") as another:
        await other.add(PIECE_BYTES)
        await another.add(PIECE_BYTES // 2)
        with pytest.raises(OverBudgetError):
            await send_answer(budget, 10, PIECE_BYTES + 1, sent=sent)
    # The answer has no end, so the client notices that it is incomplete.
    assert [(message.get("status"), len(message.get("body", b""))) for message in sent] == [(200, 0), (None, 10)]  # type: ignore[arg-type]
    assert sent[-1]["more_body"]


async def test_a_small_answer_is_sent_in_one_piece() -> None:
    budget = BodyBudget(1000)
    start, body, _ = await send_answer(budget, 10)
    assert (start["status"], body["body"], body["held"]) == (200, b"x" * 10, 0)


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
