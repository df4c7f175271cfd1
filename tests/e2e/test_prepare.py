"""Preparation of `make test`: it builds the control plane if Go is installed, with one notice."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.controlplane import build, prepare
from tests.waiting import NET

# Replaces Go, which takes minutes: it writes an empty program.
GO = """#!/bin/sh
while [ "$1" != -o ]; do shift; done
printf '#!/bin/sh\\n' > "$2" && chmod +x "$2"
"""


def run_prepare(directory: Path, *, path: Path) -> str:
    """Return the output of prepare.py with only the programs of ``path`` on the PATH."""
    ran = subprocess.run(
        [sys.executable, prepare.__file__],
        capture_output=True,
        text=True,
        timeout=NET,
        check=True,
        env={"PATH": str(path), "XDG_CACHE_HOME": str(directory / "cache"), "HOME": str(directory)},
    )
    assert ran.stderr == ""
    return ran.stdout


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    made = tmp_path / "bin"
    made.mkdir()
    for name in ("sh", "chmod"):
        (made / name).symlink_to(f"/bin/{name}")
    return made


def test_with_go_it_is_built_once_with_one_notice(tmp_path: Path, programs: Path) -> None:
    (programs / "go").write_text(GO)
    (programs / "go").chmod(0o755)

    first = run_prepare(tmp_path, path=programs)
    again = run_prepare(tmp_path, path=programs)

    assert first.startswith(prepare.NOTICE)
    assert first.count(prepare.NOTICE) == 1
    assert f"building kube-apiserver ({build.version()})\n" in first
    assert "building helm" in first
    assert prepare.SKIPPED not in first
    assert again == ""


def test_without_go_it_names_the_skipped_tests_and_the_remedy(tmp_path: Path, programs: Path) -> None:
    said = run_prepare(tmp_path, path=programs)

    assert "needs Go; install it, or set KUBEBUILDER_ASSETS" in said
    assert said.endswith(f"{prepare.SKIPPED}\n")
    assert prepare.NOTICE not in said


def test_a_build_that_fails_skips_the_tests_and_fails_nothing(tmp_path: Path, programs: Path) -> None:
    (programs / "go").write_text("#!/bin/sh\necho no network >&2\nexit 1\n")
    (programs / "go").chmod(0o755)

    said = run_prepare(tmp_path, path=programs)

    assert said.startswith(prepare.NOTICE)
    assert "no network\n" in said
    assert "Traceback" not in said
    assert said.endswith(f"{prepare.SKIPPED}\n")
