import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleethook.engines.crds.cache.cache_layout import EntryName, exchange


@pytest.fixture
def parent(tmp_path: Path) -> Iterator[int]:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


def test_two_directories_are_exchanged_if_the_system_can(tmp_path: Path, parent: int) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for path in (one, other):
        path.mkdir()
        (path / path.name).touch()
    assert exchange(EntryName(parent, one.name), EntryName(parent, other.name))
    assert [file.name for file in one.iterdir()] == ["other"]
    assert [file.name for file in other.iterdir()] == ["one"]


def test_a_missing_name_is_an_error_that_names_it(parent: int) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        exchange(EntryName(parent, "one"), EntryName(parent, "other"))
    assert caught.value.filename == "one"


def test_a_c_library_without_renameat2_returns_false(parent: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctypes.CDLL", lambda *_, **__: object())
    assert not exchange(EntryName(parent, "one"), EntryName(parent, "other"))
