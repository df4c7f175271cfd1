"""A shell for the commands of a page: one directory, the examples in it, servers on free ports."""

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from tests.documentation.blocks import Block, Step
from tests.serving import EXAMPLES, ROOT, started
from tests.waiting import NET

RECORDS: Final = "tests/conformance/records"

PORT: Final = "9443"
WEBHOOK_PORT: Final = "9444"
MIRROR_PORT: Final = "8000"
_SERVERS: Final = {
    PORT: re.compile(r"^(?:make run$|fleethook serve )"),
    WEBHOOK_PORT: re.compile(r"^\S*python3? \S+/webhook\.py "),
    MIRROR_PORT: re.compile(r"^python3 -m http\.server "),
}
_RANDOM: Final = (
    (re.compile(r"reviews-\d{8}T\d{6}Z-[0-9a-f]{8}-"), "reviews-"),
    (re.compile(r"\b[0-9a-f]{64}\b"), "<digest>"),
    (re.compile(r"\b\d{4}-\d\d-\d\d \d\d:\d\d\b"), "<time>"),
    (re.compile(r" +[\d,]+(?= bytes|  <time>)"), " <size>"),
    (re.compile(r"(localhost|127\.0\.0\.1):\d+"), r"\1"),
)
_PROGRAMS: Final = {
    "fleethook": f'exec {sys.executable} -m app "$@"',
    "python": f'exec {sys.executable} -u "$@"',
    "python3": f'exec {sys.executable} -u "$@"',
}


class Shell:
    """Runs the commands of one page, and keeps directory, files and servers from one to the next."""

    def __init__(self, directory: Path, stack: contextlib.ExitStack, environment: Mapping[str, str]) -> None:
        """Copy the examples into the directory.

        Args:
            directory: An empty directory, the root of the repository for the page.
            stack: Ends the servers.
            environment: Additional environment variables of commands.
        """
        self._directory: Final = directory
        self._stack: Final = stack
        self._here = directory
        self._ports: Final[dict[str, str]] = {}
        shutil.copytree(EXAMPLES, directory / "examples", ignore=shutil.ignore_patterns("__pycache__"))
        self._webhook_port: Final = find_free_port()
        for file in (directory / "examples" / "kcp-widgets").glob("*.yaml"):
            file.write_text(file.read_text().replace(f"localhost:{WEBHOOK_PORT}", f"localhost:{self._webhook_port}"))
        shutil.copytree(ROOT / RECORDS, directory / RECORDS)
        for name in ("charts", "app"):
            (directory / name).symlink_to(ROOT / name)
        programs = directory / ".venv" / "bin"
        programs.mkdir(parents=True)
        for name, script in _PROGRAMS.items():
            self.add_program(name, script)
        self._environment = {
            **os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "HOME": str(directory),
            "XDG_CACHE_HOME": str(directory / ".cache"), "NO_PROXY": "localhost,127.0.0.1", "no_proxy": "localhost,127.0.0.1",
            "NO_COLOR": "1", "COLUMNS": "160", **environment,
        }  # fmt: skip

    def add_program(self, name: str, script: str) -> None:
        """Let a name in commands run a script of the shell."""
        path = self._directory / ".venv" / "bin" / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def run_block(self, block: Block) -> None:
        """Run the commands of a block, and compare their outputs."""
        if block.stops_servers:
            self._stack.close()
        for step in block.read_steps():
            self.run(step)

    def run(self, step: Step) -> None:
        """Run a command, and compare its output with that of the page.

        An output on the page may have a line "…" for any number of lines. The exit code is 0, or 1 for a command of
        fleethook whose output shows the failure.
        """
        command = step.command.replace(".venv/bin/fleethook", "fleethook")
        for known, pattern in _SERVERS.items():
            if pattern.match(command):
                self._serve(command, known)
                return
        for known, port in self._ports.items():
            command = re.sub(rf"(localhost|127\.0\.0\.1):{known}\b", rf"\1:{port}", command)
        done = subprocess.run(
            ["bash", "-c", f"{command}\ncode=$?; pwd > {self._directory}/.here; exit $code"],
            cwd=self._here, capture_output=True, text=True, timeout=NET, check=False, env=self._environment,
        )  # fmt: skip
        may_fail = command.startswith("fleethook ") and bool(step.output.strip())
        assert done.returncode == 0 or (may_fail and done.returncode == 1), (
            f"{step.command}\n{done.stdout}{done.stderr}"
        )
        self._here = Path((self._directory / ".here").read_text().strip())
        if step.output.strip():
            shown, found = normalize(step.output), normalize(done.stdout + done.stderr)
            assert matches(shown, found), f"{step.command}\n{done.stdout}{done.stderr}"

    def _serve(self, command: str, known: str) -> None:
        """Start a server that runs until the page ends; the page's port stands for the one that it gets."""
        if command == "make run":
            printed = subprocess.run(
                ["make", "--no-print-directory", "-n", "run"], cwd=ROOT, capture_output=True, text=True, check=True
            )
            (command,) = re.findall(r"\S+ \S+/fleethook serve [^&]+", printed.stdout)
        if known == PORT:
            command = f"{re.sub(' --port [0-9]+', '', command)} --port 0"
        elif known == MIRROR_PORT:
            command = command.replace(MIRROR_PORT, "0")
        else:
            command += f" {self._webhook_port}"
        script = ["bash", "-c", f"cd {self._here} && exec env {command}"]
        log = self._directory / f"server-{known}.log"
        _, port = self._stack.enter_context(started(script, log, r"(?::| port )(\d+)\b", **self._environment))
        self._ports[known] = str(port)


def find_free_port() -> int:
    """Return a port that was free a moment ago, for a server whose clients must know it before it starts."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def normalize(text: str) -> str:
    """Return an output without ports and random names, and without spaces at the ends of lines."""
    for pattern, replacement in _RANDOM:
        text = pattern.sub(replacement, text)
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def matches(shown: str, found: str) -> bool:
    """Return whether an output is that of the page, in which a line "…" stands for any lines."""
    parts = re.split(r"^…\n", shown + "\n", flags=re.MULTILINE)
    return re.fullmatch("(?:.*\n)*?".join(map(re.escape, parts)), found + "\n") is not None


@contextlib.contextmanager
def open_shell(directory: Path, **environment: str) -> Iterator[Shell]:
    """Provide a shell, and end its servers afterwards."""
    with contextlib.ExitStack() as stack:
        yield Shell(directory, stack, environment)
