"""A child process that handles requests; the module below runs in it."""

import io
import os
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from fleethook.work.child_process import ChildProcess, answer_questions, read_frame, write_frame


def handle(request: bytes) -> bytes:
    match request:
        case b"pid":
            return str(os.getpid()).encode()
        case b"exit":
            os._exit(3)
        case b"print":
            os.write(1, b"output of a library")
            return b"printed"
        case b"sleep":
            time.sleep(600)
            return b""
        case _:
            return request[::-1]


@pytest.fixture
def child() -> Iterator[ChildProcess]:
    made = ChildProcess(__name__)
    yield made
    made.stop()


def test_requests_are_answered_by_one_process(child: ChildProcess) -> None:
    assert [child.ask(request) for request in (b"abc", b"", bytes(100_000))] == [b"cba", b"", bytes(100_000)]
    first = child.ask(b"pid")
    assert first == child.ask(b"pid") != str(os.getpid()).encode()


def test_output_of_libraries_is_no_response(child: ChildProcess) -> None:
    assert child.ask(b"print") == b"printed"
    assert child.ask(b"ab") == b"ba"


def test_a_request_that_ends_the_process_twice_has_no_response(child: ChildProcess) -> None:
    assert child.ask(b"exit") is None
    assert child.ask(b"ab") == b"ba"


def test_a_process_that_was_killed_is_replaced(child: ChildProcess) -> None:
    first = child.ask(b"pid")
    assert first is not None
    os.kill(int(first), 9)
    second = child.ask(b"pid")
    assert second is not None
    assert second != first


def test_stop_ends_a_request_without_a_response(child: ChildProcess) -> None:
    first = child.ask(b"pid")
    answers: list[bytes | None] = []
    asking = threading.Thread(target=lambda: answers.append(child.ask(b"sleep")), daemon=True)
    asking.start()
    # A stop before the request has no effect on it: a new process handles it.
    while asking.is_alive():
        child.stop()
        asking.join(0.1)
    assert answers == [None]
    assert child.ask(b"pid") != first


def test_a_module_that_cannot_run_has_no_response() -> None:
    assert ChildProcess("tests.control.no_such_module").ask(b"x") is None


@pytest.mark.parametrize("stream", [b"", b"\0\0\0", b"\0\0\0\3ab"])
def test_a_truncated_frame_is_the_end_of_the_stream(stream: bytes) -> None:
    assert read_frame(io.BytesIO(stream)) is None


def test_frames_are_read_as_they_were_written() -> None:
    stream = io.BytesIO()
    for content in (b"a", b"", b"\n\0"):
        write_frame(stream, content)
    stream.seek(0)
    assert [read_frame(stream) for _ in range(4)] == [b"a", b"", b"\n\0", None]


if __name__ == "__main__":
    answer_questions(handle)
    sys.exit(0)
