"""What of an answer is written when; slow and hostile clients are in tests/faults/test_hostile_clients.py."""

import asyncio
from typing import Any

import pytest

from app.api.protocol import HeadWithBody

HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n"


class Transport:
    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.ended = ""

    def write(self, data: bytes) -> None:
        assert not self.ended
        self.written.append(data)

    def close(self) -> None:
        self.ended = "closed"

    def abort(self) -> None:
        self.ended = "aborted"

    def is_closing(self) -> bool:
        return bool(self.ended)

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


@pytest.fixture
def transport() -> Transport:
    return Transport()


@pytest.fixture
async def joined(transport: Transport) -> HeadWithBody:
    return HeadWithBody(transport, asyncio.get_running_loop())  # type: ignore[arg-type]


async def test_a_head_goes_with_its_body(transport: Transport, joined: HeadWithBody) -> None:
    joined.write(HEAD)
    assert transport.written == []
    joined.write(b"{}")
    joined.write(HEAD)
    joined.write(b"[]")
    assert transport.written == [HEAD + b"{}", HEAD + b"[]"]
    await asyncio.sleep(0)
    assert len(transport.written) == 2


async def test_a_head_without_a_body_waits_for_a_turn_of_the_loop_only(
    transport: Transport, joined: HeadWithBody
) -> None:
    joined.write(HEAD)
    await asyncio.sleep(0)
    assert transport.written == [HEAD]
    joined.write(b"{}")
    assert transport.written == [HEAD, b"{}"]


async def test_what_is_no_head_of_a_last_answer_is_written_at_once(transport: Transport, joined: HeadWithBody) -> None:
    for data in (b"HTTP/1.1 100 Continue\r\n\r\n", b"chunk\r\n\r\n", HEAD + b"{}", b""):
        joined.write(data)
    assert transport.written == [b"HTTP/1.1 100 Continue\r\n\r\n", b"chunk\r\n\r\n", HEAD + b"{}", b""]


async def test_nothing_is_lost_by_closing_and_nothing_written_after_an_abort(
    transport: Transport, joined: HeadWithBody
) -> None:
    joined.write(HEAD)
    joined.close()
    assert (transport.written, transport.ended) == ([HEAD], "closed")
    other = Transport()
    aborted = HeadWithBody(other, asyncio.get_running_loop())  # type: ignore[arg-type]
    aborted.write(HEAD)
    aborted.abort()
    await asyncio.sleep(0)
    assert (other.written, other.ended) == ([], "aborted")
