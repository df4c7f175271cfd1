"""The page of results marks figures that are older than the code that they measure."""

import subprocess
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from benchmarks.harness import ROOT, machine, results
from benchmarks.harness.goals import at_most
from benchmarks.harness.rounds import Spread
from benchmarks.harness.section import Section
from benchmarks.run import PARTS


def git(directory: Path, *arguments: str) -> str:
    names = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    command = ["git", "-C", str(directory), *names, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def commit(directory: Path, path: str, text: str) -> str:
    file = directory / path
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    git(directory, "add", path)
    git(directory, "commit", "-qm", text)
    return git(directory, "rev-parse", "--short", "HEAD")


def test_later_commits_to_the_measured_paths_mark_a_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(tmp_path, "init", "-q")
    commit(tmp_path, "measured/a.py", "1")
    measured_at = commit(tmp_path, "measured/a.py", "2")
    commit(tmp_path, "other/b.py", "3")
    for name, value in (("PAGE", tmp_path / "page.md"), ("RESULTS", tmp_path / "results.json")):
        monkeypatch.setattr(results, name, value)
    monkeypatch.setattr(machine, "ROOT", tmp_path)
    assert "†" not in page_of(measured_at)
    commit(tmp_path, "measured/a.py", "4")
    page = page_of(measured_at)
    assert f"| {measured_at} † |" in page
    assert f"commit {measured_at} †, " in page
    assert "The measured code has changed" in page
    assert "†" in page_of("0123456")


def page_of(measured_at: str) -> str:
    measured: dict[str, Any] = {
        "command": "bench", "rounds": 1, "seconds": 1.0, "took": 1.0, "commit": measured_at, "when": "today",
        "paths": ["measured"],
    }  # fmt: skip
    found: results.Results = {"about": {}, "parts": {}}
    goals = [at_most("time", 2, Spread(1.0, 1.0, 1.0))]
    results.record(found, "part", Section("Part", "", {"goals": goals}), measured)
    results.write(found, ["part"])
    return results.PAGE.read_text()


def test_the_measured_paths_of_each_part_exist() -> None:
    for name in PARTS:
        paths = getattr(import_module(f"benchmarks.cases.{name}"), "MEASURED", results.MEASURED)
        assert [path for path in paths if not (ROOT / path).exists()] == []


def test_the_page_has_no_removed_parts() -> None:
    found = results.read()
    assert found["parts"].keys() <= set(PARTS)
