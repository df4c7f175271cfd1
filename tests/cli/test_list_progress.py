"""The progress of reading lists."""

import io

from rich.console import Console

from app.cli.list_progress import show_lists


def show(*, terminal: bool) -> str:
    """Return the output of reading two lists."""
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=terminal, width=120, color_system=None)
    with show_lists(2, console=console) as progress:
        progress.start("nodepools.apps.openyurt.io")
        progress.count(500)
        progress.count(700)
        progress.start("yurtappsets.apps.openyurt.io")
    return stream.getvalue()


def test_a_terminal_shows_the_list_and_its_objects() -> None:
    text = show(terminal=True)
    assert "Reading nodepools.apps.openyurt.io: 1,200 objects" in text
    assert "0/2" in text
    assert "Reading yurtappsets.apps.openyurt.io: 0 objects" in text
    assert "1/2" in text


def test_a_pipe_gets_nothing() -> None:
    assert show(terminal=False) == ""
