"""The script that CI runs: a tool that it cannot install ends the run as a failure."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.serving import ROOT

SCRIPT = Path(".ci/run")
INSTALLED = ("promtool", "chromium", "npm", "buildah", "debootstrap")


def run_script(directory: Path, *, tools: tuple[str, ...], base: str = "echo base") -> tuple[int, str]:
    """Run the script with these tools and no access to packages; return its exit code and the targets that it made."""
    (directory / ".ci").mkdir()
    shutil.copy(ROOT / SCRIPT, directory / SCRIPT)
    programs = directory / "programs"
    programs.mkdir()
    for name in ("bash", "dirname"):
        (programs / name).symlink_to(str(shutil.which(name)))
    commands = {
        "make": 'echo "$1" >> made',
        "apt-get": "exit 100",
        "python3": base,
        "timeout": 'shift; "$@"',
    }
    for name, command in (commands | dict.fromkeys(tools, "exit 0")).items():
        (programs / name).write_text(f"#!{programs}/bash\n{command}\n")
        (programs / name).chmod(0o755)
    done = subprocess.run(
        [programs / "bash", SCRIPT], cwd=directory, env={"PATH": str(programs)}, capture_output=True, check=False
    )
    return done.returncode, (directory / "made").read_text()


def test_a_machine_with_all_tools_makes_all_targets(tmp_path: Path) -> None:
    code, made = run_script(tmp_path, tools=INSTALLED)
    assert code == 0
    assert made.split() == ["check", "docs", "bench-quick", "test-all"]


@pytest.mark.parametrize("missing", INSTALLED)
def test_a_tool_that_cannot_be_installed_fails_the_run(tmp_path: Path, missing: str) -> None:
    code, made = run_script(tmp_path, tools=tuple(one for one in INSTALLED if one != missing))
    assert code != 0
    assert "test-all" not in made.split()


def test_an_image_without_a_base_fails_the_run(tmp_path: Path) -> None:
    code, made = run_script(tmp_path, tools=INSTALLED, base="exit 1")
    assert code != 0
    assert "test-all" not in made.split()
