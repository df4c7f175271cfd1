"""Reads and describes the entries of the cache of CRD tarballs for pages. It takes no lock, and creates no directory.

These functions read disks and archives, so they run in a thread. The limits of archives bound their work for one entry.
"""

from typing import Final, NamedTuple

from fleethook.engines.crds.archive import tarball_unpacking
from fleethook.engines.crds.archive.names_content_limits import TarballManifest
from fleethook.engines.crds.cache.cache_entry import ListedEntry, State, translate_os_errors
from fleethook.engines.crds.cache.tarball_cache import Cache
from fleethook.engines.crds.redaction_and_exit_codes import CRDsError, Exit, redact
from fleethook.model.formats.text import escape

_READING: Final = "reading the cache"


def inspect_entries(cache: Cache) -> dict[str, ListedEntry]:
    """Check all entries, and return them by key. Raises CRDsError DISK."""
    with translate_os_errors(_READING):
        return {entry.key: entry for entry in cache.entries()}


def read_content(cache: Cache, key: str) -> tuple[ListedEntry, TarballManifest | None]:
    """Return an entry in any state, and the files of its tarball if it is verified.

    Raises:
        CRDsError: USAGE for an invalid key, NOT_CACHED without an entry, DISK.
    """
    with translate_os_errors(_READING):
        listed = cache.inspect(key)
    if listed is None:
        raise CRDsError(Exit.NOT_CACHED, f"{key} is not in the cache {cache.directory}")
    found = cache.tarball(key) if listed.state == "ready" else None
    return listed, None if found is None else tarball_unpacking.list_files(found[1])


SHORT_KEY: Final = 12
"""Digits of a key in a table: enough to tell entries apart."""

_MEANINGS: Final[dict[State, str]] = {
    "ready": "verified: the tarball has the recorded digest",
    "bare": "not trusted: it has no record; the next fetch replaces it",
    "changed": "damaged, not trusted: the next fetch replaces it",
    "refused": "refused, not trusted: a link, or an unsafe owner or mode",
}


class EntryView(NamedTuple):
    """An entry of the cache.

    Attributes:
        key: Its key, 64 hexadecimal digits.
        short_key: The first digits of the key.
        url: The recorded URL without secrets, ``""`` if it is unknown.
        sha256: The digest of the tarball, ``""`` for an entry that is not verified.
        size: Bytes of all files.
        state: Its state.
        meaning: The meaning of the state.
        problem: The problems that the check found, ``""`` if there are none.
        asked_at: The time of the origin's last confirmation in UTC; without a record, of the last change.
        is_ready: Whether the entry is verified.
        warnings: The warnings of its archive.
    """

    key: str
    short_key: str
    url: str
    sha256: str
    size: int
    state: State
    meaning: str
    problem: str
    asked_at: str
    is_ready: bool
    warnings: tuple[str, ...]


class FileView(NamedTuple):
    """A file of a tarball."""

    path: str
    size: int
    sha256: str


def describe_entry(entry: ListedEntry) -> EntryView:
    """Return the description of an entry in any state."""
    record, is_ready = entry.record, entry.state == "ready"
    return EntryView(
        key=entry.key,
        short_key=entry.key[:SHORT_KEY],
        # A writer of the cache can write a record with credentials.
        url=escape(redact(record.url)) if record else "",
        sha256=record.sha256 if record and is_ready else "",
        size=entry.size,
        state=entry.state,
        meaning=_MEANINGS[entry.state],
        problem=escape(entry.problem),
        asked_at=f"{entry.asked_at:%Y-%m-%d %H:%M:%S}",
        is_ready=is_ready,
        warnings=tuple(map(escape, record.warnings)) if record and is_ready else (),
    )


def list_files(manifest: TarballManifest) -> list[FileView]:
    """Return the files of a verified tarball, sorted by path."""
    return [FileView(escape(path), *digest) for path, digest in sorted(manifest.files.items())]
