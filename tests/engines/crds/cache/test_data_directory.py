from pathlib import Path

import pytest

from fleethook.engines.crds.cache.data_directory import find_data_directory


def test_the_data_directory_follows_the_convention_of_the_desktop(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert find_data_directory() == tmp_path / "fleethook"
    assert list(tmp_path.iterdir()) == []
