"""Files and directories relative to descriptors: no link is followed, no pipe waited for."""

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fleethook.engines.crds.descriptors import (
    DIRECTORY,
    FILE_MODE,
    exists,
    list_names,
    open_at,
    open_directory_at,
    open_parent,
    read_regular,
    remove,
    write_all,
    write_new,
)


@pytest.fixture
def root(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/file").write_bytes(b"text")
    (tmp_path / "link").symlink_to("a")
    with open_directory_at(tmp_path) as descriptor:
        yield descriptor


def count_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_the_parent_of_a_path_is_open_during_the_block(root: int) -> None:
    before = count_descriptors()
    with open_parent(root, "a/b/file") as (parent, name):
        assert (list_names(parent), name) == (["file"], "file")
    with open_parent(root, "file") as (parent, name):
        assert (parent, name) == (root, "file")
    assert count_descriptors() == before


@pytest.mark.parametrize("path", ["link/b/file", "a/b/file/x", "absent/file"])
def test_a_link_a_file_or_nothing_in_the_path_is_an_error(root: int, path: str) -> None:
    before = count_descriptors()
    with pytest.raises(OSError, match=r"."), open_parent(root, path):
        pass
    assert count_descriptors() == before


def test_a_descriptor_stays_with_its_directory_when_a_link_replaces_it(tmp_path: Path, root: int) -> None:
    with open_at("a", DIRECTORY, root) as directory:
        (tmp_path / "a").rename(tmp_path / "moved")
        (tmp_path / "a").symlink_to("/")
        with open_directory_at(directory) as again:
            assert list_names(again) == ["b"]
    with pytest.raises(OSError, match=r"."), open_directory_at(tmp_path / "a"):
        pass


@pytest.mark.parametrize(("most", "is_read"), [(4, True), (3, False), (0, False)])
def test_a_file_is_read_up_to_its_limit(tmp_path: Path, most: int, *, is_read: bool) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"text")
    if is_read:
        assert read_regular(path, most=most) == b"text"
        return
    with pytest.raises(OSError, match=f"more than {most} bytes") as caught:
        read_regular(path, most=most)
    assert caught.value.errno == errno.EFBIG


def test_a_file_that_grows_while_it_is_read_is_too_large() -> None:
    # The kernel says that a file of /proc has no bytes.
    with pytest.raises(OSError, match="more than 3 bytes"):
        read_regular("/proc/self/status", most=3)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["pipe", "directory"])
def test_only_regular_files_are_read(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "x")
    with pytest.raises(OSError, match="not a regular file"):
        read_regular(tmp_path / "x", most=10)


def test_a_link_to_a_file_is_read_only_if_it_may_be_followed(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"text")
    (tmp_path / "link").symlink_to("file")
    assert read_regular(tmp_path / "link", most=10, follow=True) == b"text"
    with pytest.raises(OSError, match=r".") as caught:
        read_regular(tmp_path / "link", most=10)
    assert caught.value.errno == errno.ELOOP


def test_a_new_file_has_a_private_mode_and_replaces_nothing(tmp_path: Path, root: int) -> None:
    write_new("new", root, b"text")
    assert (tmp_path / "new").read_bytes() == b"text"
    assert (tmp_path / "new").stat().st_mode & 0o777 & ~FILE_MODE == 0
    for name in ("new", "link"):
        with pytest.raises(FileExistsError):
            write_new(name, root, b"other")


def test_all_bytes_are_written_although_the_kernel_takes_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = bytearray()

    def write(_descriptor: int, data: memoryview) -> int:
        taken.extend(data[:3])
        return len(data[:3])

    monkeypatch.setattr(os, "write", write)
    write_all(1, b"0123456789")
    assert bytes(taken) == b"0123456789"


def test_a_dangling_link_exists(tmp_path: Path, root: int) -> None:
    (tmp_path / "dangling").symlink_to("absent")
    assert [exists(name, root) for name in ("a", "dangling", "absent")] == [True, True, False]


def test_removal_takes_links_away_and_not_their_targets(tmp_path: Path, root: int) -> None:
    (tmp_path / "a/b/outside").symlink_to(tmp_path / "kept")
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept/file").touch()
    for name in ("a", "link", "absent"):
        remove(name, root)
    assert sorted(list_names(root)) == ["kept"]
    assert (tmp_path / "kept/file").exists()


def test_directories_that_are_nested_too_deeply_are_not_removed(tmp_path: Path, root: int) -> None:
    deep = tmp_path / "deep"
    deep.mkdir()
    with pytest.raises(OSError, match="levels of directories") as caught:
        remove("deep", root, depth=201)
    assert caught.value.errno == errno.EMFILE
    assert deep.exists()
    remove("deep", root, depth=200)
    assert not deep.exists()
