"""Reading the cache for pages, on a real cache."""

from pathlib import Path

import pytest

from fleethook.engines.crds.cache.cache_entry import TARBALL
from fleethook.engines.crds.cache.tarball_cache import Cache
from fleethook.engines.crds.pages.crd_entries import inspect_entries, read_content
from tests.console.crd_cache import FilledCache, fill_cache


@pytest.fixture
def filled(tmp_path: Path) -> FilledCache:
    return fill_cache(tmp_path / "data")


def list_paths(directory: Path) -> set[Path]:
    return set(directory.rglob("*"))


def test_a_missing_cache_has_no_entry_and_is_not_created(tmp_path: Path) -> None:
    assert inspect_entries(Cache(tmp_path / "data")) == {}
    assert list(tmp_path.iterdir()) == []


def test_reading_leaves_the_directory_as_it_is(filled: FilledCache) -> None:
    before = list_paths(filled.cache.directory)
    inspect_entries(filled.cache)
    read_content(filled.cache, filled.small.key)
    assert list_paths(filled.cache.directory) == before


def test_a_world_writable_entry_is_refused(filled: FilledCache) -> None:
    (filled.small.path / TARBALL).chmod(0o666)
    listed, manifest = read_content(filled.cache, filled.small.key)
    assert (listed.state, manifest) == ("refused", None)
