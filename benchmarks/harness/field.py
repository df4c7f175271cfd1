"""Servers that stand beside each other on one core, and are asked in turns."""

import contextlib
import functools
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from app.certs.files import ensure_certificates
from benchmarks.harness import BENCHMARKS
from benchmarks.harness.load import Figures, Generator, Load
from benchmarks.harness.processes import Running, serving
from benchmarks.harness.rounds import Round, turns
from benchmarks.harness.section import Context
from benchmarks.servers import NAMES

FIRST_SECONDS = 3.0
"""How long each server is asked before anything counts: imports, caches, heaps, and with us a plan for each subject."""
WARMUP_SECONDS = 0.3
"""How long it is asked before each turn: caches of the core, which another server had before."""


class Server(NamedTuple):
    """A row of a table."""

    command: tuple[str | Path, ...]
    options: tuple[str, ...] = ()
    """Flags of the load generator, where it is not asked as the others are."""
    cores: tuple[int, ...] = ()
    """The cores of the server, if they are not the one core of the others."""


def ours(kind: str, *options: str) -> Server:
    """Return a server of ``benchmarks/servers``: ours, with options, or one that is written in Python beside it."""
    return Server((sys.executable, "-m", "benchmarks.servers", kind, *options))


def go(context: Context, program: str, *options: str, path: str = "") -> Server:
    """Return a Go peer, whose log takes each line and keeps none, as ours does."""
    asked = (f"--path={path}", "--expect=any") if path else ()
    return Server((context.binaries / program, "--log=/dev/null", *options), asked)


def kopf(context: Context) -> Server:
    return Server((context.python, BENCHMARKS / "peers" / "kopf_server.py", "--log=/dev/null"))


class Field(NamedTuple):
    """Servers that run, idle as long as another is asked."""

    servers: Mapping[str, Server]
    running: Mapping[str, Running]
    generator: Generator

    def turns(self, load: Load, *, rounds: int, seconds: float) -> list[Round]:
        """Ask each of them in each round."""
        for name in self.servers:
            self.ask(load, name, seconds=FIRST_SECONDS, warmup=0.0)
        return turns({name: functools.partial(self.ask, load, name, seconds=seconds) for name in self.servers}, rounds)

    def ask(self, load: Load, name: str, *, seconds: float, warmup: float = WARMUP_SECONDS) -> Figures:
        """Ask one of them."""
        options = self.servers[name].options
        return self.generator.ask(self.running[name], load, seconds=seconds, warmup=warmup, options=options)


@contextlib.contextmanager
def field(context: Context, servers: Mapping[str, Server], *, command: tuple[str | Path, ...] = ()) -> Iterator[Field]:
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
        yield Field(servers, running, generator)


def certificate(context: Context) -> Path:
    """Make the certificate that all servers of a part have; return its authority's."""
    files = ensure_certificates(context.scratch, names=NAMES, now=datetime.now(UTC))
    return files.authority_certificate
