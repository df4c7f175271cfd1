"""The directories of the cache: where an entry is, who may have it, and how one takes the place of another.

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

from app.crds.cache.exchange import exchange
from app.crds.cache.guard import is_key, on_disk
from app.crds.cache.locks import exclusive, shared
from app.crds.cache.staging import flush_names, staging, sweep
from app.crds.failures import CRDsError, Exit

LOCK_SECONDS: Final = 300.0
"""As long as a download may take (research 6.3)."""
_MODE: Final = 0o700


class Places:
    """``<root>/cache``: an entry's directory for each key, and ``.locks``, ``.staging`` and ``.trash`` beside them."""

    def __init__(self, root: Path) -> None:
        """Prepare; nothing is made on disk before something is to be written."""
        self.directory: Final = root / "cache"
        self._locks: Final = self.directory / ".locks"
        self._staging: Final = self.directory / ".staging"
        self._trash: Final = self.directory / ".trash"

    def path(self, key: str) -> Path:
        """Return where the entry is or would be; raises CRDsError USAGE for what is no key."""
        if not is_key(key):
            raise CRDsError(Exit.USAGE, f"{key!r} is no key of the cache: it is 64 hexadecimal digits")
        return self.directory / key

    def keys(self) -> list[str]:
        """Return the names that are in the place of an entry, in order; raises CRDsError DISK."""
        with on_disk("listing the cache"):
            try:
                return sorted(path.name for path in self.directory.iterdir() if is_key(path.name))
            except FileNotFoundError:
                return []

    @contextmanager
    def lock(self, key: str, seconds: float = LOCK_SECONDS) -> Iterator[None]:
        """Be the only one who brings this entry in; raises CRDsError LOCKED (with who does) or DISK."""
        with ExitStack() as held:
            with on_disk("locking the cache"):
                self._make()
                held.enter_context(exclusive(self.fetch_lock(key), seconds=seconds))
            yield

    @contextmanager
    def reading(self, key: str, seconds: float = LOCK_SECONDS) -> Iterator[None]:
        """Keep the entry as it is for as long as the block reads it; raises CRDsError LOCKED or DISK.

        Who reads an entry and fetches it within the block waits for itself.
        """
        with ExitStack() as held:
            with suppress(OSError):  # it may be there already, in a cache that cannot be written to
                self._make()
            with on_disk("locking the cache"):
                held.enter_context(shared(self.content_lock(key), seconds=seconds))
            yield

    @contextmanager
    def staging(self) -> Iterator[Path]:
        """Give an empty directory on the cache's file system; what is still in it afterwards is removed."""
        with ExitStack() as held:
            with on_disk("preparing the cache"):
                self._make()
                sweep(self._staging)
                sweep(self._trash)
                path = held.enter_context(staging(self._staging))
            yield path

    def fetch_lock(self, key: str) -> Path:
        """Return the file that is locked by whoever changes anything about the entry."""
        return self._locks / f"{self.path(key).name}.fetch.lock"

    def content_lock(self, key: str) -> Path:
        """Return the file that readers share, and that is locked alone when the entry changes places."""
        return self._locks / f"{self.path(key).name}.lock"

    def put(self, key: str, staged: Path, *, seconds: float = LOCK_SECONDS) -> None:
        """Let a directory in staging take the entry's place, and what was there go; both known to the disk.

        The caller holds `lock`.

        Raises:
            CRDsError: LOCKED while it is read; DISK.
        """
        path = self.path(key)
        with on_disk(f"putting {key} in its place"), exclusive(self.content_lock(key), seconds=seconds):
            if not os.path.lexists(path):
                staged.rename(path)
            elif not exchange(staged, path):
                # A crash between the two leaves no entry, which is a miss and no lie.
                self._discard(path)
                staged.rename(path)
            flush_names(self.directory)

    def remove(self, key: str, *, seconds: float = LOCK_SECONDS) -> bool:
        """Take the entry away, whatever it is; tells whether there was one. Raises CRDsError LOCKED or DISK."""
        path = self.path(key)
        if not os.path.lexists(path):
            return False
        with self.lock(key, seconds), on_disk(f"removing {key}"), exclusive(self.content_lock(key), seconds=seconds):
            if not os.path.lexists(path):
                return False
            self._discard(path)
            flush_names(self.directory)
            sweep(self._trash)
        return True

    def _discard(self, path: Path) -> None:
        path.rename(self._trash / uuid.uuid4().hex)

    def _make(self) -> None:
        self.directory.parent.mkdir(parents=True, exist_ok=True)
        for directory in (self.directory, self._locks, self._staging, self._trash):
            directory.mkdir(_MODE, exist_ok=True)
