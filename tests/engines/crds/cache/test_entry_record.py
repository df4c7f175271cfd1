"""The record of a cache entry on disk."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fleethook.engines.crds.cache.entry_record import RECORD, Record, read_record, replace_record, write_record
from fleethook.engines.crds.descriptors import open_directory_at

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
