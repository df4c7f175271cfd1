"""Servers that share one core and are measured in turns."""

import contextlib
import functools
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from benchmarks.harness import BENCHMARKS
from benchmarks.harness.load import Figures, Generator, Load
from benchmarks.harness.processes import Running, serving
from benchmarks.harness.rounds import Round, turns
from benchmarks.harness.section import Context
from benchmarks.servers import NAMES
from fleethook.cluster.certificates.authority_and_serving_certificate import ensure_certificates

FIRST_SECONDS = 3.0
"""Seconds of requests to each server before the first measurement: imports, caches, heaps, and in ours a plan for each subject."""
WARMUP_SECONDS = 0.3
"""Seconds of requests before each turn: the caches of the core hold data of another server."""


class Server(NamedTuple):
    """A row of a table."""

    command: tuple[str | Path, ...]
    options: tuple[str, ...] = ()
    """Additional flags of the load generator for this server."""
    cores: tuple[int, ...] = ()
    """The cores of the server, if not the one core of the others."""


def ours(kind: str, *options: str) -> Server:
    """Return a server of ``benchmarks/servers``: ours with options, or one of the other Python servers."""
    return Server((sys.executable, "-m", "benchmarks.servers", kind, *options))


def go(context: Context, program: str, *options: str, path: str = "") -> Server:
    """Return a Go peer that writes its log lines to /dev/null, as ours does."""
    asked = (f"--path={path}", "--expect=any") if path else ()
    return Server((context.binaries / program, "--log=/dev/null", *options), asked)


def kopf(context: Context, *options: str) -> Server:
    return Server((context.python, BENCHMARKS / "peers" / "kopf_server.py", "--log=/dev/null", *options))


class ServerGroup(NamedTuple):
    """Running servers; all but one are idle at any time."""

    servers: Mapping[str, Server]
    running: Mapping[str, Running]
    generator: Generator

    def turns(self, load: Load, *, rounds: int, seconds: float) -> list[Round]:
        """Measure each server in each round."""
        for name in self.servers:
            self.ask(load, name, seconds=FIRST_SECONDS, warmup=0.0)
        return turns({name: functools.partial(self.ask, load, name, seconds=seconds) for name in self.servers}, rounds)

    def ask(self, load: Load, name: str, *, seconds: float, warmup: float = WARMUP_SECONDS) -> Figures:
        """Ask one of them."""
        options = self.servers[name].options
        return self.generator.ask(self.running[name], load, seconds=seconds, warmup=warmup, options=options)


@contextlib.contextmanager
def run_servers(
    context: Context, servers: Mapping[str, Server], *, command: tuple[str | Path, ...] = ()
) -> Iterator[ServerGroup]:
    """Start servers on one core, with one certificate (ECDSA P-256), for a load generator on the other."""
    authority = certificate(context)
    with contextlib.ExitStack() as stack:
        running = {
            name: stack.enter_context(
                serving([*server.command, "--cert-dir", context.scratch], cores=server.cores or [context.server_core])
            )
            for name, server in servers.items()
        }
        generator = Generator(command or (context.binaries / "load",), [context.load_core], authority)
        yield ServerGroup(servers, running, generator)


def certificate(context: Context) -> Path:
    """Make the certificate for all servers of a part; return the certificate of its authority."""
    files = ensure_certificates(context.scratch, names=NAMES, now=datetime.now(UTC))
    return files.authority_certificate
