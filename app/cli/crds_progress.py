"""Shows the progress of a download, as a bar at a terminal or as lines in a log."""

import contextlib
import enum
import time
from collections.abc import Callable, Iterator
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from app.cli.terminal import write_error
from app.model.text import escape

Report = Callable[[int, int | None], None]
"""Called with the number of received bytes, and the expected total or None."""

# At most one line per second, to keep logs short.
_LINE_SECONDS: Final = 1.0


class Style(enum.StrEnum):
    """Style of the progress display."""

    AUTO = "auto"
    """A bar at a terminal, else no display."""
    PLAIN = "plain"
    NONE = "none"


@contextlib.contextmanager
def display_progress(style: Style, what: str) -> Iterator[Report | None]:
    """Show progress on standard error during the block; yields None without a display."""
    console = Console(stderr=True)
    if style is Style.NONE or (style is Style.AUTO and not console.is_terminal):
        yield None
    elif style is Style.PLAIN:
        yield _report_lines(what)
    else:
        columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TransferSpeedColumn())
        with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as progress:
            task = progress.add_task(escape(what), total=None)
            yield lambda done, total: progress.update(task, completed=done, total=total)


def _report_lines(what: str) -> Report:
    printed = 0.0

    def report(done: int, total: int | None) -> None:
        nonlocal printed
        now = time.monotonic()
        if now - printed >= _LINE_SECONDS or done == total:
            printed = now
            of = "" if total is None else f" of {total:,}"
            write_error(f"{what}: {done:,}{of} bytes")

    return report
