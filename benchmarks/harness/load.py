"""Sends load to a server, by the Go load generator if it is built, else by the one in Python."""

import json
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.harness.processes import Running, output

Figures = dict[str, Any]
"""The report of cmd/load: requests_per_second, p50_ms, p99_ms, p999_ms, cpu_us, server_cpu, client_cpu, rss_mib ..."""

PYTHON_GENERATOR = (sys.executable, "-m", "benchmarks.harness.python_load")


class Load(NamedTuple):
    """The request to send, and the connections to use."""

    body: Path
    """A file with a body in each line; connections send them in turn, each beginning with another one."""
    connections: int = 16
    options: tuple[str, ...] = ()
    """More flags of cmd/load, for example ``--new-connections``."""


class Generator(NamedTuple):
    """The load generator and its cores."""

    command: Sequence[str | Path]
    cores: Collection[int]
    authority: Path

    def ask(
        self, running: Running, load: Load, *, seconds: float, warmup: float, options: Sequence[str] = ()
    ) -> Figures:
        """Send requests for some seconds; raises RuntimeError after an error or an unexpected answer, or without any answer."""
        given = {
            "port": running.port, "body": load.body, "connections": load.connections, "seconds": seconds,
            "warmup": warmup, "ca": self.authority, "pid": ",".join(map(str, running.pids)),
        }  # fmt: skip
        flags = [f"--{name}={value}" for name, value in given.items()]
        found = json.loads(output([*self.command, *flags, *load.options, *options], cores=self.cores))
        if not found["requests"]:
            raise RuntimeError(f"{running.process.args!r} answered no request within {seconds:g} s: measure longer")
        return found
