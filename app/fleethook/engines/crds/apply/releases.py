"""Reads a release from a cache entry, and compares two releases."""

from fleethook.engines.crds.apply.diff import CRDChange, compare
from fleethook.engines.crds.apply.documents import Tree, read_files
from fleethook.engines.crds.apply.patches import render_tree
from fleethook.engines.crds.archive import archive
from fleethook.engines.crds.cache.cache import Entry


def parse_entry(entry: Entry, tarball: bytes) -> Tree:
    """Return the CRDs and patches of an entry from the bytes that `Cache.tarball` returned with it.

    Raises:
        CRDsError: ARCHIVE or LIMIT, as `read_files`.
    """
    # The digest of these bytes is the recorded one, so their YAML is parsed once only.
    _, files = archive.read_files(tarball, normalize_dot=entry.record.normalize_dot, again=True)
    return read_files(files)


def compare_releases(before: Tree, after: Tree) -> list[CRDChange]:
    """Return the changes between two releases, patched for the same imaginary instance.

    Raises:
        CRDsError: ARCHIVE if a patch cannot be merged.
    """
    return compare(render_tree(before), render_tree(after))
