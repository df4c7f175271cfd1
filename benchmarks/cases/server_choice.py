"""Our app under alternative servers: requests, handshakes, and features that operators need."""

import os
import shutil
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import yaml

from app.certs.authority import KeyPair
from app.certs.files import ensure_certificates
from benchmarks.engines import server_lifecycle
from benchmarks.harness import ROOT
from benchmarks.harness.load import Load
from benchmarks.harness.processes import Running, serving
from benchmarks.harness.rounds import Round, figure, ratio
from benchmarks.harness.section import Context, Section
from benchmarks.harness.server_group import Server, ours, run_servers
from benchmarks.harness.tables import NOTE, mark, table
from benchmarks.reviews import overrider, review, yurt_app_set
from benchmarks.servers import NAMES

OURS, HYPERCORN, GRANIAN, GRANIAN_2, HYPERCORN_2 = (
    "uvicorn, uvloop, httptools: as configured", "hypercorn, uvloop, h11", "granian, ASGI, uvloop", "granian, HTTP/2", "hypercorn, HTTP/2",
)  # fmt: skip
MODULES = {
    "uvicorn, uvloop, httptools: without our guard": "uvicorn-httptools", "uvicorn, uvloop, h11": "uvicorn-h11", HYPERCORN: "hypercorn",
    GRANIAN: "granian-1",
}  # fmt: skip
MODULES_2 = {GRANIAN_2: "granian-2", HYPERCORN_2: "hypercorn"}
FRESH = ("--new-connections", "--curve=x25519")
MAX_SECONDS = 3.0
MAX_CPU_RATIO = 1.1
"""Most CPU of the default server for each request, relative to granian's."""

ABOUT = """The same app, store and TLS key under each server, on one core; UPDATE. HTTP/1.1 uses 16 keep-alive connections, then a new
connection for each request (X25519). HTTP/2 uses one connection with 16 requests in flight, from a load generator in Python: compare the CPU for
each request, not the rate. uvicorn speaks HTTP/1.1 only, the version that an apiserver uses for Services and for URLs that are not loopback. *Our
guard* closes connections that send slowly or send too many headers; the other servers run without it."""
ASKED = """Checked on this machine: *finishes* means that the server answers a request whose body was half sent at SIGTERM. *New certificate* means that it serves
changed files within {patience:.0f} s, without a restart of the service (granian gets SIGHUP). *Connection of before* means that it then still answers an earlier connection. Read in
their source: *client certificates* in the ASGI scope, which routes for known clients need; *embedded*, whether the server runs in our
event loop, including the lifespan."""
CLIENTS = {
    OURS: ("yes, by our protocol class; uvicorn itself does not provide them", "yes"),
    HYPERCORN: ("no: requests them, does not pass them to the app", "yes"),
    GRANIAN: (
        "no: requests them, does not pass them to the app",
        "no: its workers are processes; its embedded server is a different one",
    ),
}
CONCLUSION = """As configured, uvicorn answers {ours:,.0f} requests/s: {granian:.2f} times as many as granian and {hypercorn:.2f} times as many as hypercorn,
with {cpu:.2f} and {hypercorn_cpu:.2f} times their CPU for each. Over new connections it answers {fresh:.2f} times as many as granian, at {fresh_cpu:.2f}
times its CPU. HTTP/2 costs granian {h2:.2f} times the CPU of its HTTP/1.1 for each request, and hypercorn {hypercorn_2:.2f} times. Of the three,
{able} passed all checks. """
STAYS = """**uvicorn stays the default**, and no other server is kept. It takes no more CPU for a request than granian (within a tenth), runs in
our event loop, and passes the client certificate to the app, for which the others need a change. granian is better at new connections, but an apiserver keeps its own open."""
GOES = "**The figures or the checks above speak against uvicorn**: reconsider the choice."


def run(context: Context) -> Section:
    """Measure all servers over HTTP/1.1 and some over HTTP/2, then check shutdown and certificate changes."""
    body, seconds = context.reviews("UPDATE"), min(context.seconds, MAX_SECONDS)
    environment = {OURS: ours("fleethook"), **_servers(context, MODULES)}
    with run_servers(context, environment) as servers:
        kept = servers.turns(Load(body), rounds=context.rounds, seconds=seconds)
        fresh = servers.turns(Load(body, options=FRESH), rounds=context.rounds, seconds=seconds)
    generator = (sys.executable, "-m", "benchmarks.engines.h2_load")
    with run_servers(context, _servers(context, MODULES_2), command=generator) as servers:
        second = servers.turns(Load(body), rounds=context.rounds, seconds=seconds)
    asked = {name: _check_lifecycle(context, name, review("UPDATE")) for name in (OURS, HYPERCORN, GRANIAN)}
    figures = {
        "keep-alive": kept, "new connections": fresh, "HTTP/2": second,
        "operations": {name: found._asdict() for name, found in asked.items()},
    }  # fmt: skip
    parts = (
        ABOUT, _table(kept, fresh), _second_table(second, kept), NOTE, ASKED.format(patience=server_lifecycle.PATIENCE), _operations(asked),
        _conclusion(kept, fresh, second, asked),
    )  # fmt: skip
    return Section("Server choice", "\n\n".join(parts), figures)


def _servers(context: Context, modules: Mapping[str, str]) -> dict[str, Server]:
    return {name: Server(_command(context, module)) for name, module in modules.items()}


def _command(context: Context, module: str) -> tuple[str | Path, ...]:
    # Our packages come before the peers', so that the app runs with its pinned versions under every server.
    path = os.pathsep.join((str(ROOT), sysconfig.get_paths()["purelib"]))
    return ("env", f"PYTHONPATH={path}", context.python, "-m", "benchmarks.engines.choice_server", module)


# Checks of each server.


@contextmanager
def _run_server(context: Context, name: str, directory: Path) -> Iterator[Running]:
    command = _product(directory) if name == OURS else [*_command(context, MODULES[name]), "--cert-dir", directory]
    with serving(command, cores=[context.server_core]) as running:
        yield running


def _product(directory: Path) -> list[str | Path]:
    """Return the command of the product itself, which reloads changed certificate files."""
    manifests = directory / "manifests"
    manifests.mkdir(exist_ok=True)
    (manifests / "objects.yaml").write_text(yaml.safe_dump_all([yurt_app_set(), overrider()]))
    return [
        Path(sys.executable).parent / "fleethook", "serve", "--port", "0", "--cert-dir", directory, "--manifests", manifests,
    ]  # fmt: skip


def _check_lifecycle(context: Context, name: str, body: bytes) -> server_lifecycle.Found:
    directory = context.scratch / "operations"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    files = ensure_certificates(directory, names=NAMES, now=datetime.now(UTC))
    authority = KeyPair(files.authority_certificate.read_bytes(), (directory / "ca.key").read_bytes())
    with _run_server(context, name, directory) as running:
        finishes = server_lifecycle.finishes_request(running, files.authority_certificate, body)
    with _run_server(context, name, directory) as running:
        renewed, kept = server_lifecycle.reloads_certificate(
            running, directory, authority, body, hang_up=name == GRANIAN
        )
    return server_lifecycle.Found(finishes, renewed, kept)


# Tables and conclusion.


def _table(kept: list[Round], fresh: list[Round]) -> str:
    head = (
        "server", "requests/s", "of ours", "p99 ms", "µs CPU / request", "MiB", "new connections/s", "of ours",
        "µs CPU / new connection",
    )  # fmt: skip
    rows = []
    for name in kept[0]:
        of = [ratio(rounds, "requests_per_second", name, OURS).text() for rounds in (kept, fresh)]
        number = [f"{figure(rounds, name, 'requests_per_second').median:,.0f}" for rounds in (kept, fresh)]
        rows.append((
            name + mark(kept, name), number[0], of[0], f"{figure(kept, name, 'p99_ms').median:.2f}",
            f"{figure(kept, name, 'cpu_us').median:,.0f}", f"{figure(kept, name, 'rss_mib').median:,.0f}", number[1], of[1],
            f"{figure(fresh, name, 'cpu_us').median:,.0f}",
        ))  # fmt: skip
    return table(head, rows)


def _second_table(second: list[Round], kept: list[Round]) -> str:
    rows = []
    for name, base in ((GRANIAN_2, GRANIAN), (HYPERCORN_2, HYPERCORN)):
        cost = figure(second, name, "cpu_us").median
        rows.append((
            name + mark(second, name), f"{figure(second, name, 'requests_per_second').median:,.0f}",
            f"{figure(second, name, 'p99_ms').median:.2f}", f"{cost:,.0f}", f"{cost / figure(kept, base, 'cpu_us').median:.2f}",
        ))  # fmt: skip
    return table(("server", "requests/s", "p99 ms", "µs CPU / request", "of its HTTP/1.1"), rows)


def _operations(asked: Mapping[str, server_lifecycle.Found]) -> str:
    head = ("server", "finishes", "new certificate", "connection of before", "client certificates", "embedded")
    said = {True: "yes", False: "no"}
    return table(head, [(name, *(said[one] for one in found), *CLIENTS[name]) for name, found in asked.items()])


def _conclusion(
    kept: list[Round], fresh: list[Round], second: list[Round], asked: Mapping[str, server_lifecycle.Found]
) -> str:
    def of(rounds: list[Round], other: str, key: str = "requests_per_second") -> float:
        return ratio(rounds, key, OURS, other).median

    def second_of(name: str, base: str) -> float:
        return figure(second, name, "cpu_us").median / figure(kept, base, "cpu_us").median

    said = CONCLUSION.format(
        ours=figure(kept, OURS, "requests_per_second").median, granian=of(kept, GRANIAN), hypercorn=of(kept, HYPERCORN),
        cpu=of(kept, GRANIAN, "cpu_us"), hypercorn_cpu=of(kept, HYPERCORN, "cpu_us"), fresh=of(fresh, GRANIAN),
        fresh_cpu=of(fresh, GRANIAN, "cpu_us"), h2=second_of(GRANIAN_2, GRANIAN), hypercorn_2=second_of(HYPERCORN_2, HYPERCORN),
        able=" and ".join(name for name, found in asked.items() if all(found)) or "none",
    )  # fmt: skip
    return said + (STAYS if all(asked[OURS]) and of(kept, GRANIAN, "cpu_us") <= MAX_CPU_RATIO else GOES)
