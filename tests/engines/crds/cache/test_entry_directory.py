"""Links, kinds, owners and modes in the cache."""

import json
import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fleethook.engines.crds.cache.entry_directory import (
    RECORD,
    TARBALL,
    Record,
    has_tarball,
    is_key,
    open_directory,
    open_entry,
    read_record,
    replace_record,
    translate_os_errors,
    write_record,
)
from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.engines.crds.descriptors import list_names, open_directory_at

NOW = datetime(2026, 6, 1, tzinfo=UTC)
GIVEN = Record(
    url="https://h/a", final_url="https://h/b", sha256="0" * 64, size=7, etag='"e"', last_modified="", fetched_at=NOW,
    asked_at=NOW, asked=1, warnings=("one",),
)  # fmt: skip


@pytest.fixture
def entry(tmp_path: Path) -> Iterator[int]:
    with open_directory_at(tmp_path) as descriptor:
        yield descriptor


def test_a_written_record_is_read_back(entry: int) -> None:
    assert read_record(entry) is None
    write_record(entry, GIVEN)
    assert read_record(entry) == GIVEN


def change(**members: Any) -> bytes:
    return json.dumps({**json.loads(msgspec.json.encode(GIVEN)), **members}).encode()


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"{}",
        b"\xff",
        b'{"x":' + b"[" * 100_000,
        change(schema=2),
        change(size="7"),
        change(fetched_at="soon"),
    ],
)
def test_an_invalid_record_is_none(tmp_path: Path, entry: int, text: bytes) -> None:
    (tmp_path / RECORD).write_bytes(text)
    assert read_record(entry) is None


def test_members_of_other_releases_are_ignored_and_missing_options_have_their_defaults(
    tmp_path: Path, entry: int
) -> None:
    members = json.loads(change(files={"a": 1}))
    del members["normalize_dot"], members["schema"]
    (tmp_path / RECORD).write_text(json.dumps(members))
    assert read_record(entry) == GIVEN


def test_a_link_is_no_record(tmp_path: Path, entry: int) -> None:
    (tmp_path / "elsewhere").write_bytes(change())
    (tmp_path / RECORD).symlink_to("elsewhere")
    assert read_record(entry) is None


def test_a_record_that_is_too_large_is_none(tmp_path: Path, entry: int) -> None:
    (tmp_path / RECORD).write_bytes(change() + b" " * (4 << 20))
    assert read_record(entry) is None


def test_a_record_is_replaced_at_once_and_never_overwritten(tmp_path: Path, entry: int) -> None:
    (tmp_path / "staged").mkdir()
    write_record(entry, GIVEN)
    with pytest.raises(FileExistsError):
        write_record(entry, GIVEN)
    inode = (tmp_path / RECORD).stat().st_ino
    after = msgspec.structs.replace(GIVEN, asked=2)
    with open_directory_at(tmp_path / "staged") as staged:
        replace_record(entry, staged, after)
    assert read_record(entry) == after
    assert (tmp_path / RECORD).stat().st_ino != inode
    assert list((tmp_path / "staged").iterdir()) == []


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "entry").mkdir(mode=0o750)
    (tmp_path / "entry" / TARBALL).write_bytes(b"x")
    (tmp_path / "entry" / TARBALL).chmod(0o640)
    with open_directory_at(tmp_path) as descriptor:
        yield descriptor


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("0" * 64, True),
        ("f" * 64, True),
        ("F" * 64, False),
        ("0" * 63, False),
        ("0" * 65, False),
        ("0" * 64 + "\n", False),
    ],
)
def test_a_key_has_64_hexadecimal_digits(name: str, *, expected: bool) -> None:
    assert is_key(name) is expected


def test_errors_of_the_system_name_the_path_and_may_pass() -> None:
    with pytest.raises(CRDsError) as caught, translate_os_errors("reading"):
        raise PermissionError(13, "Permission denied", "/cache/x")
    assert (caught.value.exit, caught.value.transient) == (Exit.DISK, True)
    assert str(caught.value) == "reading: Permission denied: /cache/x"
    with pytest.raises(CRDsError, match=r"^reading: full$"), translate_os_errors("reading"):
        raise OSError("full")


def test_a_directory_is_opened_by_path_or_in_its_parent(tmp_path: Path, cache: int) -> None:
    for descriptor in (open_directory(tmp_path / "entry"), open_directory(Path("/elsewhere/entry"), cache)):
        assert descriptor is not None
        assert list_names(descriptor) == [TARBALL]
        os.close(descriptor)
    assert open_directory(tmp_path / "absent") is open_directory(tmp_path / "absent", cache) is None


@pytest.mark.parametrize(
    ("make", "wrong"),
    [(lambda path: path.symlink_to("entry"), "is a symbolic link"), (Path.touch, "is not a directory")],
)
def test_a_link_or_a_file_is_no_directory(tmp_path: Path, cache: int, make: Callable[[Path], None], wrong: str) -> None:
    make(tmp_path / "other")
    for parent in (None, cache):
        with pytest.raises(CRDsError, match=f"{tmp_path}/other {wrong}: refused"):
            open_directory(tmp_path / "other", parent)


def replace_tarball_by_link(entry: Path) -> None:
    (entry / TARBALL).unlink()
    (entry / TARBALL).symlink_to("elsewhere")


def replace_tarball_by_directory(entry: Path) -> None:
    (entry / TARBALL).unlink()
    (entry / TARBALL).mkdir()


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        (lambda entry: entry.chmod(0o757), "entry is world-writable"),
        (lambda entry: (entry / TARBALL).chmod(0o642), f"{TARBALL} is world-writable"),
        (replace_tarball_by_link, f"{TARBALL} is a symbolic link"),
        (replace_tarball_by_directory, f"{TARBALL} is not a regular file"),
    ],
)
def test_an_unsafe_entry_is_refused_and_leaves_no_descriptor(
    tmp_path: Path, cache: int, change: Callable[[Path], None], wrong: str
) -> None:
    change(tmp_path / "entry")
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(CRDsError, match=wrong) as caught:
        open_entry(tmp_path / "entry", cache)
    assert caught.value.exit is Exit.DISK
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_an_entry_of_another_user_is_refused(tmp_path: Path, cache: int, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = (tmp_path / "entry").stat().st_uid
    if owner == 0:
        os.chown(tmp_path / "entry", 12345, -1)
        owner = 12345
    else:
        monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    with pytest.raises(CRDsError, match=f"belongs to user {owner}, not to "):
        open_entry(tmp_path / "entry", cache)


def test_a_group_may_write_and_a_missing_entry_is_none(tmp_path: Path, cache: int) -> None:
    (tmp_path / "entry").chmod(0o770)
    descriptor = open_entry(tmp_path / "entry", cache)
    assert descriptor is not None
    os.close(descriptor)
    assert open_entry(tmp_path / "absent", cache) is None


def test_an_empty_tarball_is_none(tmp_path: Path) -> None:
    with open_directory_at(tmp_path) as entry:
        assert not has_tarball(entry)
        (tmp_path / TARBALL).touch()
        assert not has_tarball(entry)
        (tmp_path / TARBALL).write_bytes(b"x")
        assert has_tarball(entry)
