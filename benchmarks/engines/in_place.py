"""Why a decision costs more in the server than alone: `python -m benchmarks.engines.in_place --load .bench/bin/load`.

Measures the CPU of `AdmissionEndpoint._begin` (decode, decide, encode, count, log) for different UPDATE reviews, in turns. Alone: in a
loop, with parts of a server's other work between two reviews. In place: in servers under load, each without one thing that might
be to blame. Also counts how often the threads of the server were switched to, which is how often the GIL can have changed hands.
"""

import argparse
import asyncio
import contextlib
import gc
import itertools
import json
import os
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import uvloop

from benchmarks.engines.stages import clock_ns
from benchmarks.harness.load import Generator, Load
from benchmarks.harness.processes import Running, serving
from benchmarks.harness.rounds import spread
from benchmarks.reviews import review
from benchmarks.servers import NAMES, PATH
from benchmarks.servers.ours import app_of, serving_context
from benchmarks.varied import reviews, write_lines
from fleethook.cli.serve.uvicorn_server import GracefulServer, bind
from fleethook.cluster.certificates.authority_and_serving_certificate import ensure_certificates
from fleethook.server.protocol.bodies import Reply
from fleethook.server.reviews.admission_endpoint import AdmissionEndpoint
from fleethook.server.reviews.http_checks import Endpoint
from fleethook.work.threads_and_gc import settle_garbage_collector

TIMERS = "/timers"
CALLS = 1_000
"""Number of calls in a turn alone."""
ANSWER = 1_560
VARIANTS = ("plain", "no log", "no collection", "collector of Python")
Between = Callable[[], object]


class Timed(AdmissionEndpoint):
    """Adds up the CPU of its answers."""

    def __init__(self, whole: AdmissionEndpoint) -> None:
        self.__dict__.update(whole.__dict__)
        self.spent = self.count = 0

    def answer(self, scope: Any, body: bytes) -> Any:
        began = time.thread_time_ns()
        begun = super().answer(scope, body)
        self.spent += time.thread_time_ns() - began
        self.count += 1
        return begun


class Timers(Endpoint):
    """Answers with the mean in ns since the last request."""

    max_at_once = 1

    def __init__(self, timed: Timed, **known: Any) -> None:
        super().__init__(TIMERS, **known)
        self._timed = timed

    def answer(self, scope: Any, body: bytes) -> Reply:
        del scope, body
        mean = self._timed.spent / max(1, self._timed.count)
        self._timed.spent = self._timed.count = 0
        return Reply(200, json.dumps(mean).encode())


def options(directory: Path) -> argparse.Namespace:
    return argparse.Namespace(name="fleethook", port=0, cert_dir=directory, overriders=0, objects=0, hooks=0)


def serve(variant: str, directory: Path) -> None:
    app = app_of(options(directory))
    timed = Timed(app.reviews[PATH])
    if variant == "no log":
        timed.__dict__["_log"] = None
    app.reviews[PATH] = timed
    app.reviews[TIMERS] = Timers(timed, metrics=app.metrics, body_limit=1_000, known_clients_only=False)

    def ready(port: int) -> None:
        if variant == "no collection":
            gc.disable()
        elif variant == "collector of Python":
            gc.unfreeze()
            gc.set_threshold(700, 10, 10)
        print(f"serving on {port}", flush=True)

    server = GracefulServer(app, serving_context(directory), ready=ready)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(server.serve(sockets=bind(app.settings.host, app.settings.port)))


def records(directory: Path, size: int) -> Between:
    """Return OpenSSL's work for a review: records of a request in, records of an answer out, through memory."""
    client = ssl.create_default_context(cafile=str(directory / "ca.crt"))
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    theirs = client.wrap_bio(to_client, to_server, server_hostname="localhost")
    ours = serving_context(directory).wrap_bio(to_server, to_client, server_side=True)
    for side in (theirs, ours, theirs, ours):
        with contextlib.suppress(ssl.SSLWantReadError):
            side.do_handshake()
    asked, answer = bytes(size), bytes(ANSWER)

    def shake() -> None:
        theirs.write(asked)
        missing = size
        while missing:
            missing -= len(ours.read(256 * 1024))
        ours.write(answer)
        got = 0
        while got < ANSWER:
            got += len(theirs.read(256 * 1024))

    return shake


def sockets(size: int) -> Between:
    """Return the kernel's work for a review, on both sides of a connection over loopback."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        server, _ = listener.accept()
    asked, answer = bytes(size), bytes(ANSWER)

    def exchange() -> None:
        for sender, receiver, text in ((client, server, asked), (server, client, answer)):
            sender.sendall(text)
            missing = len(text)
            while missing:
                missing -= len(receiver.recv(256 * 1024))

    return exchange


class Alone:
    """The endpoint in this process."""

    def __init__(self, directory: Path) -> None:
        app = app_of(options(directory))
        settle_garbage_collector()
        self._endpoint: Any = app.reviews[PATH]
        self._clock = clock_ns()

    async def turn(self, bodies: Iterator[bytes], between: Between | None) -> float:
        """Return the µs of CPU of an answer."""
        begin, now, spent = self._endpoint._begin, time.thread_time_ns, 0  # noqa: SLF001 - the measured call
        for body in itertools.islice(bodies, CALLS):
            # A server gets a new bytes object for each review.
            arrived = bytes(memoryview(body))
            if between is not None:
                between()
            began = now()
            begin(arrived, "", {})
            spent += now() - began
        await asyncio.sleep(0)
        return (spent / CALLS - self._clock) / 1e3


@contextlib.contextmanager
def busy(core: int) -> Iterator[None]:
    """Keep the other core busy."""
    code = f"import os; os.sched_setaffinity(0, {{{core}}})\nwhile True: bytes(100_000)"
    process = subprocess.Popen([sys.executable, "-c", code])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def switches(running: Running) -> dict[str, int]:
    """Return the number of context switches to each thread of a server."""
    found = {}
    for task in Path(f"/proc/{running.process.pid}/task").iterdir():
        lines = (task / "status").read_text().splitlines()
        counts = [int(line.split()[1]) for line in lines if "ctxt_switches" in line]
        found[f"{(task / 'comm').read_text().strip()} {task.name}"] = sum(counts)
    return found


def timers(running: Running, directory: Path) -> float:
    """Return the mean µs of a server's answers since the last request for it."""
    request = urllib.request.Request(
        f"https://localhost:{running.port}{TIMERS}", b"", {"Content-Type": "application/json"}
    )
    context = ssl.create_default_context(cafile=str(directory / "ca.crt"))
    with urllib.request.urlopen(request, context=context) as answer:
        return json.load(answer) / 1e3


async def measure(given: argparse.Namespace, directory: Path) -> None:
    ensure_certificates(directory, names=NAMES, now=datetime.now(UTC))
    one, many = [review("UPDATE")], reviews("UPDATE")
    files = {name: write_lines(directory / f"{name}.jsonl", texts) for name, texts in (("one", one), ("many", many))}
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[0]})
    alone, size = Alone(directory), len(one[0])
    tls, kernel = records(directory, size), sockets(size)
    ways: dict[str, tuple[list[bytes], Between | None]] = {
        "alone, one review": (one, None),
        "alone, a thousand": (many, None),
        "alone, a thousand, TLS in between": (many, tls),
        "alone, a thousand, TLS and sockets in between": (many, lambda: (tls(), kernel())),
    }
    clock, found = clock_ns() / 1e3, dict[str, list[float]]()
    generator = Generator((given.load,), [cores[-1]], directory / "ca.crt")
    command = [sys.executable, "-m", "benchmarks.engines.in_place", "--cert-dir", directory, "--serve"]
    with contextlib.ExitStack() as stack:
        servers = {name: stack.enter_context(serving([*command, name], cores=cores[:1])) for name in VARIANTS}
        for number in range(given.rounds + 1):
            for title, (bodies, between) in ways.items():
                spent = await alone.turn(itertools.cycle(bodies), between)
                found.setdefault(title, []).append(spent)
            with busy(cores[-1]):
                spent = await alone.turn(itertools.cycle(many), None)
                found.setdefault("alone, a thousand, the other core busy", []).append(spent)
            for name, running in servers.items():
                for kind in ("one", "many") if name == "plain" else ("many",):
                    timers(running, directory)
                    before = switches(running)
                    asked = generator.ask(running, Load(files[kind]), seconds=given.seconds, warmup=0.3)
                    after = switches(running)
                    title = f"in place, {name}, {kind}"
                    found.setdefault(title, []).append(timers(running, directory) - clock)
                    if number == given.rounds and name == "plain":
                        shares = {
                            task: (count - before.get(task, 0)) / asked["requests"] for task, count in after.items()
                        }
                        print(title, "switches for each request by thread:", {k: f"{v:.4f}" for k, v in shares.items()})
    base = found["alone, one review"][1:]
    for title, spent in found.items():
        ratios = spread(mine / theirs for mine, theirs in zip(spent[1:], base, strict=True))
        print(f"{title}: {statistics.median(spent[1:]):.1f} µs, {ratios.text()} of that alone with one review")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--load", type=Path, help="cmd/load of the peers")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--serve", choices=VARIANTS)
    parser.add_argument("--cert-dir", type=Path)
    given = parser.parse_args()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    if given.serve:
        serve(given.serve, given.cert_dir)
        return
    with tempfile.TemporaryDirectory() as name, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(measure(given, Path(name)))


if __name__ == "__main__":
    main()
