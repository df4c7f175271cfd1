"""Where an entry is built before anybody can see it, and what happens to what a killed process left there."""

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from app.crds.cache.locks import try_exclusive

_DIRECTORY_MODE: Final = 0o700
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def staging(parent: Path) -> Iterator[Path]:
    """Give an empty directory below ``parent`` for as long as the block runs; what is left in it then goes.

    The directory itself is locked meanwhile: that is how `sweep` tells work from leftovers, also among containers,
    whose process ids say nothing to each other.
    """
    path, descriptor = _made(parent)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(descriptor)


def _made(parent: Path) -> tuple[Path, int]:
    while True:
        path = parent / uuid.uuid4().hex
        path.mkdir(_DIRECTORY_MODE)
        try:
            descriptor = os.open(path, _DIRECTORY)
        except FileNotFoundError:  # a sweep came between
            continue
        if try_exclusive(descriptor) and path.exists():
            return path, descriptor
        os.close(descriptor)


def sweep(parent: Path) -> None:
    """Remove what nobody holds below ``parent``; several may do that at once."""
    for path in _below(parent):
        try:
            descriptor = os.open(path, _DIRECTORY)
        except OSError:
            path.unlink(missing_ok=True)  # no directory: nothing of ours is one
            continue
        try:
            if try_exclusive(descriptor):
                shutil.rmtree(path, ignore_errors=True)
        finally:
            os.close(descriptor)


def _below(parent: Path) -> list[Path]:
    try:
        return list(parent.iterdir())
    except FileNotFoundError:
        return []


def flush_names(directory: Path) -> None:
    """Have the disk know the names in a directory."""
    descriptor = os.open(directory, _DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
