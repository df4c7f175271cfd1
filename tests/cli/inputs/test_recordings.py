"""The recordings of commands: files, directories and standard input."""

import io
import os
import sys
from pathlib import Path

import pytest

from fleethook.cli.inputs.recordings import list_recordings, read_recordings
from fleethook.recordings.recording_format import RecordProblem
from tests.recordings.recordings import header, line, write


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
    problems: list[RecordProblem] = []
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
