"""Terminals for the commands of pages: a clone of the repository, in which the commands run as they are printed."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.documentation.blocks import Block, Step
from tests.serving import ROOT
from tests.waiting import NET, wait_for

EXAMPLES_SERVER: Final = "make run"
"""The README starts it, and it runs while a reader tries the other pages."""

_SERVERS: Final = (
    (re.compile(r"^make run$"), ("fleethook serves on ", "fleethook console: ")),
    (re.compile(r"^(\.venv/bin/)?fleethook serve "), ("fleethook serves on ",)),
    (re.compile(r"^\S*python3? \S+/webhook\.py "), (" listens on ",)),
    (re.compile(r"^python3 -m http\.server "), ("Serving HTTP on ",)),
)
"""Commands that run until Ctrl+C, with the lines for which a reader waits."""
_RANDOM: Final = (
    (re.compile(r"reviews-\d{8}T\d{6}Z-[0-9a-f]{8}-"), "reviews-"),
    (re.compile(r"\b[0-9a-f]{64}\b"), "<digest>"),
    (re.compile(r"\b\d{4}-\d\d-\d\d \d\d:\d\d\b"), "<time>"),
    (re.compile(r" +[\d,]+(?= bytes|  <time>)"), " <size>"),
)
"""The parts of outputs that differ by nature."""


class _Server(NamedTuple):
    command: str
    process: "subprocess.Popen[bytes]"
    log: Path


class Shell:
    """Runs the commands of pages in order. Files and the server of the README stay from one page to the next."""

    def __init__(self, directory: Path, **environment: str) -> None:
        """Copy the repository.

        Args:
            directory: An empty directory, for the clone and the files of the shell.
            **environment: Additional environment variables of commands.
        """
        self._clone: Final = directory / "clone"
        self._state: Final = directory / "terminal.sh"
        self._programs: Final = directory / "bin"
        self._programs.mkdir()
        self._servers: Final[list[_Server]] = []
        home = directory / "home"
        home.mkdir()
        copy_repository(self._clone)
        self._environment: Final = {
            **os.environ, "PATH": f"{self._programs}:{os.environ['PATH']}", "HOME": str(home), "XDG_CACHE_HOME": str(home / ".cache"),
            "NO_PROXY": "localhost,127.0.0.1", "no_proxy": "localhost,127.0.0.1", "NO_COLOR": "1", "COLUMNS": "160", **environment,
        }  # fmt: skip
        for name in ("VIRTUAL_ENV", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE"):
            self._environment.pop(name, None)
        self._open_terminal()

    def add_program(self, name: str, script: str) -> None:
        """Let a name in commands run a script."""
        path = self._programs / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def run_page(self, blocks: list[Block]) -> None:
        """Run the blocks of a page in a new terminal, and stop the servers that the page has started."""
        print(f"\n=== {blocks[0].page.relative_to(ROOT)}")
        self._open_terminal()
        for block in blocks:
            if block.stops_servers:
                self.stop_servers(kept=EXAMPLES_SERVER)
            for step in block.read_steps():
                self.run(step)
        self.stop_servers(kept=EXAMPLES_SERVER)

    def run(self, step: Step) -> None:
        """Run a command, and compare its output with that of the page.

        An output on the page may have a line "…" for any number of lines. The exit code is 0, or 1 for a command of
        fleethook whose output shows the failure.
        """
        print(f"$ {step.command}")
        for pattern, lines in _SERVERS:
            if pattern.match(step.command):
                self._serve(step.command, lines)
                return
        # The next command has the variables and the directory that this one leaves.
        script = f"{step.command}\ncode=$?; {{ export -p; printf 'cd %q\\n' \"$PWD\"; }} > {self._state}; exit $code"
        done = subprocess.run(
            ["bash", "-c", f". {self._state}\n{script}"], cwd=self._clone, env=self._environment, text=True, timeout=NET,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
        )  # fmt: skip
        print(done.stdout, end="")
        may_fail = "fleethook " in step.command and bool(step.output.strip())
        assert done.returncode == 0 or (may_fail and done.returncode == 1), f"{step.command}: {done.returncode}"
        if step.output.strip():
            shown, found = normalize(step.output), normalize(done.stdout)
            assert matches(shown, found), f"the page shows another output of {step.command}:\n{step.output}"

    def _serve(self, command: str, lines: tuple[str, ...]) -> None:
        """Start a server, and open another terminal, as a reader does."""
        log = self._clone.parent / f"server-{len(self._servers)}.log"
        with log.open("wb") as output:
            # A background job of a shell ignores Ctrl+C, and so would everything that it starts.
            process = subprocess.Popen(
                ["env", "--default-signal=INT", "bash", "-c", f". {self._state}\n{command}"],
                cwd=self._clone, env=self._environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                start_new_session=True,
            )  # fmt: skip
        self._servers.append(_Server(command, process, log))

        def is_ready() -> bool:
            return process.poll() is not None or all(line in log.read_text() for line in lines)

        wait_for(is_ready, what=f"{command} serves")
        assert process.poll() is None, f"{command} ended:\n{log.read_text()}"
        print("".join(line for line in log.read_text().splitlines(keepends=True) if not line.startswith("{")), end="")
        self._open_terminal()

    def _open_terminal(self) -> None:
        """Go to the root of the clone, without the variables that earlier commands have exported."""
        self._state.write_text(f"cd {self._clone}\n")

    def stop_servers(self, *, kept: str = "") -> None:
        """Press Ctrl+C in each terminal with a server, and expect that fleethook ends without an error."""
        for server in [one for one in self._servers if one.command != kept]:
            print(f"^C ({server.command})")
            self._servers.remove(server)
            _interrupt(server)
            if "http.server" not in server.command:
                assert "Traceback" not in server.log.read_text(), server.log.read_text()

    def find_printed(self, pattern: str) -> list[Any]:
        """Return all matches of a regular expression in the outputs of the running servers."""
        return [found for server in self._servers for found in re.findall(pattern, server.log.read_text())]

    def close(self) -> None:
        """End the servers that a failed command has left."""
        for server in self._servers:
            _interrupt(server)


def _interrupt(server: _Server) -> None:
    """Send SIGINT to all processes of a terminal."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(server.process.pid, signal.SIGINT)
    server.process.wait(NET)


def copy_repository(clone: Path) -> None:
    """Copy the files of the repository with an environment as `make run` makes it, from the packages of this one."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout  # fmt: skip
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (clone / name).parent.mkdir(parents=True, exist_ok=True)
            # Another test may remove a file of its own meanwhile.
            with contextlib.suppress(FileNotFoundError):
                shutil.copy2(ROOT / name, clone / name)
    environment = clone / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    (packages,) = environment.glob("lib/python*/site-packages")
    (packages / "packages.pth").write_text(f"{clone}\n{clone / 'app'}\n{sysconfig.get_path('purelib')}\n")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for name, target in project["scripts"].items():
        module, _, function = target.partition(":")
        script = environment / "bin" / name
        script.write_text(
            f"#!{environment}/bin/python\nimport sys\nfrom {module} import {function}\nsys.exit({function}())\n"
        )
        script.chmod(0o755)
    (environment / "run.stamp").touch()


def normalize(text: str) -> str:
    """Return an output without the parts that differ by nature, and without spaces at the ends of lines."""
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
    shell = Shell(directory, **environment)
    try:
        yield shell
    finally:
        shell.close()
