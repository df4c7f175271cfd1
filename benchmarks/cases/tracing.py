"""The cost of traces: our server with everything on, with and without an exporter of spans, in turns."""

import contextlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from benchmarks.cases.webhook import OURS
from benchmarks.harness.goals import at_least
from benchmarks.harness.load import Load
from benchmarks.harness.rounds import Round, figure, ratio
from benchmarks.harness.section import Context, Section
from benchmarks.harness.server_group import ours, run_servers
from benchmarks.harness.tables import NOTE, table

SAMPLED = "fleethook, 1 % traced"
ALL = "fleethook, all traced"
WANTED = 0.97

ABOUT = """The UPDATE reviews and connections of the first part. The exporter sends spans to a collector on the core of the load generator. The reviews have
no `traceparent`, so the sampler of the server decides. A thread of the server encodes the spans, on the server's core."""


def run(context: Context) -> Section:
    with _collecting() as collector:
        rows = {
            OURS: ours("fleethook"),
            SAMPLED: ours("fleethook", "--otlp-endpoint", collector.url, "--traced", "0.01"),
            ALL: ours("fleethook", "--otlp-endpoint", collector.url),
        }
        with run_servers(context, rows) as servers:
            load = Load(context.reviews("UPDATE"))
            found = servers.turns(load, rounds=context.rounds, seconds=context.seconds)
    if not collector.requests:
        raise RuntimeError("no spans arrived")
    goal = at_least(
        f"{SAMPLED}: requests/s of those without", WANTED, ratio(found, "requests_per_second", SAMPLED, OURS)
    )
    text = "\n\n".join((ABOUT, _table(found), NOTE))
    return Section("Traces", text, {"rounds": found, "goals": [goal]})


def _table(found: list[Round]) -> str:
    header = ["server", "requests/s", "p50 ms", "p99 ms", "µs CPU / request", "requests/s: it : without"]
    lines = [
        [
            name, f"{figure(found, name, 'requests_per_second').median:,.0f}",
            *(f"{figure(found, name, key).median:.2f}" for key in ("p50_ms", "p99_ms")),
            f"{figure(found, name, 'cpu_us').median:,.0f}",
            ratio(found, "requests_per_second", name, OURS).text(3) if name != OURS else "",
        ]
        for name in found[0]
    ]  # fmt: skip
    return table(header, lines)


class Collector(ThreadingHTTPServer):
    """Counts requests and ignores their spans."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.requests = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.server.requests += 1
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Stay silent."""


@contextlib.contextmanager
def _collecting() -> Iterator[Collector]:
    with Collector() as server:
        thread = threading.Thread(target=server.serve_forever, name="collector", daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
