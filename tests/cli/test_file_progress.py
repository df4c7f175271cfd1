"""The progress of reading files."""

import io
from pathlib import Path

from rich.console import Console

from app.cli.file_progress import show_files

READS = 64
"""Parts of a file after which the display changes."""


def show(*files: Path, terminal: bool, hidden: bool = False) -> str:
    """Return the output of reading a half of the last file."""
    stream, parts = io.StringIO(), 0
    console = Console(file=stream, force_terminal=terminal, width=120, color_system=None)
    with show_files(files, lambda: f"{parts} parts\x1b[31m", hidden=hidden, console=console) as progress:
        for _ in files:
            progress.start()
            half = io.BytesIO(bytes(100))
            half.seek(50)
            for _ in range(READS):
                parts += 1
                progress.advance(half)
    return stream.getvalue()


def make_files(directory: Path) -> list[Path]:
    files = [directory / name for name in ("a", "b")]
    for file in files:
        file.write_bytes(bytes(100))
    return files


def test_a_terminal_shows_the_share_of_all_files(tmp_path: Path) -> None:
    text = show(*make_files(tmp_path), terminal=True)
    assert "128 parts" in text
    assert " 75%" in text


def test_a_description_cannot_control_the_terminal(tmp_path: Path) -> None:
    assert "\x1b[31m" not in show(*make_files(tmp_path), terminal=True)


def test_the_share_of_a_pipe_is_unknown(tmp_path: Path) -> None:
    text = show(*make_files(tmp_path), Path("-"), terminal=True)
    assert "192 parts" in text
    assert "%" not in text


def test_a_file_gets_nothing(tmp_path: Path) -> None:
    assert show(*make_files(tmp_path), terminal=False) == ""
    assert show(*make_files(tmp_path), terminal=True, hidden=True) == ""
