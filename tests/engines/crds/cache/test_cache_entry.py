"""Tests of the sizes of entries, and of the entries that are pruned."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from fleethook.engines.crds.cache.cache_entry import Listed, is_key, measure_size, select_removable

NOW = datetime(2026, 6, 1, tzinfo=UTC)


def entry(key: str, days: int, size: int = 10) -> Listed:
    return Listed(key, Path(key), "ready", size, NOW - timedelta(days=days), None)


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


def test_a_large_entry_leaves_room_for_an_older_small_one() -> None:
    entries = [entry("large", 1, 100), entry("small", 2, 10)]
    assert [one.key for one in select_removable(entries, now=NOW, max_bytes=50)] == ["large"]


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


@pytest.mark.parametrize("name", ["", "..", ".lock", "A" * 64, "0" * 63, "0" * 65, "0" * 64 + "\n"])
def test_only_digests_are_keys(name: str) -> None:
    assert not is_key(name)
    assert is_key("0123456789abcdef" * 4)
