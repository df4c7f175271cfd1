"""Shows at a terminal how much of several files has been read. On a pipe nothing is shown."""

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeRemainingColumn

from app.model.text import escape

_PARTS_PER_UPDATE: Final = 64
"""An update takes as long as a review, and a terminal shows ten in a second."""


class FileProgress:
    """The progress of reading several files in their order."""

    def __init__(self, display: Progress, task: TaskID, sizes: Sequence[int], describe: Callable[[], str]) -> None:
        """Prepare; ``sizes`` are the bytes of all files, or none if one of them is unknown."""
        self._display: Final = display
        self._task: Final = task
        self._starts: Final = iter([0, *itertools.accumulate(sizes)] if sizes else itertools.repeat(0))
        self._is_known: Final = bool(sizes)
        self._start = 0
        self._parts = 0
        self._describe: Final = describe

    def start(self) -> None:
        """Note that the next file is being read."""
        self._start = next(self._starts)

    def advance(self, stream: BinaryIO) -> None:
        """Note that a part of a file was read, by the position of its stream."""
        self._parts += 1
        if not self._display.disable and self._parts % _PARTS_PER_UPDATE == 0:
            position = self._start + stream.tell() if self._is_known else None
            self._display.update(self._task, completed=position, description=escape(self._describe()))


@contextlib.contextmanager
def show_files(
    files: Sequence[Path], describe: Callable[[], str], *, hidden: bool = False, console: Console | None = None
) -> Iterator[FileProgress]:
    """Show the progress of reading files during the block, on standard error by default, if that is a terminal.

    Args:
        files: The files. If one is none, as a pipe, the share is not shown.
        describe: Returns the description; called for each update.
        hidden: Whether to show nothing at a terminal either.
        console: The terminal.
    """
    console = console or Console(stderr=True)
    sizes = [one.stat().st_size for one in files] if all(one.is_file() for one in files) else []
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    # Redirecting would write the results, which may go to a file, to standard error.
    display = Progress(
        *columns, console=console, transient=True, disable=hidden or not console.is_terminal,
        redirect_stdout=False, redirect_stderr=False,
    )  # fmt: skip
    with display as progress:
        task = progress.add_task(escape(describe()), total=sum(sizes) or None)
        yield FileProgress(progress, task, sizes, describe)
