"""Where an entry is built before anybody can see it, and what happens to what a killed process left there."""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from app.crds.cache.atomic_swap import EntryName
from app.crds.cache.locks import try_exclusive
from app.crds.descriptors import DIRECTORY, DIRECTORY_MODE, NO_DIRECTORY, list_names, open_at, remove
from app.crds.failures import CRDsError


class Staged(NamedTuple):
    """A directory in which an entry is built."""

    location: EntryName
    """Where it is."""
    directory: int
    """Its descriptor."""
    path: Path
    """A path to it that leads over the descriptor, for a download, which takes a path: nobody can put a link there."""


@contextmanager
def create_staging(parent: int, shown: Path) -> Iterator[Staged]:
    """Give an empty directory for as long as the block runs, and remove it afterwards.

    The directory itself is locked meanwhile: that is how `sweep` tells work from leftovers, also among containers,
    whose process ids say nothing to each other.

    Args:
        parent: The open directory to make it in.
        shown: The path of ``parent``, for errors.
    """
    name, descriptor = _make_directory(parent)
    # By process id, and not as /proc/self: so that a child may read the directory.
    over = Path(f"/proc/{os.getpid()}/fd/{descriptor}")
    path = over if over.exists() else shown / name
    try:
        yield Staged(EntryName(parent, name), descriptor, path)
    except CRDsError as error:
        if str(path) not in str(error):
            raise
        # For people, the path by which they know it.
        raise CRDsError(
            error.exit, str(error).replace(str(path), str(shown / name)), transient=error.transient
        ) from error
    finally:
        with suppress(OSError):
            remove(name, parent)
        os.close(descriptor)


def _make_directory(parent: int) -> tuple[str, int]:
    while True:
        name = uuid.uuid4().hex
        os.mkdir(name, DIRECTORY_MODE, dir_fd=parent)
        try:
            descriptor = os.open(name, DIRECTORY, dir_fd=parent)
        except FileNotFoundError:  # a sweep came between
            continue
        if try_exclusive(descriptor) and _is_same_directory(name, parent, descriptor):
            return name, descriptor
        os.close(descriptor)


def _is_same_directory(name: str, parent: int, descriptor: int) -> bool:
    try:
        there = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(there, os.fstat(descriptor))


def sweep(parent: int) -> None:
    """Remove what nobody holds in an open directory; several may do that at once. Links are removed, not followed."""
    for name in list_names(parent):
        with suppress(OSError):
            try:
                with open_at(name, DIRECTORY, parent) as descriptor:
                    if try_exclusive(descriptor):
                        remove(name, parent)
            except OSError as error:
                if error.errno in NO_DIRECTORY:  # nothing of ours is anything else
                    os.unlink(name, dir_fd=parent)
