"""The cache follows no link, at any path and created at any moment."""

import contextlib
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fleethook.engines.crds.cache.cache_entry import TARBALL
from fleethook.engines.crds.cache.tarball_cache import Cache, Origin
from fleethook.engines.crds.crds_errors import CRDsError, Exit
from tests.engines.crds.tarballs import build, release, small

KEY = "0" * 64
SMALL, OTHER = build(small()), build({**small(), "crds/more": b"more"})
NAMES = [".staging", ".trash", ".locks", KEY, ""]
"""Directories of the cache, and the cache's own."""

Operation = Callable[[Cache], object]


def put(cache: Cache, tarball: bytes = OTHER) -> None:
    with cache.lock(KEY, 1), cache.staging() as staged:
        (staged.path / TARBALL).write_bytes(tarball)
        cache.commit(KEY, staged, Origin(), seconds=1)


def damage(cache: Cache) -> None:
    (cache.path(KEY) / "crds/bases/work/work.karmada.io_works.yaml").write_text("damaged")


OPERATIONS: dict[str, Operation] = {
    "commit": put,
    "remove": lambda cache: cache.remove(KEY, seconds=1),
    "repair": lambda cache: cache.repair(KEY, seconds=1),
    "read": lambda cache: (cache.entry(KEY), cache.verify(KEY), cache.entries()),
}


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    """A directory of another user with the names of a cache."""
    directory = tmp_path / "precious"
    for path in ("thesis.txt", "crds/bases/work/thesis.txt", "crds/thesis.txt", f"{KEY}/thesis.txt", ".staging/a/thesis.txt",
                 ".trash/thesis.txt", ".locks/thesis.txt", f"{KEY}.lock", f"{KEY}.fetch.lock"):  # fmt: skip
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / path).write_text("years of work")
    (directory / TARBALL).write_bytes(SMALL)
    return directory


def contents(directory: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path.relative_to(directory)): (path.lstat().st_mode, path.read_bytes() if path.is_file() else b"")
        for path in sorted(directory.rglob("*"))
    }


def filled(root: Path) -> Cache:
    cache = Cache(root)
    put(cache, SMALL)
    return cache


def plant(cache: Cache, name: str, target: Path) -> None:
    """Put a link where a directory of the cache is."""
    path = cache.directory / name if name else cache.directory
    if path.exists():
        path.rename(cache.directory.parent / "moved")
    path.symlink_to(target)


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("name", NAMES, ids=lambda name: name[:8] or "cache")
def test_a_planted_link_is_not_followed(tmp_path: Path, precious: Path, name: str, operation: str) -> None:
    cache, before = filled(tmp_path / "data"), contents(precious)
    damage(cache)
    plant(cache, name, precious)
    with contextlib.suppress(CRDsError):
        OPERATIONS[operation](cache)
    assert contents(precious) == before


@pytest.mark.parametrize("name", [".staging", ".trash", ".locks", ""], ids=lambda name: name or "cache")
def test_a_link_in_the_place_of_our_directories_is_refused_by_name(tmp_path: Path, precious: Path, name: str) -> None:
    cache = filled(tmp_path / "data")
    plant(cache, name, precious)
    with pytest.raises(CRDsError) as caught:
        put(cache)
    path = cache.directory / name if name else cache.directory
    text = f"{path} is a symbolic link: refused; remove it, or correct its type, owner and mode"
    assert (caught.value.exit, str(caught.value)) == (Exit.DISK, text)


@pytest.mark.parametrize("name", [".staging", ".trash", ".locks"])
def test_a_file_in_the_place_of_our_directories_is_refused_by_name(tmp_path: Path, name: str) -> None:
    cache = filled(tmp_path / "data")
    (cache.directory / name).rename(tmp_path / "moved")
    (cache.directory / name).write_text("")
    with pytest.raises(CRDsError, match=f"{name} is not a directory: refused"):
        put(cache)


@pytest.mark.parametrize("name", [TARBALL, ".meta.json", "crds", "crds/bases", "crds/bases/work"])
def test_a_link_within_an_entry_is_not_followed(tmp_path: Path, precious: Path, name: str) -> None:
    cache = filled(tmp_path / "data")
    path = cache.path(KEY) / name
    path.rename(tmp_path / "moved")
    path.symlink_to(precious / name if (precious / name).exists() else precious / "thesis.txt")
    before = contents(precious)
    with contextlib.suppress(CRDsError):
        assert cache.entry(KEY) is None
    for operation in ("read", "repair", "commit", "remove"):
        with contextlib.suppress(CRDsError):
            OPERATIONS[operation](cache)
    assert contents(precious) == before


@pytest.mark.parametrize("link", [os.symlink, os.link], ids=["link", "second-name"])
@pytest.mark.parametrize("suffix", [".lock", ".fetch.lock"])
def test_a_lock_that_is_a_link_to_another_file_is_refused(
    tmp_path: Path, precious: Path, suffix: str, link: Callable[[Path, Path], None]
) -> None:
    cache, before = filled(tmp_path / "data"), contents(precious)
    lock = cache.directory / ".locks" / f"{KEY}{suffix}"
    lock.unlink()
    link(precious / "thesis.txt", lock)
    with pytest.raises(CRDsError, match=f"{lock.name} (is a symbolic link|has a hard link): refused"):
        put(cache)
    assert contents(precious) == before


def test_a_pipe_for_a_lock_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    cache = filled(tmp_path / "data")
    lock = cache.directory / ".locks" / f"{KEY}.lock"
    lock.unlink()
    os.mkfifo(lock)
    with pytest.raises(CRDsError, match="is not a regular file: refused"), cache.reading(KEY, 1):
        pass


def test_links_among_leftovers_are_removed_and_not_followed(tmp_path: Path, precious: Path) -> None:
    cache, before = filled(tmp_path / "data"), contents(precious)
    for name in (".staging", ".trash"):
        (cache.directory / name / "link").symlink_to(precious)
        (cache.directory / name / "directory").mkdir()
        (cache.directory / name / "directory/link").symlink_to(precious)
    put(cache)
    assert [list((cache.directory / name).iterdir()) for name in (".staging", ".trash")] == [[], []]
    assert contents(precious) == before


def test_leftovers_too_deep_to_remove_block_no_other_work(tmp_path: Path) -> None:
    cache = filled(tmp_path / "data")
    (cache.directory / ".trash" / "/".join("d" * 300)).mkdir(parents=True)
    put(cache)
    assert cache.verify(KEY) == []


# --- Between two calls ------------------------------------------------------------------------------------------------

EVENTS = ("open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.chmod", "os.utime", "os.scandir")


class Moment:
    """Does something before the call of a number, from 0, that opens or changes anything."""

    def __init__(self) -> None:
        self.calls, self.last = 0, -1
        self.act: Callable[[], None] | None = None

    def __call__(self, event: str, _: tuple[object, ...]) -> None:
        if self.act is None or event not in EVENTS:
            return
        self.calls += 1
        if self.calls > self.last:
            act, self.act = self.act, None
            act()


MOMENT = Moment()
sys.addaudithook(MOMENT)  # stays as long as the process, and does nothing without an act


@pytest.fixture
def moment() -> Iterator[Moment]:
    yield MOMENT
    MOMENT.act = None


@pytest.mark.parametrize("operation", ["remove", "repair"])  # a repair commits
@pytest.mark.parametrize("name", NAMES, ids=lambda name: name[:8] or "cache")
def test_a_link_planted_between_any_two_calls_is_not_followed(
    tmp_path: Path, precious: Path, moment: Moment, name: str, operation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)  # waiting for the disk is most of the time, and no matter here
    before, last, planted = contents(precious), 0, True
    damage(filled(tmp_path / "template"))
    while planted:
        cache = Cache(shutil.copytree(tmp_path / "template", tmp_path / str(last)))
        moment.calls, moment.last = 0, last
        moment.act = lambda cache=cache: plant(cache, name, precious)  # type: ignore[misc]
        with contextlib.suppress(CRDsError):
            OPERATIONS[operation](cache)
        planted, moment.act = moment.act is None, None
        assert contents(precious) == before, f"planted before call {last}"
        last += 1
    assert last > 20


def test_a_download_goes_where_staging_was_when_it_began(tmp_path: Path, precious: Path) -> None:
    cache, before = Cache(tmp_path / "data"), contents(precious)
    with cache.lock(KEY, 1), cache.staging() as staged:
        (precious / staged.location.name).mkdir()
        plant(cache, ".staging", precious)
        (staged.path / TARBALL).write_bytes(release(properties=1))
        (precious / staged.location.name).rmdir()
    assert contents(precious) == before


def test_errors_in_staging_have_the_path_in_the_cache(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "data")
    with pytest.raises(CRDsError) as caught, cache.staging() as staged:
        raise CRDsError(Exit.DISK, f"cannot write {staged.path / TARBALL}: no space left", transient=True)
    path = cache.directory / ".staging" / staged.location.name / TARBALL
    assert (str(caught.value), caught.value.transient) == (f"cannot write {path}: no space left", True)
