"""README.md shows the effect of three edits: each command of this transcript runs, and prints the output of the section."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from tests.cli.commands import run_command
from tests.serving import EXAMPLES, ROOT, serving
from tests.waiting import NET

_SECTION = re.compile(r"^### What would my change do\?\n(.*?)^## ", re.DOTALL | re.MULTILINE)
_FENCED = re.compile(r"^```\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
_RECORDING = re.compile(r"reviews-\d{8}T\d{6}Z-[0-9a-f]{8}-")


class Step(NamedTuple):
    """A command of the transcript and its output."""

    command: str
    output: str


def read_section() -> str:
    found = _SECTION.search((ROOT / "README.md").read_text())
    assert found is not None
    return found[1]


def read_steps(section: str) -> list[Step]:
    return [Step(*one) for block in _FENCED.findall(section) for one in _COMMAND.findall(block)]


def write_running_workloads(directory: Path) -> None:
    """Write the Deployments of story 2 as a cluster has them: with names."""
    done = run_command("render", "-f", str(EXAMPLES / "yurtappoverrider" / "story-2"))
    documents = list(yaml.safe_load_all(done.stdout))
    for one in documents:
        one["metadata"]["name"] = one["metadata"].pop("generateName").removesuffix("-")
    listed = {"apiVersion": "v1", "kind": "List", "items": documents}
    (directory / "running.yaml").write_text(yaml.safe_dump(listed))


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """The examples, a recording of the reviews that the section sends, and the running workloads."""
    shutil.copytree(EXAMPLES, tmp_path / "examples")
    names = re.search(r"for review in (.*); do", read_section())
    assert names is not None
    with serving(tmp_path, "--record", str(tmp_path / "records")) as server:
        for name, _, route in (one.partition(":") for one in names[1].split()):
            status, answer = server.request("POST", f"/{route}", (EXAMPLES / name / "review.json").read_bytes())
            assert status == 200, answer
        server.stop()
    write_running_workloads(tmp_path)
    return tmp_path


def run(command: str, directory: Path) -> str:
    """Run a command of the transcript, and return its standard output without the random name of a recording."""
    script = command.replace(".venv/bin/fleethook", f"{sys.executable} -m app")
    done = subprocess.run(
        ["bash", "-c", script], cwd=directory, capture_output=True, text=True, timeout=NET, check=False,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert not done.stderr, done.stderr
    return _RECORDING.sub("reviews-", done.stdout)


def test_the_commands_of_the_section_print_its_output(directory: Path) -> None:
    steps = read_steps(read_section())
    assert [step.command.split()[1] for step in steps if "fleethook" in step.command] == ["replay", "render", "diff"]
    for step in steps:
        assert run(step.command, directory) == _RECORDING.sub("reviews-", step.output), step.command
