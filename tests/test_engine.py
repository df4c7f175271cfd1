"""The installed engines, by their entry points."""

import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from fleethook.engine import GROUP, enabled_engines, installed_engines, load_reference


def test_the_engines_are_those_of_the_entry_points_in_their_order() -> None:
    names = list(installed_engines())
    assert names == ["overrider", "dispatch", "interpret", "crds", "rules"]
    assert set(names) == {one.name for one in entry_points(group=GROUP)}


def test_without_metadata_the_engines_are_those_of_the_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    installed_engines.cache_clear()
    try:
        found = list(installed_engines())
    finally:
        installed_engines.cache_clear()
    assert found == ["overrider", "dispatch", "interpret", "crds", "rules"]


def test_enabled_engines_keep_their_order() -> None:
    assert [one.name for one in enabled_engines({"crds", "overrider"})] == ["overrider", "crds"]


@pytest.mark.parametrize("name", ["overrider", "dispatch", "interpret", "crds", "rules"])
def test_each_reference_of_an_engine_can_be_loaded(name: str) -> None:
    engine = installed_engines()[name]
    references = [engine.server, engine.resources, engine.indexes, engine.settings, engine.page]
    references += [one.reference for one in engine.commands.values()]
    assert all(load_reference(one) is not None for one in references if one)


def test_of_two_distributions_with_an_engine_the_first_on_the_path_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (1, 2):
        directory = tmp_path / str(number)
        (directory / "other-1.dist-info").mkdir(parents=True)
        (directory / "other-1.dist-info" / "entry_points.txt").write_text(
            f"[console_scripts]\nother = a:b\n\n[{GROUP}]\nother = engine_{number}:ENGINE\n"
        )
        (directory / f"engine_{number}.py").write_text(
            f"from fleethook.engine import Engine\nENGINE = Engine('other', 1, 'server {number}')\n"
        )
    monkeypatch.setattr(sys, "path", [str(tmp_path / "1"), str(tmp_path / "2"), str(tmp_path / "missing"), *sys.path])
    installed_engines.cache_clear()
    try:
        found = installed_engines()
    finally:
        installed_engines.cache_clear()
    assert (next(iter(found)), found["other"].server) == ("other", "server 1")
