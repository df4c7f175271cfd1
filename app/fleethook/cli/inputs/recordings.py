"""The recordings that commands read: files, directories and standard input."""

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from fleethook.cli.exit_codes import fail
from fleethook.recordings.recording_format import FILE_SUFFIX, RecordEntry, RecordProblem, read_entries

_STANDARD_INPUT: Final = Path("-")
_SUFFIXES: Final = (FILE_SUFFIX, ".jsonl")
TakeProblem = Callable[[RecordProblem], None]
"""Takes a problem of the input."""


def list_recordings(paths: Sequence[Path]) -> list[Path]:
    """Return files, and the recordings of directories by name, which is by time for each server.

    Exits with a message if a path does not exist, or if a directory has no recording.
    """
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = sorted(one for one in path.rglob("*.jsonl*") if one.name.endswith(_SUFFIXES) and one.is_file())
            if not inside:
                fail(f"{path} has no recording (*{FILE_SUFFIX} or *.jsonl)")
            found += inside
        elif path != _STANDARD_INPUT and not path.exists():
            fail(f"{path} does not exist")
        else:
            found.append(path)
    return found


def read_recordings(files: Sequence[Path], report: TakeProblem) -> Iterator[RecordEntry]:
    """Yield the records of files; problems go to ``report``."""
    for file in files:
        with contextlib.ExitStack() as stack:
            try:
                is_input = file == _STANDARD_INPUT
                stream = sys.stdin.buffer if is_input else stack.enter_context(file.open("rb"))
            except OSError as error:
                report(RecordProblem(str(file), 1, f"the file cannot be read: {error.strerror}"))
                continue
            for one in read_entries(stream, "<stdin>" if is_input else str(file)):
                if isinstance(one, RecordProblem):
                    report(one)
                else:
                    yield one
