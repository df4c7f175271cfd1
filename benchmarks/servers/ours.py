"""Our server with all features on: TLS, limits, metrics with exemplars, one log line for each review."""

import argparse
import asyncio
import contextlib
import gc
import itertools
import json
import os
import random
from datetime import UTC, datetime
from pathlib import Path

import uvloop

from benchmarks.engines.dispatch_worlds import QUIET, build_configurations, build_other_hook
from benchmarks.reviews import deployment, overrider
from benchmarks.servers import NAMES
from benchmarks.servers.constant import answer_constantly
from benchmarks.varied import SUBJECTS, stored
from fleethook.app import Fleethook, create_app
from fleethook.cli.serve.uvicorn_server import GracefulServer, bind
from fleethook.cluster.certificates.authority_and_serving_certificate import ReloadingContext, ensure_certificates
from fleethook.cluster.kubernetes.watched_resources import decode_metadata, decode_object
from fleethook.cluster.store import Store
from fleethook.server.log import LogLines, configure_logging
from fleethook.settings import Settings
from fleethook.tracing.otlp import start_otlp
from fleethook.tracing.spans_and_otel_variables import StartTrace
from tests.engines.dispatch.builders import configuration

_NUMBERED = "the-name-of-one-of-them"


def app_of(given: argparse.Namespace, *, trace: StartTrace | None = None) -> Fleethook:
    """Return the app with a store filled as by a source; garbage collection is off meanwhile."""
    settings = Settings(port=given.port, cert_dir=given.cert_dir)
    lines = LogLines()
    configure_logging(lines)
    app = create_app(settings, log=lines.write, trace=trace)
    gc.disable()
    for document in stored():
        app.store.put(document)
    template = json.dumps(overrider(_NUMBERED)).encode()
    for number in range(given.overriders - SUBJECTS):
        app.store.put(decode_object(template.replace(_NUMBERED.encode(), b"other-%d" % number)))
    for number in range(given.objects):
        put_workload(app.store, number, version=0)
    hooks = [build_other_hook(number, random.Random(number)) for number in range(given.hooks)]
    for document in build_configurations(hooks, "mutating"):
        app.store.put(document)
    if hooks:
        app.store.put(configuration(QUIET, "mutating", hooks[0]))
    if given.name != "fleethook":
        answer_constantly(app, settings, given.name)
    return app


def _workload_text() -> bytes:
    document = deployment()
    document["metadata"] |= {"name": _NUMBERED, "uid": f"{_NUMBERED}-uid", "resourceVersion": "RV"}
    return json.dumps({"metadata": document["metadata"]}).encode()


_WORKLOAD = _workload_text()


def put_workload(store: Store, number: int, *, version: int) -> None:
    """Store a pool's Deployment as a watch does: decoded from text to a partial object."""
    text = _WORKLOAD.replace(_NUMBERED.encode(), b"shop-%d" % number).replace(b'"RV"', b'"%d"' % version)
    store.put({"apiVersion": "apps/v1", "kind": "Deployment", **decode_metadata(text)})


async def churn(store: Store, objects: int, each_second: int) -> None:
    """Replace workloads forever, as the writes of their controllers do."""
    for written in itertools.count():
        await asyncio.sleep(1 / each_second)
        put_workload(store, written % objects, version=written + 1)


def serve(given: argparse.Namespace) -> None:
    if given.otlp_endpoint is not None:
        os.environ |= {"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": str(given.traced)}
        with contextlib.closing(start_otlp(given.otlp_endpoint)) as tracing:
            _serve(given, app_of(given, trace=tracing.start))
        return
    _serve(given, app_of(given))


def _serve(given: argparse.Namespace, app: Fleethook) -> None:
    tasks = []

    def ready(port: int) -> None:
        if given.collector == "default":
            gc.unfreeze()
            gc.set_threshold(700, 10, 10)
        if given.churn:
            tasks.append(asyncio.get_running_loop().create_task(churn(app.store, given.objects, given.churn)))
        print(f"serving on {port}", flush=True)

    server = GracefulServer(app, serving_context(given.cert_dir), ready=ready)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(server.serve(sockets=bind(app.settings.host, app.settings.port)))


def serving_context(directory: Path):
    """Return the TLS context of our server for the certificate of a directory."""
    return ReloadingContext(ensure_certificates(directory, names=NAMES, now=datetime.now(UTC))).context
