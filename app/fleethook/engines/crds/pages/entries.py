"""Describes the entries of the cache of CRD tarballs for pages.

The record of an entry whose bytes differ from it is not trusted: pages show its digest only for verified entries.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from fleethook.engines.crds.archive.tree import Manifest
from fleethook.engines.crds.cache.listing import Listed, State
from fleethook.engines.crds.url_redaction import redact
from fleethook.model.formats.text import escape

SHORT_KEY: Final = 12
"""Digits of a key in a table: enough to tell entries apart."""

_MEANINGS: Final[dict[State, str]] = {
    "ready": "verified: the tarball has the recorded digest, and the files are those of the tarball",
    "bare": "not trusted: a tarball without a record; the next fetch verifies it",
    "changed": "damaged, not trusted: run `fleethook crds cache verify --repair`",
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
        normalizes_dot: Whether names in the tarball may begin with ``./``.
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
    normalizes_dot: bool
    warnings: tuple[str, ...]


class FileView(NamedTuple):
    """A file of a tarball."""

    path: str
    size: int
    sha256: str


def describe_entry(one: Listed) -> EntryView:
    """Return the description of an entry in any state."""
    record, is_ready = one.record, one.state == "ready"
    return EntryView(
        key=one.key,
        short_key=one.key[:SHORT_KEY],
        # A writer of the cache can write a record with credentials.
        url=escape(redact(record.url)) if record else "",
        sha256=record.sha256 if record and is_ready else "",
        size=one.size,
        state=one.state,
        meaning=_MEANINGS[one.state],
        problem=escape(one.problem),
        asked_at=f"{one.asked_at:%Y-%m-%d %H:%M:%S}",
        is_ready=is_ready,
        normalizes_dot=record is not None and record.normalize_dot,
        warnings=tuple(map(escape, record.warnings)) if record and is_ready else (),
    )


def list_files(manifest: Manifest) -> list[FileView]:
    """Return the files of a verified tarball, sorted by path."""
    return [FileView(escape(path), *digest) for path, digest in sorted(manifest.files.items())]


def select_choices(entries: Sequence[EntryView], *chosen: str) -> list[EntryView]:
    """Return the entries that a user can compare: the verified ones, and those that are chosen already."""
    return [one for one in entries if one.is_ready or one.key in chosen]
