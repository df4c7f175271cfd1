"""Shows at a terminal which list of a cluster is being read. On a pipe nothing is shown."""

import contextlib
from collections.abc import Iterator
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from app.model.text import escape


class ListProgress:
    """The progress of reading several lists."""

    def __init__(self, display: Progress, task: TaskID) -> None:
        self._display: Final = display
        self._task: Final = task
        self._name = ""
        self._objects = 0
        self._read = -1

    def start(self, name: str) -> None:
        """Show that the next list is being read: the name of its resource."""
        self._name, self._objects = name, 0
        self._read += 1
        self._update()

    def count(self, objects: int) -> None:
        """Add the objects of a page to the number that is shown."""
        self._objects += objects
        self._update()

    def _update(self) -> None:
        text = f"Reading {escape(self._name)}: {self._objects:,} objects"
        self._display.update(self._task, description=text, completed=self._read, refresh=True)


@contextlib.contextmanager
def show_lists(lists: int, *, console: Console | None = None) -> Iterator[ListProgress]:
    """Show the progress of so many lists during the block, on standard error by default, if that is a terminal."""
    console = console or Console(stderr=True)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        yield ListProgress(progress, progress.add_task("Connecting", total=lists))
