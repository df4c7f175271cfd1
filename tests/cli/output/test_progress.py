"""Progress on standard error: a line at a terminal, lines in a log, or nothing."""

import contextlib
import io
import sys
from pathlib import Path

import pytest

from fleethook.cli.output import progress
from fleethook.cli.output.progress import Style, show_download, show_files, show_lists

READS = 64
"""Parts of a file after which the display changes."""


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    return Terminal()


def read_lists(stream: io.StringIO | None = None) -> None:
    with contextlib.redirect_stderr(stream or sys.stderr), show_lists(2) as shown:
        shown.start("nodepools.apps.openyurt.io")
        shown.count(500)
        shown.count(700)
        shown.start("yurtappsets.apps.openyurt.io")


def test_a_terminal_shows_the_list_and_its_objects(terminal: Terminal) -> None:
    read_lists(terminal)
    text = terminal.getvalue()
    assert "0/2 Reading nodepools.apps.openyurt.io: 1,200 objects" in text
    assert "1/2 Reading yurtappsets.apps.openyurt.io: 0 objects" in text
    assert text.endswith("\r\x1b[K")


def read_files(*files: Path, stream: io.StringIO | None = None, hidden: bool = False) -> None:
    """Read a half of each file."""
    parts = 0
    with (
        contextlib.redirect_stderr(stream or sys.stderr),
        show_files(files, lambda: f"{parts} parts\x1b[31m", hidden=hidden) as shown,
    ):
        for _ in files:
            shown.start()
            half = io.BytesIO(bytes(100))
            half.seek(50)
            for _ in range(READS):
                parts += 1
                shown.advance(half)


def make_files(directory: Path) -> list[Path]:
    files = [directory / name for name in ("a", "b")]
    for file in files:
        file.write_bytes(bytes(100))
    return files


def test_a_terminal_shows_the_share_of_all_files(terminal: Terminal, tmp_path: Path) -> None:
    read_files(*make_files(tmp_path), stream=terminal)
    assert " 75% 128 parts" in terminal.getvalue()
    assert "\x1b[31m" not in terminal.getvalue()


def test_the_share_of_a_pipe_is_unknown(terminal: Terminal, tmp_path: Path) -> None:
    read_files(*make_files(tmp_path), Path("-"), stream=terminal)
    assert "192 parts" in terminal.getvalue()
    assert "%" not in terminal.getvalue()


def test_a_terminal_shows_the_share_of_a_download(terminal: Terminal) -> None:
    with contextlib.redirect_stderr(terminal), show_download(Style.AUTO, "crds\x1b[31m") as report:
        assert report is not None
        report(1 << 20, 2 << 20)
        report(3 << 19, None)
    assert " 50% 1.0 MiB crds\\x1b[31m" in terminal.getvalue()
    assert "\r1.5 MiB crds" in terminal.getvalue()


def test_a_line_fits_into_the_terminal(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    read_lists(terminal)
    assert all(len(one.removesuffix("\x1b[K")) < 20 for one in terminal.getvalue().split("\r"))


def test_nothing_is_shown_without_a_terminal(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    read_lists()
    read_files(*make_files(tmp_path))
    for style in (Style.NONE, Style.AUTO):
        with show_download(style, "https://example.org/crds.tar.gz") as report:
            assert report is None
    assert capsys.readouterr().err == ""


def test_a_hidden_display_shows_nothing_at_a_terminal(terminal: Terminal, tmp_path: Path) -> None:
    read_files(*make_files(tmp_path), stream=terminal, hidden=True)
    with contextlib.redirect_stderr(terminal), show_download(Style.NONE, "crds") as report:
        assert report is None
    assert terminal.getvalue() == ""


def test_a_log_has_a_line_a_second_and_one_at_the_end(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    with show_download(Style.PLAIN, "crds") as report:
        assert report is not None
        report(1000, 5000)
        report(2000, 5000)
        now += 1.0
        report(3000, 5000)
        report(4000, None)
        report(5000, 5000)
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition("crds: ")[2] for line in lines] == [
        "1,000 of 5,000 bytes", "3,000 of 5,000 bytes", "5,000 of 5,000 bytes",
    ]  # fmt: skip
