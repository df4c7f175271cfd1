"""Objects from files and directories of manifests, reloaded when the files change.

If a document cannot be read, the last objects of its file stay in the store and the error is reported. A half-written
file must not look like a deletion.
"""

import asyncio
import contextlib
import errno
import logging
import os
import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Final, NamedTuple

from watchfiles import awatch

from fleethook.api_schema import read_definitions
from fleethook.cluster.manifests.manifest_files import (
    RULES,
    STANDARD_INPUT,
    ObjectFinding,
    Skipped,
    check_objects,
    describe_skipped,
    list_files,
    make_error,
    name_source,
    read_file,
    read_manifest,
    read_python,
)
from fleethook.cluster.manifests.yaml_decoding_and_lines import Document, ManifestError
from fleethook.cluster.partial_and_stale_objects import PartState
from fleethook.cluster.store import ObjectKey, Store, key_of
from fleethook.model.gvk import DEFINITION

# The file system notifies of changes. This rescan is for file systems without notification (NFS, some mounts).
_RESCAN_MS: Final = 5_000
_DEBOUNCE_MS: Final = 200
# Objects that are stored before the event loop serves reviews: about 5 ms.
_SLICE: Final = 100
# Skipped documents that a log line names.
_MAX_SKIPPED: Final = 10
# Findings that /readyz names.
_MAX_SHOWN: Final = 20
# Findings that are logged after a change, each in about 0.1 ms of the event loop.
_MAX_LOGGED: Final = 100
# Differs from that of each file.
_NO_STAMP: Final = (0, 0, 0)

_log: Final = logging.getLogger(__name__)


class _File(NamedTuple):
    """The content of a file.

    Attributes:
        stamp: Changes with the file.
        documents: The objects when the file was last read without an error.
        skipped: Documents that are no Kubernetes objects, at that time.
        errors: Why the file cannot be used now.
        was_read: Whether the file has been read without an error once.
    """

    stamp: tuple[int, int, int]
    documents: tuple[Document, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    errors: tuple[ManifestError, ...] = ()
    was_read: bool = True


class _Read(NamedTuple):
    """The result of reading the files."""

    files: dict[Path, _File]
    unread: frozenset[str]
    documents: dict[ObjectKey, Document]
    removed: tuple[ObjectKey, ...]
    """Objects of the store that no file contains any more."""
    changed: tuple[Document, ...]
    """Objects that are new, or differ from the stored ones."""
    errors: dict[str, str]
    findings: dict[ObjectKey, tuple[ObjectFinding, ...]]
    """Fields, kinds and versions that the APIs of objects lack."""


class ManifestSource:
    """Keeps a store equal to files and directories of manifests. Standard input is read once.

    Attributes:
        store: The store.
        errors: The current errors of each unreadable file; its last good objects stay in the store.
        skipped: The current documents that are no Kubernetes objects.
        revision: Increases with each change of the objects. The store does not notify of a change of a workload's
            spec, of which it keeps no copy.
    """

    def __init__(
        self, paths: Sequence[Path], store: Store, *, exclude: Sequence[str] = (), rescan_ms: int = _RESCAN_MS
    ) -> None:
        """Prepare.

        Args:
            paths: Files and directories.
            store: The store.
            exclude: Patterns of files to leave out (`fleethook.cluster.manifests.manifest_files.is_excluded`).
            rescan_ms: Milliseconds between two comparisons, which find changes that the watch has missed.
        """
        self._rescan_ms: Final = rescan_ms
        self._paths: Final = tuple(dict.fromkeys(paths))
        self._exclude: Final = exclude
        self.store: Final = store
        self._files: dict[Path, _File] = {}
        self.stored: dict[ObjectKey, Document] = {}
        self._checked_at: float | None = None
        self._unread: frozenset[str] = frozenset()
        self.errors: dict[str, str] = {}
        self.skipped: tuple[Skipped, ...] = ()
        self._findings: dict[ObjectKey, tuple[ObjectFinding, ...]] = {}
        self.revision = 0

    @property
    def synced(self) -> bool:
        """Whether each directory and file has been read once.

        A file that was never read may hold the webhook that would deny the request.
        """
        return self._checked_at is not None and not self._unread

    def parts(self) -> Iterator[PartState]:
        """Yield the state of the files."""
        was_read = self._checked_at is not None and not (self.errors and self._unread.issuperset(self.errors))
        age = time.monotonic() - self._checked_at if self._checked_at is not None and was_read else None
        first = islice(chain.from_iterable(self._findings.values()), _MAX_SHOWN)
        findings = [f"{finding.place}: {finding.text}" for finding in first]
        detail = "; ".join(self.errors.values() or findings) or describe_skipped(self.skipped)
        yield PartState("manifests", self.synced, detail, age, failing=bool(self.errors))

    def documents(self) -> list[Document]:
        """Return the stored objects with their files, in the order of the files."""
        return list(self.stored.values())

    def find(self, key: ObjectKey) -> Document | None:
        """Return the complete object under a key with its file, None if no file has it."""
        return self.stored.get(key)

    def load(self) -> bool:
        """Read changed files and update the store; return whether anything changed."""
        read = self._read_paths()
        changed = sum(1 for _ in self._apply(read)) > 0
        self._finish(read)
        return changed

    async def reload(self) -> bool:
        """Do the same as `load` without blocking the event loop: read in a thread, update the store in slices.

        Between two slices the store holds a part of the changes, as with the watch of an apiserver, whose objects
        change one after the other. A change of few objects is one slice.
        """
        read = await asyncio.to_thread(self._read_paths)
        changes = 0
        for changes, _ in enumerate(self._apply(read), 1):
            if changes % _SLICE == 0:
                await asyncio.sleep(0)
        self._finish(read)
        return changes > 0

    def _read_paths(self) -> _Read:
        errors: dict[str, str] = {}
        files, unread = self._read_files(errors)
        documents, stored = _merge(files, errors), self.stored
        # Compared in the thread, because the work grows with the number of all objects, not of changed ones.
        removed = tuple(stored.keys() - documents.keys())
        changed = tuple(
            document
            for key, document in documents.items()
            if (known := stored.get(key)) is None or known.object is not document.object
        )
        return _Read(files, unread, documents, removed, changed, errors, self._check(documents, changed, removed))

    def _check(
        self, documents: dict[ObjectKey, Document], changed: Sequence[Document], removed: Collection[ObjectKey]
    ) -> dict[ObjectKey, tuple[ObjectFinding, ...]]:
        """Return the findings about all objects. Unchanged ones are checked again if a definition has changed."""
        definitions = read_definitions(document.object for document in documents.values())
        keys = {*(key_of(one.object) for one in changed), *removed}
        checked = [*documents.values()] if any(object_key.group_kind == DEFINITION for object_key in keys) else changed
        made: dict[ObjectKey, list[ObjectFinding]] = {}
        for one in check_objects(checked, definitions):
            made.setdefault(one.key, []).append(one)
        kept = () if checked is not changed else ((key, one) for key, one in self._findings.items() if key not in keys)
        return dict(kept) | {key: tuple(found) for key, found in made.items()}

    def _apply(self, read: _Read) -> Iterator[None]:
        """Update the store; yield after each change."""
        for key in read.removed:
            self.store.remove(key)
            yield
        for document in read.changed:
            self.store.put(document.object)
            yield

    def _finish(self, read: _Read) -> None:
        self._files, self._unread, self.stored = read.files, read.unread, read.documents
        self.revision += bool(read.removed or read.changed)
        self._report(read.errors)
        self._report_findings(read.findings)
        self._report_skipped(tuple(one for file in read.files.values() for one in file.skipped))
        self._checked_at = time.monotonic()

    def _read_files(self, errors: dict[str, str]) -> tuple[dict[Path, _File], frozenset[str]]:
        """Return the files, and the names of those that were never read."""
        files: dict[Path, _File] = {}
        for path in self._list_files():
            if isinstance(path, ManifestError):
                errors[path.source] = str(path)
                continue
            read = files[path] = files.get(path) or _read(path, self._files.get(path))
            if read.errors:
                errors[str(path)] = "; ".join(map(str, read.errors))
        # A file that was deleted stays if the caller names it, and so do those of a directory that cannot be listed.
        for path, known in self._files.items():
            if path not in files and any(path.is_relative_to(error) for error in errors):
                files[path] = known
        unread = {str(path) for path, file in files.items() if not file.was_read}
        directories = errors.keys() - {str(path) for path in files}
        if self._checked_at is not None:
            directories &= self._unread
        return files, frozenset(unread | directories)

    def _list_files(self) -> Iterator[Path | ManifestError]:
        """Yield the files, and an error for each path that does not exist."""
        for path in self._paths:
            if path == STANDARD_INPUT or path.exists():
                yield from list_files([path], self._exclude)
            else:
                yield make_error(path, FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)))

    def _report(self, errors: dict[str, str]) -> None:
        for file, text in errors.items():
            if self.errors.get(file) != text:
                _log.error("cannot read manifest: %s", text, extra={"fields": {"file": file}})
        for file in self.errors.keys() - errors.keys():
            _log.info("manifest is readable again: %s", file)
        self.errors = errors

    def _report_findings(self, findings: dict[ObjectKey, tuple[ObjectFinding, ...]]) -> None:
        """Log new findings. The line is not compared: an inserted comment must not make the findings below it new."""
        new: list[ObjectFinding] = []
        for key, found in findings.items():
            known = {finding.text for finding in self._findings.get(key, ())}
            new += (finding for finding in found if finding.text not in known)
        for one in new[:_MAX_LOGGED]:
            _log.warning("%s: %s", one.place, one.text, extra={"fields": {"code": one.finding.code}})
        if len(new) > _MAX_LOGGED:
            _log.warning("%d more findings about manifests: `fleethook lint` lists all", len(new) - _MAX_LOGGED)
        self._findings = findings

    def _report_skipped(self, skipped: tuple[Skipped, ...]) -> None:
        if skipped and skipped != self.skipped:
            _log.info("%s: %s", describe_skipped(skipped), "; ".join(map(str, skipped[:_MAX_SKIPPED])))
        self.skipped = skipped

    async def follow(self, stop: asyncio.Event, *, changed: Callable[[], Awaitable[None]] | None = None) -> None:
        """Reload whenever files change, until ``stop`` is set; await ``changed`` after each change."""
        named = [path for path in self._paths if path != STANDARD_INPUT]
        while not stop.is_set():
            present = [one for one in named if one.exists()]
            if not present:
                await _wait(stop, seconds=1.0 if named else None)
                await self._reload_and_tell(changed)
                continue
            watch = awatch(
                *present, debounce=_DEBOUNCE_MS, rust_timeout=self._rescan_ms, yield_on_timeout=True, stop_event=stop
            )
            # A path that was removed meanwhile is an OSError; the next reload reports it.
            with contextlib.suppress(OSError):
                async with contextlib.aclosing(watch):
                    async for changes in watch:
                        await self._reload_and_tell(changed)
                        # An editor replaces a file, and the watch of a file is about the former one.
                        replaced = changes and any(one.is_file() for one in present)
                        if replaced or present != [one for one in named if one.exists()]:
                            break

    async def _reload_and_tell(self, changed: Callable[[], Awaitable[None]] | None) -> None:
        if await self.reload():
            _log.info("manifests reloaded", extra={"fields": {"objects": len(self.stored)}})
            if changed is not None:
                await changed()


def _merge(files: Mapping[Path, _File], errors: dict[str, str]) -> dict[ObjectKey, Document]:
    merged: dict[ObjectKey, Document] = {}
    for path, file in files.items():
        for document in file.documents:
            key = key_of(document.object)
            other = merged.setdefault(key, document)
            if other is not document:
                text = (
                    f"{document.place}: {key.group_kind.kind} {key.namespace}/{key.name} is already defined at "
                    f"{other.place}; remove one of them"
                )
                errors[str(path)] = f"{errors[str(path)]}; {text}" if str(path) in errors else text
    return merged


async def _wait(stop: asyncio.Event, *, seconds: float | None) -> None:
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return


def _read(path: Path, known: _File | None) -> _File:
    """Return the content of a file, the known one if the file has not changed."""
    try:
        stamp = _NO_STAMP
        if path != STANDARD_INPUT:
            status = path.stat()
            stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
        if known is not None and known.stamp == stamp:
            return known
        content = read_file(path)
    except OSError as error:
        return _keep(known, make_error(path, error))
    except ManifestError as error:
        return _keep(known, error)
    is_code = path.suffix == RULES
    read = read_python(path) if is_code else read_manifest(content, source=name_source(path))
    errors = [*read.errors]
    lost = 0 if known is None else len(known.documents) - len(read.documents)
    if known is not None and lost > 0 and (not content.strip() or len(read.skipped) > len(known.skipped)):
        # A program that writes a file truncates it first, and a part of an object may look like another document.
        errors.append(ManifestError(str(path), 1, f"has {lost} objects less than before and may be incomplete"))
    if errors:
        kept = _File(stamp, was_read=False) if known is None else known
        return kept._replace(stamp=stamp, errors=tuple(errors))
    return _File(stamp, tuple(read.documents), tuple(read.skipped))


def _keep(known: _File | None, error: ManifestError) -> _File:
    """Return a file that cannot be read, with its former objects. Its stamp makes the next reload read it again."""
    if known is None:
        return _File(_NO_STAMP, errors=(error,), was_read=False)
    return known._replace(stamp=_NO_STAMP, errors=(error,))
