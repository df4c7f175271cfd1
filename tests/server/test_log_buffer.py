"""Log lines are written together, and none is lost."""

import asyncio
import logging
import os
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from fleethook.server.log_buffer import LinesHandler, LogLines
from tests.waiting import NET


class Stream:
    """A descriptor that keeps writes apart, so that they can be counted."""

    def __init__(self) -> None:
        self.reader, self._writer = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.reader.setblocking(False)
        self._writer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        self.descriptor = self._writer.fileno()

    async def next_write(self) -> bytes:
        async with asyncio.timeout(NET):
            return await asyncio.get_running_loop().sock_recv(self.reader, 1 << 20)

    def written(self) -> list[bytes]:
        found = []
        while True:
            try:
                found.append(self.reader.recv(1 << 20))
            except BlockingIOError:
                return found

    def close(self) -> None:
        self.reader.close()
        self._writer.close()


@pytest.fixture
def stream() -> Iterator[Stream]:
    made = Stream()
    yield made
    made.close()


async def test_lines_are_written_together(stream: Stream) -> None:
    lines = LogLines(stream.descriptor)
    for number in range(100):
        lines.write(b"%d\n" % number)
    assert stream.written() == []
    assert await stream.next_write() == b"".join(b"%d\n" % number for number in range(100))
    lines.write(b"later\n")
    assert await stream.next_write() == b"later\n"


async def test_64_kib_are_written_at_once(stream: Stream) -> None:
    lines, line = LogLines(stream.descriptor), b"x" * 1023 + b"\n"
    for _ in range(64):
        assert stream.written() == []
        lines.write(line)
    assert stream.written() == [line * 64]


class Timers:
    """The timers of the running event loop, which a test ends."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pending: list[tuple[float, Callable[[], None]]] = []
        monkeypatch.setattr(asyncio.get_running_loop(), "call_later", self._add)

    def _add(self, seconds: float, function: Callable[[], None]) -> None:
        self.pending.append((seconds, function))

    def end(self) -> None:
        """End the only timer."""
        ((seconds, function),) = self.pending
        assert seconds == 0.05
        self.pending.clear()
        function()


async def test_timers_cause_one_write_in_50_ms(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    lines, timers = LogLines(stream.descriptor), Timers(monkeypatch)
    lines.write(b"1\n")
    lines.write(b"2\n")
    timers.end()
    assert stream.written() == [b"1\n2\n"]
    lines.write(b"3\n")
    lines.write_at_once(b"a record\n")
    # The timer goes on; a second one would end less than 50 ms after it.
    lines.write(b"4\n")
    timers.end()
    assert stream.written() == [b"3\na record\n", b"4\n"]
    lines.write(b"5\n")
    lines.write(b"x" * 64 * 1024)
    lines.write(b"6\n")
    timers.end()
    assert stream.written() == [b"5\n" + b"x" * 64 * 1024, b"6\n"]
    lines.write(b"7\n")
    lines.flush()
    timers.end()
    assert stream.written() == [b"7\n"]
    lines.write(b"8\n")
    timers.end()
    assert stream.written() == [b"8\n"]


@pytest.mark.parametrize("error", [None, ValueError(), SystemExit(1), KeyboardInterrupt()])
def test_lines_that_wait_are_written_at_the_end(stream: Stream, error: BaseException | None) -> None:
    async def serve(lines: LogLines) -> None:
        lines.write(b"waits\n")
        if error is not None:
            raise error

    def run() -> None:
        with LogLines(stream.descriptor) as lines:
            asyncio.run(serve(lines))

    if error is None:
        run()
    else:
        with pytest.raises(type(error)):
            run()
    assert stream.written() == [b"waits\n"]


async def test_a_record_is_written_at_once_after_the_lines_before_it(stream: Stream) -> None:
    lines = LogLines(stream.descriptor)
    logger = logging.Logger("test")  # noqa: LOG001 - no other test is to see its handler
    logger.addHandler(LinesHandler(lines))
    lines.write(b"before\n")
    thread = threading.Thread(target=logger.error, args=("a record",))
    thread.start()
    thread.join()
    assert stream.written() == [b"before\na record\n"]


async def test_a_full_pipe_that_does_not_block_loses_nothing() -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    given = b"x" * 99 + b"\n"
    received: list[bytes] = []

    def read() -> None:
        with os.fdopen(reader, "rb") as stream:
            received.extend(stream)

    lines = LogLines(writer)
    thread = threading.Thread(target=read)
    for number in range(5000):
        if number == 2000:
            # The lines exceed the size of the pipe, and no process has read any of them.
            thread.start()
        if number < 600 or number >= 2000:
            lines.write(given)
    lines.flush()
    os.close(writer)
    thread.join()
    assert received == [given] * 3600


def test_writing_goes_on_without_a_reader() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    lines = LogLines(writer)
    lines.write_at_once(b"nobody reads this\n")
    os.close(writer)
