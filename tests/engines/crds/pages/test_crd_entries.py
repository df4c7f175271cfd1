"""Reading the cache for pages, on a real cache."""

from pathlib import Path

import pytest

from fleethook.engines.crds.cache.cache_entry import TARBALL
from fleethook.engines.crds.cache.tarball_cache import Cache
from fleethook.engines.crds.pages.crd_entries import read_content, read_page
from tests.console.crd_cache import FilledCache, fill_cache


@pytest.fixture
def filled(tmp_path: Path) -> FilledCache:
    return fill_cache(tmp_path / "data")


def list_paths(directory: Path) -> set[Path]:
    return set(directory.rglob("*"))


def test_a_missing_cache_has_no_entry_and_is_not_created(tmp_path: Path) -> None:
    page = read_page(Cache(tmp_path / "data"), 3)
    assert (page.entries, page.total, page.page, page.pages) == ((), 0, 1, 1)
    assert list(tmp_path.iterdir()) == []


def test_reading_leaves_the_directory_as_it_is(filled: FilledCache) -> None:
    before = list_paths(filled.cache.directory)
    read_page(filled.cache, 1)
    read_content(filled.cache, filled.small.key)
    assert list_paths(filled.cache.directory) == before


def test_a_page_has_the_entries_of_its_keys_only(filled: FilledCache) -> None:
    keys = sorted([filled.small.key, filled.release.key])
    pages = [read_page(filled.cache, number, size=1) for number in (1, 2, 3, -1)]
    assert [[one.key for one in page.entries] for page in pages] == [[keys[0]], [keys[1]], [keys[1]], [keys[0]]]
    assert {(page.total, page.pages) for page in pages} == {(2, 2)}


def test_a_world_writable_entry_is_refused(filled: FilledCache) -> None:
    (filled.small.path / TARBALL).chmod(0o666)
    content = read_content(filled.cache, filled.small.key)
    assert (content.listed.state, content.manifest) == ("refused", None)
