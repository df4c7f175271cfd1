"""Locks: one writer or many readers, in files that are no links."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fleethook.engines.crds.cache.cache_locks import Lock, lock_exclusive, lock_shared, try_exclusive
from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.engines.crds.descriptors import open_directory_at


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
