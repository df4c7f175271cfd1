"""The lines of the log: their time, encoding, limits and order."""

import asyncio
import json
import logging
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleethook.model.admission import AdmissionRequest, denied, patched
from fleethook.model.formats.text import is_inert
from fleethook.server.log import (
    MAX_LINE_BYTES,
    MAX_LOGGED,
    JSONFormatter,
    Line,
    LinesHandler,
    LogLines,
    encode_line,
    format_line,
    format_time,
    make_admission_line,
)
from fleethook.server.reviews import review_codec
from fleethook.server.reviews.admission_endpoint import find_cluster
from tests.model.formats.test_text import HOSTILE
from tests.serving import EXAMPLES, ROOT
from tests.waiting import NET


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "1970-01-01T00:00:00.000+00:00"),
        (1_795_903_502.25, "2026-11-28T22:05:02.250+00:00"),
        (1_795_903_502.007, "2026-11-28T22:05:02.007+00:00"),
        (1_795_903_503.9996, "2026-11-28T22:05:03.999+00:00"),
        (1_795_903_502.0625, "2026-11-28T22:05:02.062+00:00"),
    ],
)
def test_the_time_is_in_utc_with_milliseconds(seconds: float, text: str) -> None:
    assert format_time(seconds) == text


FIELDS = st.dictionaries(st.text(), st.none() | st.integers() | HOSTILE | st.lists(HOSTILE), max_size=8)


@given(FIELDS)
def test_a_line_escapes_control_characters_and_keeps_the_values(fields: dict[str, Any]) -> None:
    line = encode_line(fields)
    assert line.endswith(b"\n")
    assert is_inert(line.decode()[:-1])
    assert json.loads(line) == fields


@pytest.mark.parametrize(
    "fields",
    [
        {"msg": "review", "uid": "u" * 1_000_000},
        {"msg": "review", "uid": "\u202e" * 1_000_000},
        {"msg": "review", "hooks": ["h" * 100] * 100_000},
        {"msg": "review", "answers": [{"x" * 9_000: "\x1b" * 9_000}] * 1_000},
        {"msg": "\x1b" * 20_000, **{f"{number}": "x" * 1_000 for number in range(1_000)}},
    ],
)
def test_a_long_line_is_cut_and_marked(fields: dict[str, Any]) -> None:
    line = encode_line(fields)
    assert len(line) <= MAX_LINE_BYTES
    found = json.loads(line)
    assert found["cut"] is True
    assert found["msg"][:6] == fields["msg"][:6]


def test_a_cut_string_states_the_number_of_omitted_characters() -> None:
    found = json.loads(encode_line({"uid": "u" * 1_000_000, "route": "/r"}))
    assert found == {"uid": "u" * 4096 + "… (995904 characters left out)", "route": "/r", "cut": True}


def test_a_record_of_the_standard_library_is_one_line_of_limited_length() -> None:
    record = logging.LogRecord("uvicorn", logging.INFO, "", 0, "%s", ("\x1b[2J\u2028" + "x" * 100_000,), None)
    line = JSONFormatter().format(record)
    assert is_inert(line)
    assert len(line.encode()) < MAX_LINE_BYTES


def test_the_end_of_a_traceback_is_kept() -> None:
    error = ValueError("x" * 10_000 + " the end")
    record = logging.LogRecord("app", logging.ERROR, "", 0, "failed", (), (ValueError, error, None))
    assert json.loads(JSONFormatter().format(record))["exception"].endswith(" the end")


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


REVIEW = {
    "msg": "review", "route": "/mutate-apps-v1-deployment", "requestId": "r", "uid": "u", "allowed": True, "patchOps": 4, "ms": 0.533,
    "cluster": "", "gvk": "apps/v1/Deployment", "namespace": "shop", "name": "web", "operation": "CREATE",
}  # fmt: skip
ANSWER = {
    "msg": "interpret", "route": "/explore", "uid": "u", "successful": True, "gvk": "example.com/v1/Game", "operation": "Retain",
    "layer": "lua", "namespace": "games", "name": "arena", "requestId": "r", "ms": 12.3,
}  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        (
            {"level": "warning", "logger": "fleethook.x", "msg": "a.yaml:3: no such pool", "file": "a.yaml", "line": 3, "code": "unknown"},
            "warning a.yaml:3: no such pool code=unknown",
        ),
        (REVIEW, "info    CREATE Deployment shop/web: allowed, 4 changes (/mutate-apps-v1-deployment, 0.5 ms)"),
        (
            {**REVIEW, "allowed": False, "patchOps": 0, "cluster": "ws1", "message": "label owner is missing", "owner": "ws2"},
            "info    CREATE Deployment shop/web in ws1: refused, label owner is missing (/mutate-apps-v1-deployment, 0.5 ms) owner=ws2",
        ),
        (ANSWER, "info    Retain Game games/arena: answered by lua (/explore, 12.3 ms)"),
        ({"msg": "forged\n17:05:02 info \x1b[2J"}, "info    forged\\n17:05:02 info \\x1b[2J"),
        ({"level": "error", "msg": "failed", "exception": "Traceback:\nValueError: \x1b"}, "error   failed\n  Traceback:\n  ValueError: \\x1b"),
    ],
)  # fmt: skip
def test_a_line_tells_a_person_what_happened(
    monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any], text: str
) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    line = encode_line({"ts": "2026-11-28T16:05:02.250+00:00", "level": "info", **fields})
    assert format_line(line).decode() == f"17:05:02 {text}\n"
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("chosen", "redirects", "first"),
    [
        ("auto", False, r"\d\d:\d\d:\d\d info    Started server process"),
        ("auto", True, r'\{"ts":'),
        ("json", False, r'\{"ts":'),
    ],
)
def test_the_log_is_text_on_a_terminal(tmp_path: Path, chosen: str, redirects: bool, first: str) -> None:
    master, slave = os.openpty()
    command = [sys.executable, "-m", "fleethook", "serve", "--manifests", str(EXAMPLES / "retention")]
    command += ["--cert-dir", str(tmp_path), "--port", "0"]
    with subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL if redirects else slave,
        stderr=slave,
        cwd=ROOT,
        env={**os.environ, "FLEETHOOK_LOG_FORMAT": chosen},
    ) as process:
        found = b""
        while b"process [" not in found:
            found += os.read(master, 4096)
        process.terminate()
        process.wait(NET)
    os.close(master)
    os.close(slave)
    assert re.search(rf"^{first}", found.decode(), re.MULTILINE), found


KIND = {"group": "apps", "version": "v1", "kind": "Deployment"}


def encode_kind(kind: str, version: str, request: Any) -> bytes:
    return json.dumps({"apiVersion": version, "kind": kind, "request": request}).encode()


def admission(**request: Any) -> review_codec.Decoded:
    given = {"uid": "u-1", "operation": "CREATE", "namespace": "shop", "kind": KIND, **request}
    return review_codec.decode_review(encode_kind("AdmissionReview", "admission.k8s.io/v1", given))


def request_of(decoded: review_codec.Decoded) -> AdmissionRequest:
    assert decoded.request is not None
    return decoded.request


def members(line: Line) -> dict[str, Any]:
    """Return the members of a line but those that are the same in all tests."""
    found = json.loads(encode_line(line))
    assert found.pop("ts")
    assert found.pop("level") == "info"
    return dict(found)


def line_of(review: review_codec.Decoded, response: Any = None) -> dict[str, Any]:
    answer = patched([{"op": "remove", "path": "/a"}]) if response is None else response
    return members(make_admission_line("/r", review, answer, seconds=0.0012345, request_id="r-1"))


ANSWERED = {
    "msg": "review",
    "route": "/r",
    "requestId": "r-1",
    "uid": "u-1",
    "allowed": True,
    "patchOps": 1,
    "ms": 1.234,
}
ASKED = {"gvk": "apps/v1/Deployment", "namespace": "shop", "operation": "CREATE"}


def test_a_line_names_the_object_under_review() -> None:
    metadata = {"name": "web", "annotations": {"kcp.io/cluster": "root:a"}}
    review = admission(name="web", object={"metadata": metadata})
    assert request_of(review).object  # as a handler decodes it
    assert line_of(review) == {**ANSWERED, **ASKED, "name": "web", "cluster": "root:a"}


def test_a_line_decodes_no_object_that_the_handler_has_not_decoded() -> None:
    review = admission(name="web", object={"metadata": {"annotations": {"kcp.io/cluster": "root:a"}}})
    assert line_of(review) == {**ANSWERED, **ASKED, "name": "web", "cluster": ""}
    assert "object" not in request_of(review).__dict__


@pytest.mark.parametrize(("generated", "name"), [("web-", "web-"), (7, "")])
def test_a_line_about_an_object_without_a_name_has_its_prefix(generated: Any, name: str) -> None:
    review = admission(object={"metadata": {"generateName": generated}})
    assert request_of(review).object
    assert line_of(review)["name"] == name


@pytest.mark.parametrize(("operation", "cluster"), [("DELETE", "root:old"), ("UPDATE", "")])
def test_the_old_object_names_the_cluster_only_of_a_deletion(operation: str, cluster: str) -> None:
    review = admission(operation=operation, oldObject={"metadata": {"annotations": {"kcp.io/cluster": "root:old"}}})
    request = request_of(review)
    assert request.old_object
    assert find_cluster(request) == cluster
    assert line_of(review)["cluster"] == cluster


def test_a_line_about_an_unreadable_review_has_its_uid_and_the_reason() -> None:
    review = admission(operation=3)
    assert review.request is None
    assert find_cluster(None) == ""
    line = line_of(review, denied("it cannot be read"))
    assert line == {**ANSWERED, "allowed": False, "patchOps": 0, "message": "it cannot be read"}


def test_long_texts_of_a_client_are_cut() -> None:
    long = "x" * 1024
    line = line_of(admission(name=long, namespace=long, kind={**KIND, "kind": long}), denied(long))
    cut = {name for name, value in line.items() if str(value).endswith(f"… ({1024 - MAX_LOGGED} characters left out)")}
    assert cut == {"name", "message"}
    assert max(len(str(value)) for value in line.values()) < 3 * 1024, "decoding limits the others"
