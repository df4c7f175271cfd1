import fcntl
import hashlib
import os
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from fleethook.engines.crds.cache.cache_entry import TARBALL, ListedEntry
from fleethook.engines.crds.cache.tarball_cache import Cache, CacheEntry, Origin, select_removable
from fleethook.engines.crds.redaction_and_exit_codes import CRDsError, Exit
from tests.engines.crds.tarballs import build, dotted, release, small
from tests.waiting import NET

URL = "http://origin.example/crds.tar.gz"
KEY = hashlib.sha256(URL.encode()).hexdigest()
ORIGIN = Origin(URL, URL, '"v1"', "Sat, 21 Nov 2026 10:00:00 GMT")
SMALL = build(small())
WORKS = "crds/bases/work/work.karmada.io_works.yaml"


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path)


def put(cache: Cache, tarball: bytes = SMALL, *, key: str = KEY, **more: object) -> CacheEntry:
    with cache.staging() as staged:
        (staged / TARBALL).write_bytes(tarball)
        return cache.commit(key, staged, ORIGIN, **more)  # type: ignore[arg-type]


def left_over(cache: Cache) -> list[str]:
    return [path.name for path in cache.directory.glob(".staging-*")]


def failure(call: object) -> CRDsError:
    with pytest.raises(CRDsError) as caught:
        call()  # type: ignore[operator]
    return caught.value


def test_an_empty_cache_has_nothing_and_makes_nothing_on_disk(cache: Cache, tmp_path: Path) -> None:
    assert cache.entry(KEY) is None
    assert cache.entries() == []
    assert not cache.remove(KEY)
    assert list(tmp_path.iterdir()) == []


def test_a_committed_entry_has_the_layout_of_the_go_operator(cache: Cache) -> None:
    entry = put(cache)
    assert entry.path == cache.directory / KEY
    assert not entry.path.is_symlink()
    assert (entry.path / TARBALL).read_bytes() == SMALL
    assert (entry.path / WORKS).read_bytes() == small()[WORKS]
    assert cache.tarball(KEY) == (entry, SMALL)
    assert left_over(cache) == []


def test_modes_are_for_the_owner_and_for_reading_by_the_group(cache: Cache) -> None:
    path = put(cache).path
    modes = {str(one.relative_to(path)): one.stat().st_mode & 0o7777 for one in (path, *path.rglob("*"))}
    directories = {".", "crds", "crds/bases", "crds/bases/work", "crds/patches"}
    assert {name: mode for name, mode in modes.items() if name != ".meta.json"} == {
        name: 0o700 if name in directories else 0o640 for name in modes if name != ".meta.json"
    }
    assert not modes[".meta.json"] & 0o002


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: (path / TARBALL).write_bytes(SMALL[:-1]),
        lambda path: (path / TARBALL).unlink(),
        lambda path: (path / ".meta.json").unlink(),
        lambda path: (path / ".meta.json").write_text("{"),
        lambda path: (path / ".meta.json").write_text("[" * 100_000),
        lambda path: ((path / ".meta.json").rename(path / "kept"), (path / ".meta.json").symlink_to(path / "kept")),
    ],
    ids=["tarball-cut", "tarball-gone", "no-record", "record-cut", "record-deep", "record-link"],
)
def test_an_entry_that_differs_from_its_record_is_not_returned(cache: Cache, damage: object) -> None:
    damage(put(cache).path)  # type: ignore[operator]
    assert cache.entry(KEY) is None


# --- Committing -------------------------------------------------------------------------------------------------------


def test_a_new_tarball_takes_the_place_of_the_old_one(cache: Cache) -> None:
    (put(cache).path / "crds/bases/left").write_text("of the old one")
    entry = put(cache, release(properties=1))
    assert cache.entry(KEY) == entry
    assert not (entry.path / "crds/bases/left").exists()
    assert left_over(cache) == []


@pytest.mark.parametrize(
    ("tarball", "options", "code"),
    [
        (SMALL[:-1], {}, Exit.INTEGRITY),
        (build({"crds/": None}), {}, Exit.ARCHIVE),
        (dotted(), {}, Exit.ARCHIVE),
        (release(properties=1), {"sha256": "0" * 64}, Exit.INTEGRITY),
    ],
)
def test_a_tarball_that_is_refused_leaves_the_old_entry(
    cache: Cache, tarball: bytes, options: dict[str, str], code: Exit
) -> None:
    before = put(cache)
    assert failure(lambda: put(cache, tarball, **options)).exit is code
    assert cache.entry(KEY) == before
    assert left_over(cache) == []


def test_a_confirmation_is_recorded(tmp_path: Path) -> None:
    put(at(tmp_path, 1))
    cache = at(tmp_path, 2)
    entry = cache.entry(KEY)
    assert entry is not None
    renewed = cache.renew(entry, Origin(URL, URL, '"v2"'))
    assert (renewed.record.etag, renewed.record.asked_at.day, renewed.record.fetched_at.day) == ('"v2"', 2, 1)
    assert cache.entry(KEY) == renewed


def test_a_read_only_cache_is_read_without_a_lock(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = put(cache)
    (cache.directory / ".lock").unlink()
    monkeypatch.setattr(os, "open", refuse_writing(os.open))
    assert cache.entry(KEY) == entry
    assert failure(lambda: cache.remove(KEY)).exit is Exit.DISK


def refuse_writing(opening: object) -> object:
    def open_file(path: object, flags: int, *rest: object, **more: object) -> int:
        if flags & os.O_CREAT:
            raise OSError(30, "Read-only file system", path)
        return opening(path, flags, *rest, **more)  # type: ignore[operator, no-any-return]

    return open_file


# --- Refusing ---------------------------------------------------------------------------------------------------------


def replace_by_link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))


def replace_by_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (replace_by_link, "is a symbolic link"),
        (lambda path: replace_by_link(path / TARBALL), "is a symbolic link"),
        (lambda path: replace_by_link(path.parent), "is a symbolic link"),
        (lambda path: replace_by_pipe(path / TARBALL), "is not a regular file"),
        (lambda path: path.chmod(0o777), "is world-writable"),
        (lambda path: (path / TARBALL).chmod(0o666), "is world-writable"),
    ],
)
def test_links_pipes_and_unsafe_modes_are_refused(cache: Cache, change: object, text: str) -> None:
    change(put(cache).path)  # type: ignore[operator]
    error = failure(lambda: cache.entry(KEY))
    assert error.exit is Exit.DISK
    assert text in str(error)


def test_a_refused_entry_is_listed_and_can_be_removed(cache: Cache, tmp_path: Path) -> None:
    cache.directory.mkdir()
    cache.path(KEY).symlink_to(tmp_path)
    assert [(listed.state, "symbolic link" in listed.problem) for listed in cache.entries()] == [("refused", True)]
    assert cache.remove(KEY)
    assert tmp_path.is_dir()
    assert cache.entries() == []


def test_nothing_is_written_through_a_linked_cache(cache: Cache, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    cache.directory.symlink_to(tmp_path / "elsewhere")
    assert failure(lambda: put(cache)).exit is Exit.DISK
    assert list((tmp_path / "elsewhere").iterdir()) == []


# --- The lock ---------------------------------------------------------------------------------------------------------


def test_readers_share_the_lock_and_a_writer_waits_for_them(cache: Cache) -> None:
    put(cache)
    root = cache.directory.parent
    descriptor = os.open(cache.directory / ".lock", os.O_RDWR)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    try:
        assert cache.entry(KEY) is not None
        assert failure(lambda: Cache(root, lock_seconds=0.05).remove(KEY)).exit is Exit.LOCKED
        thread = threading.Thread(target=lambda: put(Cache(root, lock_seconds=NET), release(properties=1)))
        thread.start()
        while not left_over(cache):
            time.sleep(0.001)
        assert cache.tarball(KEY)[1] == SMALL  # type: ignore[index]
    finally:
        os.close(descriptor)
    thread.join(NET)
    assert cache.tarball(KEY)[1] == release(properties=1)  # type: ignore[index]


def test_what_a_killed_process_left_is_removed_later(cache: Cache) -> None:
    put(cache)
    old, new = cache.directory / ".staging-old", cache.directory / ".staging-new"
    for path in (old, new):
        (path / "crds").mkdir(parents=True)
    os.utime(old, (0, 0))
    put(cache)
    assert left_over(cache) == [new.name]


# --- Lists and pruning ------------------------------------------------------------------------------------------------


def test_entries_are_listed_with_their_state(cache: Cache) -> None:
    keys = [str(digit) * 64 for digit in range(3)]
    put(cache, key=keys[0])
    cache.path(keys[1]).mkdir()
    (cache.path(keys[1]) / TARBALL).write_bytes(SMALL)
    (put(cache, key=keys[2]).path / TARBALL).write_text("other")
    (cache.directory / "something else").mkdir()
    assert [(listed.key, listed.state) for listed in cache.entries()] == list(
        zip(keys, ("ready", "bare", "changed"), strict=True)
    )
    assert cache.entries()[1].size == len(SMALL)


def at(tmp_path: Path, day: int) -> Cache:
    return Cache(tmp_path, clock=lambda: datetime(2026, 11, day, tzinfo=UTC))


def test_pruning_removes_old_entries_then_those_beyond_the_size(tmp_path: Path) -> None:
    keys = [str(digit) * 64 for digit in range(4)]
    for day, key in enumerate(keys, start=1):
        put(at(tmp_path, day), key=key)
    cache = at(tmp_path, 10)
    age, size = timedelta(days=8), cache.entries()[0].size
    most = 2 * size + size // 2
    assert [entry.key for entry in cache.prune(older_than=age, max_bytes=most, dry_run=True)] == keys[:2]
    assert len(cache.entries()) == 4
    assert [entry.key for entry in cache.prune(older_than=age, max_bytes=most, keep=3)] == keys[:1]
    assert [entry.key for entry in cache.prune(older_than=age, max_bytes=most)] == keys[1:2]
    assert [entry.key for entry in cache.entries()] == keys[2:]
    assert left_over(cache) == []


TODAY = datetime(2026, 6, 1, tzinfo=UTC)


def aged(key: str, days: int, size: int = 10) -> ListedEntry:
    return ListedEntry(key, Path(key), "ready", size, TODAY - timedelta(days=days), None)


AGED = [aged("new", 0), aged("old", 30), aged("middle", 10), aged("future", -5)]


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
    assert [one.key for one in select_removable(AGED, now=TODAY, **options)] == keys
