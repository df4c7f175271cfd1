"""The directories of the cache: where an entry is, who may have it, and how one takes the place of another.

Each operation opens the cache's directory once, and all below it relative to that descriptor, without following links.

Two locks for each key: who brings an entry in holds the first one, so that one asks the origin and the others wait; who
reads an entry shares the second one, which is taken alone for as long as the entry changes places, and not while the
network is waited for.
"""

import os
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

from app.crds.cache.atomic_swap import EntryName, exchange
from app.crds.cache.locks import Lock, lock_exclusive, lock_shared
from app.crds.cache.permissions import is_key, open_directory, open_entry, translate_os_errors
from app.crds.cache.staging import Staged, create_staging, sweep
from app.crds.descriptors import DIRECTORY_MODE, exists, list_names
from app.crds.failures import CRDsError, Exit

LOCK_SECONDS: Final = 300.0
"""As long as a download may take (research 6.3)."""
_LOCKS: Final = ".locks"
_STAGING: Final = ".staging"
_TRASH: Final = ".trash"


class Layout:
    """``<root>/cache``: an entry's directory for each key, and ``.locks``, ``.staging`` and ``.trash`` beside them."""

    def __init__(self, root: Path) -> None:
        """Prepare; nothing is made on disk before something is to be written."""
        self.directory: Final = root / "cache"

    def path(self, key: str) -> Path:
        """Return where the entry is or would be; raises CRDsError USAGE for what is no key."""
        if not is_key(key):
            raise CRDsError(Exit.USAGE, f"{key!r} is no key of the cache: it is 64 hexadecimal digits")
        return self.directory / key

    def keys(self) -> list[str]:
        """Return the names that are in the place of an entry, in order; raises CRDsError DISK."""
        with translate_os_errors("listing the cache"), self._open_root() as root:
            return [] if root is None else sorted(filter(is_key, list_names(root)))

    def exists(self, key: str) -> bool:
        """Tell whether there is a file of any type in the place of an entry; raises CRDsError DISK."""
        name = self.path(key).name
        with translate_os_errors("looking at the cache"), self._open_root() as root:
            return root is not None and exists(name, root)

    @contextmanager
    def open_entry_directory(self, key: str) -> Iterator[int | None]:
        """Open the directory of an entry for as long as the block runs; None if there is none.

        So of an entry that is replaced meanwhile one state is seen, and not a mixture.

        Raises:
            CRDsError: DISK for a directory that is refused (`open_entry`) or cannot be opened.
        """
        path = self.path(key)
        with ExitStack() as held:
            with translate_os_errors("looking at the cache"):
                root = held.enter_context(self._open_root())
            entry = None if root is None else open_entry(path, root)
            if entry is not None:
                held.callback(os.close, entry)
            yield entry

    @contextmanager
    def lock(self, key: str, seconds: float = LOCK_SECONDS) -> Iterator[None]:
        """Be the only one who brings this entry in; raises CRDsError LOCKED (with who does) or DISK."""
        with ExitStack() as held:
            with translate_os_errors("locking the cache"):
                root = held.enter_context(self._open_ensured())
                held.enter_context(lock_exclusive(self._open_lock(held, root, key, ".fetch.lock"), seconds=seconds))
            yield

    @contextmanager
    def reading(self, key: str, seconds: float = LOCK_SECONDS) -> Iterator[None]:
        """Keep the entry as it is for as long as the block reads it; raises CRDsError LOCKED or DISK.

        Who reads an entry and fetches it within the block waits for itself.
        """
        with ExitStack() as held:
            with translate_os_errors("locking the cache"):
                with suppress(OSError):  # it may be there already, in a cache that cannot be written to
                    self._make_directories()
                root = held.enter_context(self._open_root())
                if root is not None and exists(_LOCKS, root):
                    held.enter_context(lock_shared(self._open_lock(held, root, key, ".lock"), seconds=seconds))
            yield

    @contextmanager
    def staging(self) -> Iterator[Staged]:
        """Give an empty directory on the cache's file system; what is still in it afterwards is removed."""
        with ExitStack() as held:
            with translate_os_errors("preparing the cache"):
                root = held.enter_context(self._open_ensured())
                parent, trash = (self._open_subdirectory(held, root, name) for name in (_STAGING, _TRASH))
                sweep(parent)
                sweep(trash)
                staged = held.enter_context(create_staging(parent, self.directory / _STAGING))
            yield staged

    def put(self, key: str, staged: Staged, *, seconds: float = LOCK_SECONDS) -> None:
        """Let a directory in staging take the entry's place, and what was there go; both known to the disk.

        The caller holds `lock`.

        Raises:
            CRDsError: LOCKED while it is read; DISK.
        """
        with ExitStack() as held:
            held.enter_context(translate_os_errors(f"putting {key} in its place"))
            root = held.enter_context(self._open_ensured())
            held.enter_context(lock_exclusive(self._open_lock(held, root, key, ".lock"), seconds=seconds))
            target = EntryName(root, key)
            if not exists(key, root):
                _rename(staged.location, target)
            elif not exchange(staged.location, target):
                # A crash between the two leaves no entry, which is a miss and no lie.
                _rename(target, EntryName(self._open_subdirectory(held, root, _TRASH), uuid.uuid4().hex))
                _rename(staged.location, target)
            os.fsync(root)

    def remove(self, key: str, *, seconds: float = LOCK_SECONDS) -> bool:
        """Take the entry away, whatever it is; tells whether there was one. Raises CRDsError LOCKED or DISK."""
        if not self.exists(key):
            return False
        with self.lock(key, seconds), translate_os_errors(f"removing {key}"), ExitStack() as held:
            root = held.enter_context(self._open_ensured())
            held.enter_context(lock_exclusive(self._open_lock(held, root, key, ".lock"), seconds=seconds))
            if not exists(key, root):
                return False
            trash = self._open_subdirectory(held, root, _TRASH)
            _rename(EntryName(root, key), EntryName(trash, uuid.uuid4().hex))
            os.fsync(root)
            sweep(trash)
        return True

    def _open_lock(self, held: ExitStack, root: int, key: str, suffix: str) -> Lock:
        """Return a lock of the entry: ``.fetch.lock`` for changing anything about it, ``.lock`` for its content."""
        return Lock(
            self._open_subdirectory(held, root, _LOCKS), self.directory / _LOCKS / f"{self.path(key).name}{suffix}"
        )

    @contextmanager
    def _open_ensured(self) -> Iterator[int]:
        """Open the cache's directory, made if need be with what belongs into it."""
        self._make_directories()
        with self._open_root() as root:
            if root is None:
                raise FileNotFoundError(2, "it was removed meanwhile", str(self.directory))
            yield root

    @contextmanager
    def _open_root(self) -> Iterator[int | None]:
        root = open_directory(self.directory)
        try:
            yield root
        finally:
            if root is not None:
                os.close(root)

    def _make_directories(self) -> None:
        self.directory.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            self.directory.mkdir(DIRECTORY_MODE)
        with self._open_root() as root:
            for name in (_LOCKS, _STAGING, _TRASH) if root is not None else ():
                with suppress(FileExistsError):
                    os.mkdir(name, DIRECTORY_MODE, dir_fd=root)

    def _open_subdirectory(self, held: ExitStack, root: int, name: str) -> int:
        descriptor = open_directory(self.directory / name, root)
        if descriptor is None:
            raise FileNotFoundError(2, "it was removed meanwhile", str(self.directory / name))
        held.callback(os.close, descriptor)
        return descriptor


def _rename(one: EntryName, other: EntryName) -> None:
    os.rename(one.name, other.name, src_dir_fd=one.directory, dst_dir_fd=other.directory)
