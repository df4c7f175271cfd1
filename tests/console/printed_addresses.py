"""A console on loopback that asks for the token of its printed address."""

import contextlib
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.serving import ROOT
from tests.waiting import NET, wait_for

ADDRESS = re.compile(r"console: (http://127\.0\.0\.1:\d+)(/login\?token=[\w-]{43})$", re.MULTILINE)


@contextlib.contextmanager
def console_with_token(manifests: Path, directory: Path) -> Iterator[Callable[[], list[tuple[str, str]]]]:
    """Start a console, and yield a function that returns the origins and paths that it has printed.

    Args:
        manifests: The directory of objects.
        directory: The directory for its output: the file ``log`` has its standard error.
    """
    printed = directory / "printed"
    command = [sys.executable, "-m", "fleethook", "console", "-f", str(manifests), "--port", "0"]
    with printed.open("w") as output, (directory / "log").open("w") as errors:
        process = subprocess.Popen(command, stdout=output, stderr=errors, cwd=ROOT)

    def find_addresses() -> list[tuple[str, str]]:
        return ADDRESS.findall(printed.read_text())

    try:
        wait_for(lambda: find_addresses() or process.poll() is not None, what="the first address is printed")
        yield find_addresses
    finally:
        process.terminate()
        process.wait(NET)
