"""Programs that the tests of `make test-all` need."""

import shutil
from pathlib import Path

import pytest


def require_program(found: Path | str | None, missing: str) -> Path:
    """Return a program that was found; without it, fail the test with a text that says how to get it."""
    if found is None:
        pytest.fail(missing)
    return Path(found)


def require_go() -> Path:
    """Return the program go, as `require_program` does."""
    return require_program(shutil.which("go"), "no Go, which this test compares our code with: install Go")
