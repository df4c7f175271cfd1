"""Programs that some tests need and a machine may lack."""

import os
import shutil
from pathlib import Path

import pytest

REQUIRED = "FLEETHOOK_REQUIRE_CONTROLPLANE"
"""With this set, as in CI, a missing program is a failure."""


def require_program(found: Path | None, missing: str) -> Path:
    """Return a program that was found; without it, skip the test, or fail it if `REQUIRED` is set.

    CONTRIBUTING promises that the other tests pass on a machine without Go; the run reports the skipped ones.
    """
    if found is not None:
        return found
    if os.environ.get(REQUIRED):
        pytest.fail(f"{REQUIRED} is set, but there is {missing}")
    # A contributor without Go: the control plane cannot be built, and CI sets the variable above.
    pytest.skip(missing)


def require_go() -> Path:
    """Return the program go, as `require_program` does."""
    found = shutil.which("go")
    return require_program(
        None if found is None else Path(found), "no Go, which this test compares our code with: install Go"
    )
