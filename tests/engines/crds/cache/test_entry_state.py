"""Tests of the sizes of entries, and of the entries that are pruned."""

import hashlib
import json
import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from fleethook.engines.crds.archive.archive_limits import ArchiveLimits
from fleethook.engines.crds.cache.entry_directory import TARBALL
from fleethook.engines.crds.cache.entry_state import Listed, measure_size, select_removable
from fleethook.engines.crds.cache.tarball_cache import Cache, Origin
from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.engines.crds.fetch import fetch
from fleethook.engines.crds.tarball_source import Policy, Source
from tests.engines.crds.fetching import NEVER, bring
from tests.engines.crds.origin import serving, tarball
from tests.engines.crds.tarballs import build, crd, dotted, patch, small

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


WORKS = "crds/bases/work/work.karmada.io_works.yaml"
URL = "http://local/crds.tar.gz"
KEY = Source(URL).key
GOOD = build(small())
EVIL = build({**small(), WORKS: crd("works", "work.karmada.io", document="# evil\n")})


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    made = Cache(tmp_path / "data")
    (tmp_path / "given.tar.gz").write_bytes(GOOD)
    made.import_file(KEY, tmp_path / "given.tar.gz", Origin(URL))
    return made


def edit_record(path: Path, **members: object) -> None:
    record = json.loads((path / ".meta.json").read_bytes())
    (path / ".meta.json").write_text(json.dumps(record | members))


def change(path: Path, name: str, body: bytes) -> None:
    """Change a file, and have the record of an earlier release say that this is right, by content and by looks."""
    (path / name).write_bytes(body)
    files = [file for file in path.rglob("*") if file.name != ".meta.json"]
    seen = {}
    for file in files:
        status = file.stat()
        seen[str(file.relative_to(path))] = [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]
    manifest = {
        str(file.relative_to(path)): {"size": file.stat().st_size, "sha256": sha(file.read_bytes())}
        for file in files
        if file.is_file() and file.name != TARBALL
    }
    edit_record(path, seen=seen, manifest=manifest, verified_at="2026-11-22T00:00:00Z")


def test_an_edited_tree_with_an_edited_record_is_detected(cache: Cache) -> None:
    body = (cache.path(KEY) / WORKS).read_bytes()
    change(cache.path(KEY), WORKS, b"E" + body[1:])
    assert cache.verify(KEY) == [f"{WORKS} has other content"]
    assert cache.entry(KEY) is None
    assert [listed.state for listed in cache.entries()] == ["changed"]


def test_an_added_file_with_an_edited_record_is_detected(cache: Cache) -> None:
    change(cache.path(KEY), "crds/patches/webhook_in_evils.yaml", patch("evils"))
    assert cache.verify(KEY) == ["crds/patches/webhook_in_evils.yaml does not belong there"]


def test_a_pin_is_compared_with_the_bytes(cache: Cache) -> None:
    path = cache.path(KEY)
    (path / TARBALL).write_bytes(EVIL)
    (path / WORKS).write_bytes(crd("works", "work.karmada.io", document="# evil\n"))
    # The record tells the pinned digest, the bytes have another one.
    assert cache.verify(KEY) == [f"{TARBALL} is not the recorded one"]
    with pytest.raises(CRDsError) as caught:
        fetch(cache, Source(URL, sha256=sha(GOOD)), Policy.NEVER)
    assert caught.value.exit is Exit.NOT_CACHED
    # The record tells the digest of the bytes, the pin another one.
    edit_record(path, sha256=sha(EVIL), size=len(EVIL))
    assert cache.verify(KEY) == []
    with pytest.raises(CRDsError) as caught:
        fetch(cache, Source(URL, sha256=sha(GOOD)), Policy.NEVER)
    assert caught.value.exit is Exit.INTEGRITY


def test_a_changed_entry_with_a_pin_is_downloaded_again(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    with serving(tarball(GOOD)) as origin:
        source = Source(origin.url, sha256=sha(GOOD))
        path = bring(cache, source).path
        (path / TARBALL).write_bytes(EVIL)
        edit_record(path, sha256=sha(EVIL), size=len(EVIL))
        assert bring(cache, source).result == "downloaded"
        assert (path / TARBALL).read_bytes() == GOOD
        assert bring(cache, source, NEVER).result == "cached"


@pytest.mark.parametrize("body", [b"", b"\x1f\x8b", GOOD[:-1], GOOD + b"x"], ids=["empty", "magic", "cut", "more"])
def test_a_record_of_bytes_that_are_not_a_tarball_is_refused(cache: Cache, body: bytes) -> None:
    (cache.path(KEY) / TARBALL).write_bytes(body)
    edit_record(cache.path(KEY), sha256=sha(body), size=len(body))
    (problem,) = cache.verify(KEY)
    assert problem.startswith(f"{TARBALL} cannot be used: ")
    assert cache.entry(KEY) is None


def test_names_with_dots_have_to_be_recorded(cache: Cache, tmp_path: Path) -> None:
    (tmp_path / "given.tar.gz").write_bytes(dotted())
    cache.import_file(KEY, tmp_path / "given.tar.gz", Origin(URL), normalize_dot=True)
    assert cache.verify(KEY) == []
    edit_record(cache.path(KEY), normalize_dot=False)
    assert "cannot be used" in cache.verify(KEY)[0]


def test_the_verified_bytes_are_used(cache: Cache) -> None:
    found = cache.tarball(KEY)
    assert found is not None
    (cache.path(KEY) / TARBALL).write_bytes(EVIL)
    assert found[1] == GOOD


# --- Bringing a file in -----------------------------------------------------------------------------------------------


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


@pytest.mark.parametrize(
    ("make", "code", "text"),
    [
        (lambda path: path.symlink_to("/dev/zero"), Exit.USAGE, "cannot read {}: not a regular file"),
        (lambda path: path.symlink_to("/dev/null"), Exit.USAGE, "cannot read {}: not a regular file"),
        (os.mkfifo, Exit.USAGE, "cannot read {}: not a regular file"),
        (Path.mkdir, Exit.USAGE, "cannot read {}: not a regular file"),
        (lambda _: None, Exit.USAGE, "cannot read {}: No such file or directory"),
        (sparse, Exit.LIMIT, "{} has more than 16777216 bytes"),
    ],
    ids=["zero", "null", "pipe", "directory", "none", "sparse"],
)
def test_a_file_that_is_not_regular_is_refused_before_it_is_copied(
    tmp_path: Path, make: Callable[[Path], object], code: Exit, text: str
) -> None:
    make(tmp_path / "given")
    with pytest.raises(CRDsError) as caught:
        Cache(tmp_path / "data").import_file(KEY, tmp_path / "given", Origin(URL))
    assert (caught.value.exit, str(caught.value)) == (code, text.format(tmp_path / "given"))
    assert not (tmp_path / "data").exists()


def test_a_file_that_grows_while_it_is_read_is_refused_at_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "given").write_bytes(GOOD)
    monkeypatch.setattr(os, "fstat", lambda descriptor, real=os.fstat: _smaller(real(descriptor)))
    with pytest.raises(CRDsError) as caught:
        Cache(tmp_path / "data", limits=ArchiveLimits(download_bytes=100)).import_file(
            KEY, tmp_path / "given", Origin(URL)
        )
    assert caught.value.exit is Exit.LIMIT


def _smaller(status: os.stat_result) -> os.stat_result:
    return os.stat_result((*status[:6], 1, *status[7:10]))


def test_a_download_beyond_the_limit_has_the_exit_code_of_a_limit(tmp_path: Path) -> None:
    cache = Cache(tmp_path, limits=ArchiveLimits(download_bytes=len(GOOD) - 1))
    with serving(tarball(GOOD)) as origin, pytest.raises(CRDsError) as caught:
        bring(cache, origin.url)
    assert (caught.value.exit, str(caught.value)) == (Exit.LIMIT, f"the tarball has more than {len(GOOD) - 1} bytes")


def test_a_tarball_beyond_the_limit_is_not_adopted(tmp_path: Path) -> None:
    cache = Cache(tmp_path, limits=ArchiveLimits(download_bytes=100))
    cache.path(KEY).mkdir(parents=True)
    (cache.path(KEY) / TARBALL).write_bytes(GOOD)
    with pytest.raises(CRDsError) as caught:
        cache.adopt(KEY)
    assert caught.value.exit is Exit.LIMIT


def test_a_link_that_a_user_names_is_followed(tmp_path: Path) -> None:
    (tmp_path / "given").write_bytes(GOOD)
    (tmp_path / "link").symlink_to(tmp_path / "given")
    cache = Cache(tmp_path / "data")
    assert cache.import_file(KEY, tmp_path / "link", Origin(URL), sha256=sha(GOOD)).record.sha256 == sha(GOOD)
    assert cache.verify(KEY) == []
