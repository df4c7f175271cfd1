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


def test_entries_are_listed_shown_verified_and_removed(run: Any, origin: Origin, tmp_path: Path) -> None:
    run("fetch", origin.url)
    key = Source(origin.url).key
    (row,) = json.loads(run("cache", "ls", "-o", "json").stdout)
    assert (row["key"], row["state"], row["url"]) == (key, "ready", origin.url)
    assert json.loads(run("cache", "show", origin.url, "-o", "json").stdout) == row
    path = Path(run("cache", "path", key).stdout.strip())
    assert path == tmp_path / "data" / "cache" / key
    assert run("cache", "verify").stdout == f"{key}: ok\n"
    one = next((path / "crds" / "bases").rglob("*.yaml"))
    one.chmod(0o640)
    one.write_text("spoiled")
    assert key in run("cache", "verify", origin.url, code=23).stdout
    run("cache", "verify", "--repair")
    assert run("cache", "verify", key).stdout == f"{key}: ok\n"
    run("cache", "rm", origin.url)
    run("cache", "rm", origin.url, code=10)
    run("cache", "show", key, code=10)


def test_a_tarball_goes_to_a_site_without_a_network_and_is_the_entry_there(
    run: Any, origin: Origin, tmp_path: Path
) -> None:
    run("fetch", origin.url)
    file = tmp_path / "carried.tar.gz"
    run("cache", "export", origin.url, "--to", file)
    assert file.read_bytes() == RELEASE
    run("cache", "export", origin.url, "--to", file, code=26)
    run("cache", "rm", origin.url)
    run("cache", "export", origin.url, "--to", tmp_path / "other", code=10)
    run("cache", "import", file, "--url", origin.url)
    assert json.loads(run("fetch", origin.url, "--offline", "-o", "json").stdout)["result"] == "cached"
    assert len(origin.asked) == 1


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


def test_an_entry_is_named_by_its_url_or_its_key(run: Any, origin: Origin, tmp_path: Path) -> None:
    key = Source(origin.url).key
    assert run("cache", "path", origin.url).stdout == run("cache", "path", key).stdout
    assert Path(run("cache", "path", key).stdout.strip()) == tmp_path / "data" / "cache" / key
    assert not (tmp_path / "data").exists()


def test_a_tarball_without_a_record_is_listed_and_verified(run: Any, origin: Origin) -> None:
    run("fetch", origin.url)
    path = Path(run("cache", "path", origin.url).stdout.strip())
    (path / ".meta.json").unlink()
    (row,) = json.loads(run("cache", "ls", "-o", "json").stdout)
    assert (row["state"], row["url"], row["sha256"]) == ("bare", "", "")
    assert "bare" in run("cache", "ls").stdout


def test_an_import_with_another_digest_changes_nothing(run: Any, origin: Origin, tmp_path: Path) -> None:
    file = tmp_path / "crds.tar.gz"
    file.write_bytes(RELEASE)
    run("cache", "import", file, "--url", origin.url, "--sha256", "0" * 64, code=23)
    assert run("cache", "ls").stdout == "the cache is empty\n"
