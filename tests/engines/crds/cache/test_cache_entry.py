"""Tests of the sizes of entries, and of the entries that are pruned."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from fleethook.engines.crds.cache.cache_entry import ListedEntry, measure_size, select_removable

NOW = datetime(2026, 6, 1, tzinfo=UTC)


def entry(key: str, days: int, size: int = 10) -> ListedEntry:
    return ListedEntry(key, Path(key), "ready", size, NOW - timedelta(days=days), None)


ENTRIES = [entry("new", 0), entry("old", 30), entry("middle", 10), entry("future", -5)]


@pytest.mark.parametrize(
    ("options", "keys"),
    [
        ({}, []),
        ({"older_than": timedelta(days=9)}, ["old", "middle"]),
        ({"older_than": timedelta(days=9), "keep": 3}, ["old"]),
        ({"max_bytes": 20}, ["old", "middle"]),
        ({"max_bytes": 0}, ["old", "middle", "future", "new"]),
        ({"max_bytes": 0, "keep": 4}, []),
    ],
)
def test_the_oldest_entries_are_removed_first(options: dict[str, Any], keys: list[str]) -> None:
    assert [one.key for one in select_removable(ENTRIES, now=NOW, **options)] == keys


def test_the_size_counts_files_and_follows_no_link(tmp_path: Path) -> None:
    (tmp_path / "entry" / "crds").mkdir(parents=True)
    (tmp_path / "outside").write_bytes(b"x" * 5000)
    (tmp_path / "entry" / "a").write_bytes(b"x" * 10)
    (tmp_path / "entry" / "crds" / "b").write_bytes(b"x" * 20)
    (tmp_path / "entry" / "link").symlink_to(tmp_path / "outside")
    link = len(str(tmp_path / "outside"))
    assert measure_size(tmp_path / "entry") == 30 + link
    (tmp_path / "to-entry").symlink_to(tmp_path / "entry")
    assert measure_size(tmp_path / "to-entry") == 0
