from pathlib import Path

import pytest

from app.crds.cache.exchange import exchange


def test_two_directories_change_places_where_the_system_can(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for path in (one, other):
        path.mkdir()
        (path / path.name).touch()
    assert exchange(one, other)
    assert [file.name for file in one.iterdir()] == ["other"]
    assert [file.name for file in other.iterdir()] == ["one"]


def test_what_is_not_there_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        exchange(tmp_path / "one", tmp_path / "other")
    assert caught.value.filename == str(tmp_path / "one")


def test_a_c_library_without_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctypes.CDLL", lambda *_, **__: object())
    assert not exchange(tmp_path / "one", tmp_path / "other")
