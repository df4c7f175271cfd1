"""The recordings that ``fleethook replay`` reads, and the selection of their records."""

import io
import os
import signal
import sys
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import BinaryIO

import msgspec
import pytest

from fleethook.cli.replay.replay_input import (
    Selection,
    find_since,
    list_recordings,
    parse_duration,
    parse_time,
    read_interruptibly,
    read_recordings,
)
from fleethook.recordings.reader import Entry, Problem
from fleethook.recordings.recording_format import Record
from tests.recordings.recordings import header, line, write


@pytest.mark.parametrize(
    ("text", "seconds"), [("90m", 5400), ("1h30m", 5400), ("7d", 604800), ("1d2h3m4s", 93784), ("0s", 0)]
)
def test_durations(text: str, seconds: int) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "5", "h", "1m1h", "-1h", "1.5h", "2026-11-22T10:00:00Z", "\u0661h"])
def test_other_texts_are_no_durations(text: str) -> None:
    assert parse_duration(text) is None


def test_times_need_an_offset() -> None:
    assert parse_time("2026-11-22T11:00:00+01:00") == datetime(2026, 11, 22, 10, tzinfo=UTC)
    assert parse_time("2026-11-22T10:00:00.000001Z") == datetime(2026, 11, 22, 10, 0, 0, 1, tzinfo=UTC)
    assert parse_time("2026-11-22T10:00:00") is None
    assert parse_time("yesterday") is None


NOON = "2026-11-22T12:00:00Z"
OLDEST = datetime.min.replace(tzinfo=UTC)


def entry(time: str = NOON, route: str = "/mutate") -> Entry:
    return Entry("f", 1, msgspec.json.decode(line({}, {}, time=time, route=route), type=Record))


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


@pytest.mark.parametrize(
    ("selection", "is_selected"),
    [
        (Selection(), True),
        (Selection(frozenset({"/mutate", "/other"})), True),
        (Selection(frozenset({"/other"})), False),
        (Selection(since=at(NOON)), True),
        (Selection(since=at(NOON) + timedelta(microseconds=1)), False),
        (Selection(frozenset({"/other"}), at(NOON)), False),
    ],
)
def test_records_are_selected_by_route_and_time(selection: Selection, *, is_selected: bool) -> None:
    assert selection.selects(entry()) is is_selected


def test_a_record_without_a_readable_time_is_selected_only_without_a_time() -> None:
    assert Selection().selects(entry(time="yesterday"))
    assert not Selection(since=at(NOON)).selects(entry(time="yesterday"))


def test_a_directory_stands_for_its_recordings_by_name(tmp_path: Path) -> None:
    for name in ("b.jsonl.gz", "a.jsonl", "sub/c.jsonl.gz", "d.jsonl.tmp", "e.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "directory.jsonl").mkdir()
    found = list_recordings([tmp_path, tmp_path / "e.json", Path("-")])
    names = ["a.jsonl", "b.jsonl.gz", "sub/c.jsonl.gz", "e.json"]
    assert found == [*(tmp_path / name for name in names), Path("-")]


@pytest.mark.parametrize(("name", "message"), [("empty", "has no recording"), ("absent", "does not exist")])
def test_a_path_without_a_recording_ends_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, message: str
) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(SystemExit):
        list_recordings([tmp_path / name])
    assert f"{tmp_path / name} {message}" in capsys.readouterr().err


def test_a_file_that_cannot_be_read_is_a_problem_and_the_others_are_read(tmp_path: Path) -> None:
    problems: list[Problem] = []
    files = [tmp_path / "absent.jsonl", tmp_path, write(tmp_path / "a.jsonl.gz", line({}, {}), b"{")]
    found = list(read_recordings(files, problems.append))
    assert [(one.file, one.line) for one in found] == [(str(files[2]), 2)]
    assert [(one.file, one.line) for one in problems] == [(str(files[0]), 1), (str(tmp_path), 1), (str(files[2]), 3)]
    assert problems[0].reason == f"the file cannot be read: {os.strerror(2)}"


def test_standard_input_is_a_recording(monkeypatch: pytest.MonkeyPatch) -> None:
    text = header() + b"\n" + line({}, {}) + b"\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    (found,) = read_recordings([Path("-")], lambda problem: pytest.fail(str(problem)))
    assert (found.file, found.line) == ("<stdin>", 2)


def test_a_duration_ends_at_the_newest_record(tmp_path: Path) -> None:
    times = ("2026-11-22T10:00:00Z", NOON, "no time", "2026-11-22T11:00:00Z")
    files = [write(tmp_path / "a.jsonl", *(line({}, {}, time=time) for time in times))]
    assert find_since("90m", files) == at("2026-11-22T10:30:00Z")
    assert find_since("999999d", files) == OLDEST
    assert find_since("1h", [write(tmp_path / "b.jsonl")]) == OLDEST


def test_a_time_needs_no_recording() -> None:
    assert find_since(None, [Path("-")]) == OLDEST
    assert find_since(NOON, [Path("-")]) == at(NOON)


@pytest.mark.parametrize(("text", "message"), [("soon", "is neither"), ("1h", "standard input cannot be read twice")])
def test_a_time_that_cannot_be_used_ends_the_command(
    capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    with pytest.raises(SystemExit):
        find_since(text, [Path("-")])
    assert message in capsys.readouterr().err


def read_with_signal(stream: BinaryIO) -> bytes:
    """Read a byte, while another thread sends a signal."""
    main = threading.main_thread().ident
    assert main is not None
    threading.Thread(target=signal.pthread_kill, args=(main, signal.SIGUSR1)).start()
    return stream.read(1)


def test_a_signal_ends_a_wait_for_a_pipe() -> None:
    reading, writing = os.pipe()

    def interrupt(*_: object) -> None:
        raise InterruptedError

    former = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with os.fdopen(reading, "rb") as stream, read_interruptibly(stream) as waiting:
            os.write(writing, b"abc")
            assert waiting.read(3) == b"abc"
            with pytest.raises(InterruptedError):
                read_with_signal(waiting)
            os.write(writing, b"d")
            os.close(writing)
            # Nothing of the input is lost.
            assert waiting.read() == b"d"
        assert signal.set_wakeup_fd(-1) == -1
    finally:
        signal.signal(signal.SIGUSR1, former)


def test_a_file_is_read_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    with (tmp_path / "a").open("rb") as stream, read_interruptibly(stream) as same:
        assert same is stream
