"""Directories and locks of the cache, below the operations of `Cache`."""

import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fleethook.engines.crds.cache import cache_layout as layout_module
from fleethook.engines.crds.cache.cache_layout import (
    Layout,
    Lock,
    create_staging,
    find_data_directory,
    lock_exclusive,
    lock_shared,
    sweep,
    try_exclusive,
)
from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.engines.crds.descriptors import list_names, open_directory_at


@pytest.fixture
def parent(tmp_path: Path) -> Iterator[int]:
    with open_directory_at(tmp_path) as descriptor:
        yield descriptor


def test_a_staging_directory_is_private_and_removed_with_its_content(tmp_path: Path, parent: int) -> None:
    with create_staging(parent, Path("/shown")) as staged:
        (found,) = tmp_path.iterdir()
        assert (found.name, found.stat().st_mode & 0o777) == (staged.location.name, 0o700)
        (staged.path / "file").write_bytes(b"x")
        assert list_names(staged.directory) == ["file"]
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(staged.directory)


def test_the_path_leads_to_the_directory_although_a_link_takes_its_name(tmp_path: Path, parent: int) -> None:
    with create_staging(parent, tmp_path) as staged:
        name = staged.location.name
        (tmp_path / name).rename(tmp_path / "moved")
        (tmp_path / name).symlink_to("/")
        (staged.path / "file").write_bytes(b"x")
        assert [one.name for one in (tmp_path / "moved").iterdir()] == ["file"]
    assert [one.name for one in tmp_path.iterdir()] == ["moved"], "the link is removed, not its target"


def test_an_error_shows_the_path_in_the_cache(parent: int) -> None:
    with pytest.raises(CRDsError) as caught, create_staging(parent, Path("/shown")) as staged:
        raise CRDsError(Exit.HTTP, f"cannot write {staged.path}/file", transient=True)
    assert (caught.value.exit, caught.value.transient) == (Exit.HTTP, True)
    assert str(caught.value) == f"cannot write /shown/{staged.location.name}/file"


def test_another_error_is_raised_as_it_is(tmp_path: Path, parent: int) -> None:
    error = CRDsError(Exit.HTTP, "no")
    with pytest.raises(CRDsError) as caught, create_staging(parent, Path("/shown")):
        raise error
    assert caught.value is error
    assert list(tmp_path.iterdir()) == []


def test_a_sweep_removes_abandoned_content_and_spares_a_directory_in_use(tmp_path: Path, parent: int) -> None:
    (tmp_path / "abandoned/deep").mkdir(parents=True)
    (tmp_path / "file").touch()
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept/thesis").touch()
    (tmp_path / "abandoned/link").symlink_to(tmp_path / "kept")
    (tmp_path / "link").symlink_to("kept")
    with create_staging(parent, tmp_path) as staged, open_directory_at(tmp_path / "kept") as kept:
        fcntl.flock(kept, fcntl.LOCK_EX)
        sweep(parent)
        assert sorted(one.name for one in tmp_path.iterdir()) == sorted([staged.location.name, "kept"])
    assert (tmp_path / "kept/thesis").exists()
    sweep(parent)
    assert list(tmp_path.iterdir()) == []


def test_the_data_directory_follows_the_convention_of_the_desktop(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert find_data_directory() == tmp_path / "fleethook"
    assert list(tmp_path.iterdir()) == []


KEY, OTHER = "a" * 64, "b" * 64


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path / "data")


def put(layout: Layout, text: str, key: str = KEY) -> None:
    with layout.lock(key, 1), layout.staging() as staged:
        (staged.path / "file").write_text(text)
        layout.put(key, staged, seconds=1)


def read(layout: Layout, key: str = KEY) -> str | None:
    with layout.open_entry_directory(key) as entry:
        if entry is None:
            return None
        with os.fdopen(os.open("file", os.O_RDONLY, dir_fd=entry)) as file:
            return file.read()


@pytest.mark.parametrize("key", ["", "a", "A" * 64, "a" * 63 + "/", "../" + "a" * 61])
def test_only_keys_have_a_path(layout: Layout, key: str) -> None:
    with pytest.raises(CRDsError, match="is not a key of the cache") as raised:
        layout.path(key)
    assert raised.value.exit is Exit.USAGE


def test_reading_a_cache_that_does_not_exist_creates_nothing(layout: Layout) -> None:
    assert (layout.keys(), layout.exists(KEY), read(layout), layout.remove(KEY)) == ([], False, None, False)
    assert not layout.directory.parent.exists()


def test_the_first_write_creates_the_directories_for_this_user_only(layout: Layout) -> None:
    put(layout, "one")
    assert sorted(path.name for path in layout.directory.iterdir()) == [".locks", ".staging", ".trash", KEY]
    assert {stat.S_IMODE(path.stat().st_mode) for path in layout.directory.iterdir()} == {0o700}


def test_keys_are_those_of_entries_in_any_state(layout: Layout) -> None:
    put(layout, "one", OTHER)
    put(layout, "two")
    (layout.directory / ("c" * 64)).write_text("a file in place of an entry")
    (layout.directory / "no-key").mkdir()
    assert layout.keys() == [KEY, OTHER, "c" * 64]
    assert layout.exists("c" * 64)


def test_an_entry_is_replaced_and_its_reader_never_sees_the_new_one(layout: Layout) -> None:
    put(layout, "one")
    with layout.open_entry_directory(KEY) as entry:
        assert entry is not None
        with os.fdopen(os.open("file", os.O_RDONLY, dir_fd=entry)) as file:
            put(layout, "two")
            assert file.read() == "one"
        with pytest.raises(FileNotFoundError):
            os.open("file", os.O_RDONLY, dir_fd=entry)
    assert read(layout) == "two"
    assert list((layout.directory / ".staging").iterdir()) == []


def test_without_an_exchange_of_directories_an_entry_is_replaced_by_two_renames(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout_module, "exchange", lambda *_: False)  # as on a file system without RENAME_EXCHANGE
    put(layout, "one")
    put(layout, "two")
    assert read(layout) == "two"
    put(layout, "three")  # this write removes the former entries
    assert len(list((layout.directory / ".trash").iterdir())) == 1


def test_a_removed_entry_is_gone_at_once(layout: Layout) -> None:
    put(layout, "one")
    assert layout.remove(KEY)
    assert (layout.exists(KEY), layout.keys(), layout.remove(KEY)) == (False, [], False)
    assert list((layout.directory / ".trash").iterdir()) == []


def test_staging_that_is_not_put_is_removed(layout: Layout) -> None:
    with layout.staging() as staged:
        (staged.path / "file").write_text("unused")
        assert len(list((layout.directory / ".staging").iterdir())) == 1
    assert [path for path in (layout.directory / ".staging").iterdir() if path.is_dir()] == []


def test_a_reader_delays_the_swap_and_not_the_download(layout: Layout) -> None:
    put(layout, "one")
    with layout.reading(KEY, 1), layout.lock(KEY, 1), layout.staging() as staged:
        with layout.reading(KEY, 1):  # readers share the lock
            pass
        with pytest.raises(CRDsError) as raised:
            layout.put(KEY, staged, seconds=0.05)
        assert raised.value.exit is Exit.LOCKED
    assert read(layout) == "one"


def test_one_process_downloads_an_entry_at_a_time(layout: Layout) -> None:
    with layout.lock(KEY, 1):
        with pytest.raises(CRDsError) as raised, layout.lock(KEY, 0.05):
            pass
        assert raised.value.exit is Exit.LOCKED
        with layout.lock(OTHER, 1):
            pass


def test_a_cache_that_cannot_be_written_can_be_read(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    put(layout, "one")

    def refuse(_: Layout) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Layout, "_make_directories", refuse)
    with layout.reading(KEY, 1):
        assert read(layout) == "one"
    with pytest.raises(CRDsError, match="Permission denied") as raised, layout.lock(KEY, 1):
        pass
    assert raised.value.exit is Exit.DISK


@pytest.fixture
def lock(tmp_path: Path) -> Iterator[Lock]:
    with open_directory_at(tmp_path) as descriptor:
        yield Lock(descriptor, tmp_path / "a.lock")


def count_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_writer_excludes_writers_and_readers_and_is_named(lock: Lock) -> None:
    with lock_exclusive(lock, seconds=0):
        before = count_descriptors()
        for other in (lock_exclusive, lock_shared):
            with pytest.raises(
                CRDsError, match=rf"{lock.path} is held by pid {os.getpid()} on host .*; waited 0 s"
            ) as caught:
                other(lock, seconds=0).__enter__()
            assert (caught.value.exit, caught.value.transient) == (Exit.LOCKED, True)
        assert count_descriptors() == before
    assert lock.path.read_bytes() == b""
    with lock_exclusive(lock, seconds=0):
        pass


def test_readers_share_a_lock_and_exclude_writers(lock: Lock) -> None:
    refused = pytest.raises(CRDsError, match="is held by readers; waited 0 s")
    with lock_shared(lock, seconds=0), lock_shared(lock, seconds=0), refused:
        lock_exclusive(lock, seconds=0).__enter__()
    with lock_exclusive(lock, seconds=0):
        pass


def test_an_error_of_the_block_releases_the_lock(lock: Lock) -> None:
    for take in (lock_exclusive, lock_shared):
        with pytest.raises(ZeroDivisionError), take(lock, seconds=0):
            raise ZeroDivisionError
        assert lock.path.read_bytes() == b""
    with lock_exclusive(lock, seconds=0):
        pass


def make_hard_link(path: Path) -> None:
    path.with_name("precious").write_bytes(b"text")
    path.hardlink_to(path.with_name("precious"))


@pytest.mark.parametrize(
    ("make", "wrong"),
    [
        (lambda path: path.symlink_to("precious"), "is a symbolic link"),
        (make_hard_link, "has a hard link"),
        (os.mkfifo, "is not a regular file"),
    ],
)
@pytest.mark.parametrize("take", [lock_exclusive, lock_shared])
def test_a_file_that_leads_elsewhere_is_refused_and_stays(
    lock: Lock, make: Callable[[Path], None], wrong: str, take: Callable[..., object]
) -> None:
    make(lock.path)
    before = count_descriptors()
    with pytest.raises(CRDsError, match=f"{lock.path} {wrong}: refused; remove it") as caught:
        take(lock, seconds=0).__enter__()  # type: ignore[attr-defined]
    assert caught.value.exit is Exit.DISK
    assert count_descriptors() == before
    precious = lock.path.with_name("precious")
    assert not precious.exists() or precious.read_bytes() == b"text"


def test_an_open_directory_is_locked_until_it_is_closed(tmp_path: Path) -> None:
    with open_directory_at(tmp_path) as first, open_directory_at(tmp_path) as second:
        assert try_exclusive(first)
        assert not try_exclusive(second)
        with open_directory_at(tmp_path) as third:
            assert not try_exclusive(third)
    with open_directory_at(tmp_path) as again:
        assert try_exclusive(again)


def test_another_file_of_the_directory_has_a_lock_of_its_own(lock: Lock) -> None:
    with lock_exclusive(lock, seconds=0), lock_exclusive(lock._replace(path=lock.path.with_name("b.lock")), seconds=0):
        pass
