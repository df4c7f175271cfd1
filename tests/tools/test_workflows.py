"""The workflows of GitHub Actions: actionlint checks them, and each action is pinned by a digest."""

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.programs import require_go
from tests.serving import ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yaml"))
PINNED = re.compile(r"^\S+@[0-9a-f]{40}$|^\./")


def run_actionlint(*files: Path) -> "subprocess.CompletedProcess[str]":
    command = [str(require_go()), "tool", "actionlint", "-no-color", *map(str, files)]
    return subprocess.run(
        command, cwd=Path(__file__).parent / "actionlint", capture_output=True, text=True, check=False,
        env={**os.environ, "GOFLAGS": "-mod=readonly"},
    )  # fmt: skip


def test_actionlint_finds_nothing() -> None:
    done = run_actionlint(*WORKFLOWS)
    # The first run on a machine reports its downloads.
    errors = [line for line in done.stderr.splitlines() if not line.startswith("go: downloading ")]
    assert (done.returncode, done.stdout, errors) == (0, "", [])
    assert [path.stem for path in WORKFLOWS] == ["ci", "release"]


def test_actionlint_finds_a_mistake(tmp_path: Path) -> None:
    broken = tmp_path / "broken.yaml"
    broken.write_text(WORKFLOWS[0].read_text(encoding="utf-8").replace("runs-on", "run-on"), encoding="utf-8")
    assert "run-on" in run_actionlint(broken).stdout


def list_steps(workflow: Any) -> list[dict[str, Any]]:
    return [step for job in workflow["jobs"].values() for step in (job, *job.get("steps", ()))]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_each_action_is_pinned(path: Path) -> None:
    steps = list_steps(yaml.safe_load(path.read_text(encoding="utf-8")))
    assert [step["uses"] for step in steps if "uses" in step and not PINNED.match(step["uses"])] == []


def test_ci_calls_the_script_of_other_machines() -> None:
    steps = list_steps(yaml.safe_load(WORKFLOWS[0].read_text(encoding="utf-8")))
    assert any(step.get("run", "").endswith(" .ci/run") for step in steps)
