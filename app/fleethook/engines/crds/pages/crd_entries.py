"""Reads the cache of CRD tarballs for pages. It only reads: it takes no lock, and creates no directory.

These functions read disks and archives, so they run in a thread. The limits of archives bound their work for one entry,
and the size of a page bounds the number of entries.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from fleethook.console.views.paging import take_page
from fleethook.engines.crds.apply.diff import CRDChange, compare_releases, parse_entry
from fleethook.engines.crds.apply.documents import Tree
from fleethook.engines.crds.archive import archive
from fleethook.engines.crds.archive.tree import Manifest
from fleethook.engines.crds.cache.cache import Cache
from fleethook.engines.crds.cache.listing import Listed
from fleethook.engines.crds.cache.permissions import translate_os_errors
from fleethook.engines.crds.crds_errors import CRDsError, Exit

PAGE_SIZE: Final = 50
_READING: Final = "reading the cache"


class EntryPage(NamedTuple):
    """One page of the entries.

    Attributes:
        entries: The entries of the page, by key.
        total: The number of all entries.
        page: The number of this page, from 1.
        pages: The number of pages, at least 1.
    """

    entries: tuple[Listed, ...] = ()
    total: int = 0
    page: int = 1
    pages: int = 1


class EntryContent(NamedTuple):
    """An entry, and the files of its tarball; None unless the entry is verified."""

    listed: Listed
    manifest: Manifest | None


def read_page(cache: Cache, page: int) -> EntryPage:
    """Check the entries of a page, and return them; the number of the page may be too large. Raises CRDsError DISK."""
    keys = cache.keys()
    here, paging = take_page(keys, page, PAGE_SIZE)
    return EntryPage(tuple(inspect_entries(cache, here).values()), len(keys), paging.page, paging.pages)


def inspect_entries(cache: Cache, keys: Iterable[str]) -> dict[str, Listed]:
    """Check the entries of some keys; keys without an entry are left out. Raises CRDsError DISK."""
    with translate_os_errors(_READING):
        return {key: one for key in dict.fromkeys(keys) if (one := cache.inspect(key)) is not None}


def read_content(cache: Cache, key: str) -> EntryContent:
    """Return an entry in any state, and the files of its tarball if it is verified.

    Raises:
        CRDsError: USAGE for an invalid key, NOT_CACHED without an entry, DISK.
    """
    listed = inspect_entries(cache, [key]).get(key)
    if listed is None:
        raise CRDsError(Exit.NOT_CACHED, f"{key} is not in the cache {cache.directory}")
    found = cache.tarball(key) if listed.state == "ready" else None
    if found is None:
        return EntryContent(listed, None)
    entry, tarball = found
    return EntryContent(listed, archive.list_files(tarball, normalize_dot=entry.record.normalize_dot))


def compare_entries(cache: Cache, before: str, after: str) -> list[CRDChange]:
    """Return the changes between the releases of two verified entries.

    Raises:
        CRDsError: As `read_content`; INTEGRITY for an entry that is not verified; ARCHIVE or LIMIT if its files cannot
            be used.
    """
    return compare_releases(_read_tree(cache, before), _read_tree(cache, after))


def _read_tree(cache: Cache, key: str) -> Tree:
    found = cache.tarball(key)
    if found is not None:
        return parse_entry(*found)
    if not cache.exists(key):
        raise CRDsError(Exit.NOT_CACHED, f"{key} is not in the cache {cache.directory}")
    raise CRDsError(Exit.INTEGRITY, f"{key} is damaged or not verified: run `fleethook crds cache verify --repair`")
