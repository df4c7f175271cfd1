import hashlib
import json
import os
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fleethook.engines.crds.archive.crd_content import ArchiveLimits
from fleethook.engines.crds.cache import cache_layout
from fleethook.engines.crds.cache.cache_entry import TARBALL
from fleethook.engines.crds.cache.tarball_cache import Cache, Entry, Origin
from fleethook.engines.crds.crds_errors import CRDsError, Exit
from tests.engines.crds.tarballs import build, dotted, release, small

URL = "http://origin.example/crds.tar.gz"
KEY = hashlib.sha256(URL.encode()).hexdigest()
ORIGIN = Origin(URL, URL, '"v1"', "Sat, 21 Nov 2026 10:00:00 GMT")
SMALL = build(small())
WORKS = "crds/bases/work/work.karmada.io_works.yaml"


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path)


def put(cache: Cache, tarball: bytes = SMALL, *, key: str = KEY, origin: Origin = ORIGIN, **more: object) -> Entry:
    with cache.lock(key, 5), cache.staging() as staged:
        (staged.path / TARBALL).write_bytes(tarball)
        return cache.commit(key, staged, origin, seconds=1, **more)


def place(cache: Cache, tarball: bytes = SMALL, *, key: str = KEY) -> Path:
    path = cache.path(key)
    path.mkdir(parents=True)
    (path / TARBALL).write_bytes(tarball)
    return path


def left_over(cache: Cache) -> list[str]:
    return [entry.name for name in (".staging", ".trash") for entry in (cache.directory / name).iterdir()]


def tree(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def failure(call: object) -> CRDsError:
    with pytest.raises(CRDsError) as caught:
        call()  # type: ignore[operator]
    return caught.value


# --- Whole or not there -----------------------------------------------------------------------------------------------


def test_an_empty_cache_has_nothing_and_makes_nothing_on_disk(cache: Cache, tmp_path: Path) -> None:
    assert cache.entry(KEY) is None
    assert cache.entries() == []
    assert list(tmp_path.iterdir()) == []


def test_a_committed_entry_has_the_layout_of_the_go_operator(cache: Cache) -> None:
    entry = put(cache)
    assert entry.path == cache.directory / KEY
    assert not entry.path.is_symlink()
    assert (entry.path / TARBALL).read_bytes() == SMALL
    assert (entry.path / WORKS).read_bytes() == small()[WORKS]
    assert cache.entry(KEY) == entry
    assert left_over(cache) == []


def test_modes_are_for_the_owner_and_for_reading_by_the_group(cache: Cache) -> None:
    path = put(cache).path
    modes = {str(one.relative_to(path)): one.stat().st_mode & 0o7777 for one in (path, *path.rglob("*"))}
    directories = {".", "crds", "crds/bases", "crds/bases/work", "crds/patches"}
    assert modes == {name: 0o700 if name in directories else 0o640 for name in modes}
    assert directories < modes.keys()


def test_the_record_has_the_digest_and_the_origin(cache: Cache) -> None:
    path = put(cache).path
    record = json.loads((path / ".meta.json").read_text())
    assert (record["schema"], record["url"], record["etag"]) == (1, URL, '"v1"')
    assert (record["sha256"], record["size"]) == (hashlib.sha256(SMALL).hexdigest(), len(SMALL))


def test_a_change_that_restores_size_and_modification_time_is_seen(cache: Cache) -> None:
    file = put(cache).path / WORKS
    before, content = file.stat(), file.read_bytes()
    with file.open("r+b") as opened:
        opened.write(b"Z" + content[1:])
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert cache.entry(KEY) is None
    assert cache.verify(KEY) == [f"{WORKS} has different content"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: (path / WORKS).unlink(),
        lambda path: (path / "crds/bases/work/extra.yaml").write_text("x"),
        lambda path: (path / TARBALL).write_bytes(SMALL[:-1]),
        lambda path: (path / TARBALL).unlink(),
        lambda path: (path / ".meta.json").unlink(),
        lambda path: (path / ".meta.json").write_text("{"),
        lambda path: (path / ".meta.json").write_text("[" * 100_000),
        lambda path: (path / WORKS).replace(path / "crds/bases/work/other.yaml"),
        lambda path: ((path / WORKS).rename(path / "kept"), (path / WORKS).symlink_to(path / "kept")),
        lambda path: ((path / "crds").rename(path / "kept"), (path / "crds").symlink_to(path / "kept")),
    ],
    ids=[
        "file-gone", "file-more", "tarball-cut", "tarball-gone", "no-record", "record-cut", "record-deep", "renamed",
        "link", "dir-link",
    ],
)  # fmt: skip
def test_an_entry_that_differs_from_its_record_is_not_returned(cache: Cache, damage: object) -> None:
    path = put(cache).path
    damage(path)  # type: ignore[operator]
    assert cache.entry(KEY) is None
    assert cache.verify(KEY) != []


def test_verifying_a_missing_entry_is_an_error(cache: Cache) -> None:
    assert failure(lambda: cache.verify(KEY)).exit is Exit.NOT_CACHED


@pytest.mark.parametrize("key", ["", "..", "x" * 64, "A" * 64, "0" * 63, "0" * 64 + "\n"])
def test_only_digests_are_keys(cache: Cache, key: str) -> None:
    assert failure(lambda: cache.entry(key)).exit is Exit.USAGE


# --- Committing -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("atomic", [True, False], ids=["exchange", "two-renames"])
def test_a_new_tarball_takes_the_place_of_the_old_one(
    cache: Cache, monkeypatch: pytest.MonkeyPatch, *, atomic: bool
) -> None:
    if not atomic:
        monkeypatch.setattr(cache_layout, "exchange", lambda *_: False)
    put(cache)
    new = release(properties=2)
    put(cache, new)
    entry = cache.entry(KEY)
    assert entry is not None
    assert entry.record.sha256 == hashlib.sha256(new).hexdigest()
    with cache.staging():
        pass
    assert left_over(cache) == []


def test_a_broken_tarball_leaves_the_old_entry(cache: Cache) -> None:
    before = put(cache)
    assert failure(lambda: put(cache, SMALL[:-5])).exit is Exit.INTEGRITY
    assert cache.entry(KEY) == before
    assert left_over(cache) == []


def test_another_digest_than_the_pinned_one_is_never_committed(cache: Cache) -> None:
    error = failure(lambda: put(cache, sha256="0" * 64))
    assert error.exit is Exit.INTEGRITY
    assert cache.entry(KEY) is None
    assert left_over(cache) == []


def test_limits_are_those_of_the_cache(tmp_path: Path) -> None:
    cache = Cache(tmp_path, limits=ArchiveLimits(entries=3))
    assert failure(lambda: put(cache)).exit is Exit.LIMIT


# --- Adopting ---------------------------------------------------------------------------------------------------------


def test_a_tarball_placed_by_hand_is_adopted(cache: Cache) -> None:
    place(cache)
    assert cache.entry(KEY) is None
    adopted = cache.adopt(KEY, url=URL)
    assert adopted is not None
    assert adopted.found == ()
    assert cache.entry(KEY) == adopted.entry
    assert (adopted.entry.record.url, adopted.entry.record.asked) == (URL, 0)


def test_a_tree_without_a_record_is_compared_and_rebuilt(cache: Cache) -> None:
    path = place(cache)
    (path / "crds/bases").mkdir(parents=True)
    adopted = cache.adopt(KEY)
    assert adopted is not None
    assert f"{WORKS} is missing" in adopted.found
    assert cache.verify(KEY) == []


def test_an_intact_tree_without_a_record_has_no_problems(cache: Cache) -> None:
    path = put(cache).path
    (path / ".meta.json").unlink()
    adopted = cache.adopt(KEY)
    assert adopted is not None
    assert adopted.found == ()


def test_a_tarball_that_is_not_the_recorded_one_is_not_adopted(cache: Cache) -> None:
    path = put(cache).path
    (path / TARBALL).write_bytes(release(properties=1))
    assert cache.adopt(KEY) is None


def test_an_entry_of_names_with_dots_is_verified_and_can_be_repaired(cache: Cache) -> None:
    assert failure(lambda: put(cache, dotted())).exit is Exit.ARCHIVE
    entry = put(cache, dotted(), normalize_dot=True)
    assert (entry.path / TARBALL).read_bytes() == dotted()
    assert (entry.path / WORKS).is_file()
    assert cache.entry(KEY) is not None
    assert cache.verify(KEY) == []
    (entry.path / WORKS).write_bytes(b"damaged")
    assert cache.repair(KEY).found == (f"{WORKS} has 7 bytes instead of {len(small()[WORKS] or b'')}",)
    assert cache.verify(KEY) == []


def test_names_with_dots_are_adopted_if_allowed(cache: Cache) -> None:
    place(cache, dotted())
    assert failure(lambda: cache.adopt(KEY)).exit is Exit.ARCHIVE
    adopted = cache.adopt(KEY, normalize_dot=True)
    assert adopted is not None
    assert (adopted.entry.path / WORKS).is_file()


def test_a_record_of_an_earlier_release_is_read(cache: Cache) -> None:
    entry = put(cache)
    record = json.loads((entry.path / ".meta.json").read_bytes())
    del record["normalize_dot"]
    record |= {
        "verified_at": record["asked_at"],
        "manifest": {WORKS: {"size": 1, "sha256": ""}},
        "seen": {WORKS: [1, 2, 3, 4]},
    }
    (entry.path / ".meta.json").write_text(json.dumps(record))
    assert cache.entry(KEY) == entry


@pytest.mark.parametrize("tarball", [b"", None])
def test_without_a_tarball_nothing_is_adopted(cache: Cache, tarball: bytes | None) -> None:
    if tarball is not None:
        place(cache, tarball)
    assert cache.adopt(KEY) is None


def test_a_damaged_tree_is_repaired_from_its_tarball_and_keeps_its_origin(cache: Cache) -> None:
    before = put(cache)
    (before.path / WORKS).write_text("other")
    repaired = cache.repair(KEY)
    assert len(repaired.found) == 1
    assert cache.verify(KEY) == []
    assert (repaired.entry.record.etag, repaired.entry.record.asked) == ('"v1"', 1)


def test_repairing_an_intact_entry_changes_nothing(cache: Cache) -> None:
    before = put(cache)
    assert cache.repair(KEY).found == ()
    assert cache.entry(KEY).record.fetched_at == before.record.fetched_at  # type: ignore[union-attr]


def test_without_its_tarball_nothing_is_repaired(cache: Cache) -> None:
    (put(cache).path / TARBALL).unlink()
    assert failure(lambda: cache.repair(KEY)).exit is Exit.NOT_CACHED


# --- Refusing ---------------------------------------------------------------------------------------------------------


def test_an_entry_that_is_a_link_is_refused(cache: Cache, tmp_path: Path) -> None:
    path = put(cache).path
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    error = failure(lambda: cache.entry(KEY))
    assert error.exit is Exit.DISK
    assert str(error) == f"{path} is a symbolic link: refused; remove it, or correct its type, owner and mode"
    assert failure(lambda: cache.adopt(KEY)).exit is Exit.DISK


def test_a_tarball_that_is_a_link_is_refused(cache: Cache, tmp_path: Path) -> None:
    path = place(cache)
    (path / TARBALL).rename(tmp_path / "elsewhere")
    (path / TARBALL).symlink_to(tmp_path / "elsewhere")
    assert "is a symbolic link" in str(failure(lambda: cache.adopt(KEY)))


def test_a_pipe_for_a_tarball_is_refused_and_not_waited_for(cache: Cache) -> None:
    path = place(cache)
    (path / TARBALL).unlink()
    os.mkfifo(path / TARBALL)
    assert "is not a regular file" in str(failure(lambda: cache.adopt(KEY)))


def test_a_world_writable_entry_is_refused(cache: Cache) -> None:
    put(cache).path.chmod(0o777)
    assert "is world-writable" in str(failure(lambda: cache.entry(KEY)))


def test_a_refused_entry_is_listed_and_can_be_removed(cache: Cache, tmp_path: Path) -> None:
    cache.directory.mkdir()
    cache.path(KEY).symlink_to(tmp_path)
    assert [(listed.state, "symbolic link" in listed.problem) for listed in cache.entries()] == [("refused", True)]
    assert cache.remove(KEY, seconds=1)
    assert tmp_path.is_dir()
    assert cache.entries() == []


# --- Locks ------------------------------------------------------------------------------------------------------------


def test_the_holder_of_a_lock_is_named(cache: Cache) -> None:
    with cache.lock(KEY, 1):
        error = failure(lambda: cache.lock(KEY, 0).__enter__())
    assert error.exit is Exit.LOCKED
    assert error.transient
    assert f"is held by pid {os.getpid()} on host {os.uname().nodename}; waited 0 s" in str(error)


def test_threads_wait_for_each_other(cache: Cache) -> None:
    inside: list[int] = []
    most: list[int] = []

    def work() -> None:
        with cache.lock(KEY, 30):
            inside.append(1)
            most.append(len(inside))
            inside.pop()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 8


def test_readers_share_the_lock_and_delay_a_commit(cache: Cache) -> None:
    before = put(cache)
    with cache.reading(KEY, 1), cache.reading(KEY, 1):
        error = failure(lambda: put(cache, release(properties=1)))
        assert error.exit is Exit.LOCKED
        assert "is held by readers" in str(error)
        assert tree(before.path)[WORKS] == small()[WORKS]
    assert cache.entry(KEY) == before
    assert put(cache, release(properties=1)).record.sha256 != before.record.sha256


def test_a_reader_does_not_wait_for_a_download(cache: Cache) -> None:
    put(cache)
    with cache.lock(KEY, 1), cache.reading(KEY, 0):
        assert cache.entry(KEY) is not None


def test_one_key_does_not_lock_another(cache: Cache) -> None:
    with cache.lock(KEY, 1), cache.lock("0" * 64, 0):
        pass


def test_a_sweep_keeps_locked_staging_directories(cache: Cache) -> None:
    with cache.staging() as mine:
        staging = cache.directory / ".staging"
        (staging / "dead" / "crds").mkdir(parents=True)
        (cache.directory / ".trash/old").mkdir()
        (staging / "file").write_text("x")
        with cache.staging() as other:
            assert sorted(path.name for path in staging.iterdir()) == sorted([mine.location.name, other.location.name])
    assert left_over(cache) == []


# --- Listing and pruning ----------------------------------------------------------------------------------------------


def test_entries_are_listed_with_their_state(cache: Cache) -> None:
    keys = [str(digit) * 64 for digit in range(3)]
    put(cache, key=keys[0])
    place(cache, key=keys[1])
    (put(cache, key=keys[2]).path / WORKS).write_text("other")
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
    size = cache.entries()[0].size
    wishes = {"older_than": timedelta(days=8), "max_bytes": 2 * size + size // 2}
    assert [entry.key for entry in cache.prune(**wishes, dry_run=True)] == keys[:2]
    assert len(cache.entries()) == 4
    assert [entry.key for entry in cache.prune(**wishes, keep=3)] == keys[:1]
    assert [entry.key for entry in cache.prune(**wishes)] == keys[1:2]
    assert [entry.key for entry in cache.entries()] == keys[2:]
    assert left_over(cache) == []


def test_an_entry_with_a_future_date_counts_as_new(tmp_path: Path) -> None:
    put(at(tmp_path, 20))
    assert at(tmp_path, 1).prune(older_than=timedelta(days=1)) == []


def test_pruning_keeps_entries_in_use(tmp_path: Path) -> None:
    put(at(tmp_path, 1))
    cache = at(tmp_path, 20)
    with cache.reading(KEY, 1):
        assert cache.prune(older_than=timedelta(days=1)) == []
    assert [entry.key for entry in cache.prune(older_than=timedelta(days=1))] == [KEY]


def test_removing_returns_whether_the_entry_existed(cache: Cache) -> None:
    put(cache)
    assert cache.remove(KEY, seconds=1)
    assert not cache.remove(KEY, seconds=1)
