"""Objects from a directory of YAML files, followed while they change.

A file that cannot be read or parsed keeps what it last held and is reported; a half-written file must never look like
a deletion.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from watchfiles import awatch

from app.store.sources.source import PartState
from app.store.store import ObjectKey, Store, key_of
from app.store.yaml_reader import Document, ManifestError, read_documents

_SUFFIXES: Final = frozenset({".yaml", ".yml"})
# Changes are told by the file system; this look is for file systems that do not tell (NFS, some container mounts).
_RESCAN_MS: Final = 5_000
_DEBOUNCE_MS: Final = 200

_log: Final = logging.getLogger(__name__)


class _File(NamedTuple):
    """What a file held when it last could be read, and the stamp by which a change is noticed."""

    stamp: tuple[int, int, int]
    documents: tuple[Document, ...]


class ManifestSource:
    """Keeps a store equal to a directory of manifests.

    Attributes:
        errors: What is wrong at the moment, by file; the file's last good objects stay in the store.
    """

    def __init__(self, directory: Path, store: Store) -> None:
        self._directory: Final = directory
        self._store: Final = store
        self._files: dict[Path, _File] = {}
        self._stored: dict[ObjectKey, Document] = {}
        self._checked_at: float | None = None
        self._unread: frozenset[str] = frozenset()
        self.errors: dict[str, str] = {}

    @property
    def synced(self) -> bool:
        """Whether the directory and each file in it have been read once.

        A file that was never read may hold the webhook that refuses what is asked about.
        """
        return self._checked_at is not None and not self._unread

    def parts(self) -> Iterator[PartState]:
        """Yield the state of the directory, and of each file that cannot be read."""
        age = None if self._checked_at is None else time.monotonic() - self._checked_at
        yield PartState("manifests", self.synced, "; ".join(self.errors.values()), age, failing=bool(self.errors))

    def documents(self) -> list[Document]:
        """Return the stored objects with their files, in the order of the files."""
        return list(self._stored.values())

    def load(self) -> bool:
        """Read what changed since the last time and bring the store up to it; return whether anything changed."""
        errors: dict[str, str] = {}
        self._files = self._read_files(errors)
        wanted = self._merge(errors)
        changed = False
        for key in self._stored.keys() - wanted.keys():
            self._store.remove(key)
            changed = True
        for key, document in wanted.items():
            known = self._stored.get(key)
            if known is None or known.object is not document.object:
                self._store.put(document.object)
                changed = True
        self._stored = wanted
        self._report(errors)
        self._checked_at = time.monotonic()
        return changed

    def _read_files(self, errors: dict[str, str]) -> dict[Path, _File]:
        try:
            paths = list(self._paths())
        except OSError as error:
            errors[str(self._directory)] = str(error)
            self._unread |= {str(self._directory)} if self._checked_at is None else frozenset()
            return self._files
        files: dict[Path, _File] = {}
        for path in paths:
            known = self._files.get(path)
            try:
                files[path] = _read(path, known)
            except (ManifestError, OSError, UnicodeDecodeError) as error:
                errors[str(path)] = str(error)
                if known is not None:
                    # The stamp is forgotten, so that the file is read again even if it looks the same.
                    files[path] = _File((0, 0, 0), known.documents)
        self._unread = frozenset(str(path) for path in paths if path not in files)
        return files

    def _paths(self) -> Iterator[Path]:
        """Yield the manifest files, in order.

        Dot directories hold a ConfigMap volume's older generations, and ``testdata`` what interpreters are tested with.
        """
        self._directory.stat()
        for path in sorted(self._directory.rglob("*")):
            parts = path.relative_to(self._directory).parts
            ignored = any(part.startswith(".") or part == "testdata" for part in parts)
            if path.suffix in _SUFFIXES and not ignored and path.is_file():
                yield path

    def _merge(self, errors: dict[str, str]) -> dict[ObjectKey, Document]:
        merged: dict[ObjectKey, Document] = {}
        for path, file in self._files.items():
            for document in file.documents:
                key = key_of(document.object)
                other = merged.setdefault(key, document)
                if other is not document:
                    errors.setdefault(
                        str(path),
                        f"{document.source}:{document.line}: {key.group_kind.kind} {key.namespace}/{key.name} is "
                        f"already defined at {other.source}:{other.line}; remove one of them",
                    )
        return merged

    def _report(self, errors: dict[str, str]) -> None:
        for file, text in errors.items():
            if self.errors.get(file) != text:
                _log.error("manifest not read: %s", text, extra={"fields": {"file": file}})
        for file in self.errors.keys() - errors.keys():
            _log.info("manifest read again: %s", file)
        self.errors = errors

    async def follow(self, stop: asyncio.Event, *, changed: Callable[[], Awaitable[None]] | None = None) -> None:
        """Reload whenever the directory changes, until ``stop`` is set; await ``changed`` after each change."""
        while not stop.is_set():
            try:
                async for _ in awatch(
                    self._directory,
                    debounce=_DEBOUNCE_MS,
                    rust_timeout=_RESCAN_MS,
                    yield_on_timeout=True,
                    stop_event=stop,
                ):
                    if self.load():
                        _log.info("manifests reloaded", extra={"fields": {"objects": len(self._stored)}})
                        if changed is not None:
                            await changed()
            except OSError as error:
                # The directory itself is gone; the store keeps what it held until it is back.
                self._report({str(self._directory): str(error)})
                await _wait(stop, seconds=1.0)


async def _wait(stop: asyncio.Event, *, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return


def _read(path: Path, known: _File | None) -> _File:
    status = path.stat()
    stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
    if known is not None and known.stamp == stamp:
        return known
    documents = read_documents(path.read_text(encoding="utf-8"), source=str(path))
    return _File(stamp, tuple(documents))
