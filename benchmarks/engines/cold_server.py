"""A replica that has just started: an apiserver with a fleet, `fleethook serve` beside it, and one review after the other.

    python -m benchmarks.engines.cold_server SUBJECTS POOLS

prints ``serving on PORT`` and answers lists and watches of the fleet over HTTP.
"""

import asyncio
import contextlib
import http.client
import random
import ssl
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import yaml

from benchmarks.engines import scale_objects as objects
from benchmarks.engines.scale_objects import Size
from benchmarks.engines.scale_origin import Origin
from benchmarks.harness.load import Figures
from benchmarks.harness.processes import Running, cpu_seconds, serving
from benchmarks.servers import PATH

_POLL_SECONDS = 0.02
_MAX_SECONDS = 60.0


def serve_fleet(size: Size) -> None:
    """Answer lists of overriders, subjects and node pools; other kinds have no objects, and nothing changes."""
    origin, ended = Origin(size, SimpleNamespace(write=lambda _: None)), threading.Event()  # type: ignore[arg-type]

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            url = urlsplit(self.path)
            query = dict(parse_qsl(url.query))
            if "watch" in query:
                self.send_response(200)
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                ended.wait()
            elif "apps.openyurt.io/v1alpha1" in url.path:
                self._answer(*asyncio.run(origin.answer("GET", url.path, query, None)))
            elif "apps.openyurt.io" in url.path:
                self._answer(404, b"{}")
            else:
                self._answer(200, b'{"metadata":{"resourceVersion":"1"},"items":[]}')

        def _answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        print(f"serving on {server.server_port}", flush=True)
        server.serve_forever()


@contextlib.contextmanager
def fleet_apiserver(size: Size, directory: Path, *, core: int) -> Iterator[Path]:
    """Run an apiserver with a fleet; yield a kubeconfig file for it."""
    command = [sys.executable, "-m", "benchmarks.engines.cold_server", str(size.subjects), str(size.pools)]
    with serving(command, cores=[core]) as running:
        named = {"name": "fleet"}
        document = {
            "apiVersion": "v1", "kind": "Config", "current-context": "fleet",
            "clusters": [{**named, "cluster": {"server": f"http://127.0.0.1:{running.port}"}}],
            "users": [{**named, "user": {}}],
            "contexts": [{**named, "context": {"cluster": "fleet", "user": "fleet"}}],
        }  # fmt: skip
        kubeconfig = directory / f"fleet-{size.subjects}.yaml"
        kubeconfig.write_text(yaml.safe_dump(document))
        yield kubeconfig


def start(
    arguments: Sequence[str | Path], certificates: Path, *, core: int
) -> contextlib.AbstractContextManager[Running]:
    """Start `fleethook serve` as users do, with all engines. The first start compiles the modules, as pip does."""
    environment = ["env", "-u", "PYTHONDONTWRITEBYTECODE", f"PYTHONPYCACHEPREFIX={certificates / 'bytecode'}"]
    command = [
        *environment,
        sys.executable,
        "-m",
        "fleethook",
        "serve",
        *arguments,
        "--cert-dir",
        certificates,
        "--port",
        "0",
    ]
    return serving(command, cores=[core])


def resident_mib(pid: int) -> float:
    text = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) / 1024 for line in text.splitlines() if line.startswith("VmRSS"))


def run_microseconds(pid: int) -> float:
    """Return the CPU time of a process; `cpu_seconds` counts in steps of 10 ms, a tenth of all reviews of a small fleet."""
    texts = (path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/schedstat"))
    return sum(int(text.split()[0]) for text in texts) / 1000


class Client:
    """One keep-alive connection to a server."""

    def __init__(self, running: Running, authority: Path) -> None:
        self._running = running
        context = ssl.create_default_context(cafile=str(authority))
        self._connection = http.client.HTTPSConnection("localhost", running.port, context=context, timeout=60)

    def wait_ready(self) -> Figures:
        """Return the CPU of the server, and its memory, once ``/readyz`` answers 200."""
        until = time.monotonic() + _MAX_SECONDS
        while (found := self._send("GET", "/readyz"))[0] != 200:
            if time.monotonic() > until:
                raise RuntimeError(f"not ready within {_MAX_SECONDS:g} s: {found[1]!r}")
            time.sleep(_POLL_SECONDS)
        pid = self._running.process.pid
        return {"cpu": cpu_seconds(pid), "mib": resident_mib(pid)}

    def review(self, bodies: Sequence[bytes]) -> Figures:
        """Send each review once; return the quantiles of the times until the answers, and the CPU of the server."""
        found, before = [], run_microseconds(self._running.process.pid)
        for body in bodies:
            began = time.perf_counter()
            status, answer = self._send("POST", PATH, body)
            found.append((time.perf_counter() - began) * 1000)
            if status != 200 or b'"patch"' not in answer:
                raise RuntimeError(f"unexpected answer {status}: {answer[:500]!r}")
        spent = run_microseconds(self._running.process.pid) - before
        return quantiles(found) | {"cpu_us": spent / len(bodies)}

    def _send(self, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        self._connection.request(method, path, body=body, headers={"Content-Type": "application/json"})
        response = self._connection.getresponse()
        return response.status, response.read()


def reviews_of_fleet(size: Size) -> list[bytes]:
    """Return the review of one workload of each subject, in any order: its owner's controller restores the template."""
    pick, found = random.Random(11), []
    for number in pick.sample(range(size.subjects), size.subjects):
        document: dict[str, Any] = objects.bare_workload(number, pick.randrange(size.pools))
        found.append(objects.update_review("Deployment", document, document))
    return found


def quantiles(milliseconds: Sequence[float]) -> Figures:
    found = sorted(milliseconds)
    return {"p50_ms": found[len(found) // 2], "p99_ms": found[int(len(found) * 0.99)], "max_ms": found[-1]}


if __name__ == "__main__":
    serve_fleet(Size(int(sys.argv[1]), int(sys.argv[2])))
