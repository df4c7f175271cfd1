"""``fleethook crds cache``: output and exit codes."""

import json
from pathlib import Path
from typing import Any

import pytest

from fleethook.engines.crds.commands.crds_cache import parse_age, parse_size
from fleethook.engines.crds.tarball_source import Source
from tests.engines.crds.origin import Origin
from tests.engines.crds.tarballs import release


@pytest.mark.parametrize(("text", "seconds"), [("30d", 2_592_000), ("12h", 43_200), ("90s", 90), ("1W", 604_800)])
def test_ages_are_read_as_people_write_them(text: str, seconds: int) -> None:
    assert parse_age(text) == seconds


@pytest.mark.parametrize(("text", "size"), [("200MiB", 200 * 2**20), ("1kb", 1000), ("7", 7), ("3 GB", 3 * 10**9)])
def test_sizes_are_read_as_people_write_them(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "x", "-1d", "1.5h", "9 fortnights"])
def test_a_text_that_is_neither_age_nor_size_is_refused(text: str) -> None:
    for read in (parse_age, parse_size):
        with pytest.raises(ValueError, match="is not"):
            read(text)


RELEASE = release()


def test_entries_are_listed_and_removed(run: Any, origin: Origin, tmp_path: Path) -> None:
    path = Path(json.loads(run("fetch", origin.url, "-o", "json").stdout)["path"])
    key = Source(origin.url).key
    (row,) = json.loads(run("cache", "ls", "-o", "json").stdout)
    assert (row["key"], row["state"], row["url"]) == (key, "ready", origin.url)
    (path / "crds.tar.gz").write_bytes(b"spoiled")
    (row,) = json.loads(run("cache", "ls", "-o", "json").stdout)
    assert row["state"] == "changed"
    (path / ".meta.json").unlink()
    (row,) = json.loads(run("cache", "ls", "-o", "json").stdout)
    assert (row["state"], row["url"], row["sha256"]) == ("bare", "", "")
    run("cache", "rm", origin.url)
    run("cache", "rm", key, code=10)


def test_old_and_large_entries_are_pruned(run: Any, origin: Origin) -> None:
    run("fetch", origin.url)
    key = Source(origin.url).key
    run("cache", "prune", code=2)
    run("cache", "prune", "--older-than", "soon", code=2)
    assert run("cache", "prune", "--older-than", "1d").stdout == "nothing to remove\n"
    assert key in run("cache", "prune", "--max-size", "1KiB", "--dry-run").stdout
    assert run("cache", "prune", "--max-size", "1KiB", "--keep", "1").stdout == "nothing to remove\n"
    assert key in run("cache", "prune", "--max-size", "1KiB").stdout
    assert run("cache", "ls").stdout == "the cache is empty\n"
