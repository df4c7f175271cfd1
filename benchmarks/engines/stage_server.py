"""Our server, stopped after a stage: `python -m benchmarks.engines.stage_server STAGE --cert-dir DIR [--timers FILE]`.

Every server sends the answer of the complete one, so that writing it costs the same. `timed` runs all stages and writes the
nanoseconds of each to FILE when it ends.
"""

import argparse
import asyncio
import json
import time
from pathlib import Path
from typing import Any

import uvloop

from benchmarks.engines.stages import ANSWERING, CONNECTION, EDGE, HTTP, STAGES, TIMED, clock_ns
from benchmarks.reviews import review
from benchmarks.servers import PATH
from benchmarks.servers.ours import app_of, serving_context
from benchmarks.varied import reviews
from fleethook.cli.serve.uvicorn_server import GracefulServer, bind
from fleethook.server.log import encode_line, make_admission_line
from fleethook.server.protocol.bodies import Reply
from fleethook.server.reviews.admission_endpoint import AdmissionEndpoint
from fleethook.server.reviews.http_checks import REQUEST_ID
from fleethook.server.reviews.records_and_traces import find_outcome
from fleethook.server.reviews.review_codec import decode_review, encode_response
from fleethook.work.threads_and_gc import finish


class Staged(AdmissionEndpoint):
    """Runs `AdmissionEndpoint` up to a stage, then sends the complete answer."""

    def __init__(self, whole: AdmissionEndpoint, *, stages: int, answer: bytes) -> None:
        self.__dict__.update(whole.__dict__)
        self._stages, self._whole = stages, answer

    def answer(self, scope: Any, body: bytes) -> Reply:
        if self._stages < 1:
            return Reply(200, self._whole)
        started = time.perf_counter()
        read = decode_review(body)
        if self._stages < 2:
            return Reply(200, self._whole)
        response = self._handle(read.request)
        if self._stages < 3:
            return Reply(200, self._whole)
        answer = encode_response(response, uid=read.uid, api_version=read.api_version)
        if self._stages < 4:
            return Reply(200, answer)
        request_id = scope.get(REQUEST_ID) or read.uid
        seconds = time.perf_counter() - started
        operation = read.request.operation if read.request else ""
        self.metrics.count_review(self._path, operation, find_outcome(response), seconds=seconds)
        if self._stages > 4 and self._log is not None:
            self._log(
                encode_line(make_admission_line(self._path, read, response, seconds=seconds, request_id=request_id))
            )
        return Reply(200, answer)


class Parsed(AdmissionEndpoint):
    """Sends a constant answer after the app has parsed the request and found its endpoint."""

    def __init__(self, whole: AdmissionEndpoint, *, answer: bytes) -> None:
        self.__dict__.update(whole.__dict__)
        self._constant = Reply(200, answer)

    def answer(self, scope: Any, body: bytes) -> Reply:
        del scope, body
        return self._constant


class Timed(AdmissionEndpoint):
    """Runs `AdmissionEndpoint` and reads the clock after each stage."""

    def __init__(self, whole: AdmissionEndpoint) -> None:
        self.__dict__.update(whole.__dict__)
        self.sums, self.count = [0] * len(ANSWERING), 0

    def answer(self, scope: Any, body: bytes) -> Reply:
        now = time.thread_time_ns
        t0 = now()
        read = decode_review(body)
        t1 = now()
        response = self._handle(read.request)
        t2 = now()
        answer = encode_response(response, uid=read.uid, api_version=read.api_version)
        t3 = now()
        request_id = scope.get(REQUEST_ID) or read.uid
        seconds = (t3 - t0) / 1e9
        operation = read.request.operation if read.request else ""
        self.metrics.count_review(self._path, operation, find_outcome(response), seconds=seconds)
        t4 = now()
        if self._log is not None:
            self._log(
                encode_line(make_admission_line(self._path, read, response, seconds=seconds, request_id=request_id))
            )
        t5 = now()
        for number, spent in enumerate((t1 - t0, t2 - t1, t3 - t2, t4 - t3, t5 - t4)):
            self.sums[number] += spent
        self.count += 1
        return Reply(200, answer)

    def report(self) -> dict[str, float]:
        """Return microseconds by stage, minus the cost of reading the clock."""
        clock = clock_ns()
        return {
            stage: (spent / max(1, self.count) - clock) / 1e3 for stage, spent in zip(ANSWERING, self.sums, strict=True)
        }


class Connection(asyncio.Protocol):
    """The event loop and its TLS alone: answers requests, complete by their Content-Length, with constant bytes."""

    def __init__(self, answer: bytes) -> None:
        self._answer = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (
            len(answer), answer,
        )  # fmt: skip
        self._missing = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if not self._missing:
            head, _, body = data.partition(b"\r\n\r\n")
            self._missing = int(head.rpartition(b"Content-Length:")[2].split(b"\r\n", 1)[0]) - len(body)
        else:
            self._missing -= len(data)
        if not self._missing:
            self._transport.write(self._answer)


async def _serve_connections(directory: Path, answer: bytes) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(answer), "127.0.0.1", 0, ssl=serving_context(directory))
    print(f"serving on {server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


async def _answer(whole: AdmissionEndpoint) -> bytes:
    """Return the complete server's answer; all plans are compiled before, so that no stage has to wait for one."""
    for body in (*reviews("UPDATE"), review("UPDATE")):
        reply = await finish(whole.answer({}, body))
    return reply.body


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", choices=[*STAGES, TIMED])
    parser.add_argument("--cert-dir", type=Path, required=True)
    parser.add_argument("--timers", type=Path)
    given = parser.parse_args()
    app = app_of(
        argparse.Namespace(name="fleethook", port=0, cert_dir=given.cert_dir, overriders=0, objects=0, hooks=0)
    )
    whole = app.reviews[PATH]
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        answer = runner.run(_answer(whole))
        if given.stage == CONNECTION:
            runner.run(_serve_connections(given.cert_dir, answer))
            return
        timed = Timed(whole)
        app.reviews[PATH] = timed
        if given.stage == HTTP:
            app.reviews[PATH] = Parsed(whole, answer=answer)
        elif given.stage != TIMED:
            app.reviews[PATH] = Staged(whole, stages=STAGES.index(given.stage) - STAGES.index(EDGE), answer=answer)
        announce = lambda port: print(f"serving on {port}", flush=True)  # noqa: E731 - a callback
        server = GracefulServer(app, serving_context(given.cert_dir), ready=announce)
        runner.run(server.serve(sockets=bind(app.settings.host, app.settings.port)))
    if given.timers:
        given.timers.write_text(json.dumps(timed.report()))


if __name__ == "__main__":
    main()
