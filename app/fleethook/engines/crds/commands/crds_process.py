"""The process of the controller for ``Karmada`` objects: leader election, health and metrics."""

import asyncio
import contextlib
import functools
import signal
import socket
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import uvicorn
from fastapi import FastAPI
from prometheus_client import CollectorRegistry

from fleethook.cli.inputs.kubeconfig import Target
from fleethook.cli.output.terminal import flush, write
from fleethook.cli.serve.server import find_port
from fleethook.cluster.api_errors import APIError, UnreachableError
from fleethook.cluster.connection import Connection
from fleethook.cluster.leader_election import (
    LeaderElector,
    LeaderMetrics,
    LeaderState,
    LeaseName,
    LeaseTiming,
    create_identity,
)
from fleethook.engines.crds.cache.tarball_cache import Cache
from fleethook.engines.crds.controller.controller_options import Options
from fleethook.engines.crds.controller.fetcher import FetchMetrics
from fleethook.engines.crds.controller.karmada_controller import KarmadaController
from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.lifetime import run_in_background
from fleethook.server.health import Check, health_routes
from fleethook.server.logs import configure_logging
from fleethook.server.metrics.metrics import exposition
from fleethook.tracing.spans import StartRoot, TracingError, start_tracing

# The Lease of Karmada's operator: a process without it waits.
_OPERATOR_LEASE: Final = "karmada-operator"
_LEASE: Final = "fleethook-crds"
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


class ProcessOptions(NamedTuple):
    """The cluster, Lease and address of the process."""

    cluster: Target
    namespace: str
    """Namespace of the Lease."""
    lease_seconds: float
    host: str
    port: int
    otlp_endpoint: str | None = None
    """The collector of traces, as for `fleethook.tracing.spans.start_tracing`."""


def run_controller(cache: Cache, options: Options, place: ProcessOptions) -> None:
    """Run the controller until SIGTERM or SIGINT; raises CRDsError NETWORK, HTTP or USAGE if it cannot start."""
    configure_logging()
    try:
        tracing = start_tracing(place.otlp_endpoint)
    except TracingError as error:
        raise CRDsError(Exit.USAGE, str(error)) from None
    try:
        asyncio.run(_run(cache, options, place, None if tracing is None else tracing.start_root))
    except UnreachableError as error:
        raise CRDsError(Exit.NETWORK, str(error)) from None
    except APIError as error:
        raise CRDsError(Exit.HTTP, str(error)) from None
    finally:
        if tracing is not None:
            tracing.close()


async def _run(cache: Cache, options: Options, place: ProcessOptions, trace: StartRoot | None) -> None:
    registry, ended = CollectorRegistry(), list[str]()
    metrics, stopping = FetchMetrics(registry), asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, stopping.set)
    async with place.cluster.connect() as connection:
        candidate = _Candidate(
            connection,
            _choose_lease(options, place),
            place.lease_seconds,
            lambda: KarmadaController(connection, cache, options, metrics, trace=trace),
        )
        registry.register(LeaderMetrics(candidate.state))
        app = FastAPI(title="fleethook crds controller", openapi_url=None)
        app.include_router(health_routes(candidate.checks, ended, functools.partial(exposition, registry)))
        server = _Server(
            uvicorn.Config(
                app, host=place.host, port=place.port, lifespan="off", log_config=None, access_log=False,
                server_header=False, proxy_headers=False, ws="none",
            ),
            lambda port: _announce(connection, cache, f"{place.host}:{port}"),
        )  # fmt: skip
        serving = asyncio.create_task(server.serve(), name="health")
        async with run_in_background(candidate.run(), name="controller", ended=ended.append):
            await asyncio.wait([serving, asyncio.create_task(stopping.wait())], return_when=asyncio.FIRST_COMPLETED)
        server.should_exit = True
        await serving


def _choose_lease(options: Options, place: ProcessOptions) -> LeaseName:
    return LeaseName(place.namespace, _LEASE if options.beside else _OPERATOR_LEASE)


class _Candidate:
    """A process that competes for the Lease, and the state of its controller."""

    def __init__(
        self, connection: Connection, lease: LeaseName, seconds: float, make: Callable[[], KarmadaController]
    ) -> None:
        self._elector: Final = LeaderElector(
            connection, lease, create_identity(), timing=LeaseTiming.from_duration(seconds)
        )
        self._lease: Final = lease
        self._make: Final = make
        self._controller: KarmadaController | None = None

    async def run(self) -> None:
        await self._elector.run(self._lead)

    async def _lead(self) -> None:
        # A new controller for each term: the state of an earlier one may be stale.
        self._controller = self._make()
        try:
            await self._controller.run()
        finally:
            self._controller = None

    def checks(self) -> Iterator[Check]:
        """Yield the conditions of readiness. A process that waits for the Lease is ready."""
        if self._controller is None:
            yield Check("lease", ok=True, detail=f"another process holds {self._lease.namespace}/{self._lease.name}")
            return
        for part in self._controller.source.parts():
            yield Check(part.name, ok=part.synced, detail=part.detail)

    def state(self) -> LeaderState:
        """Return whether this process leads, and the length of its controller's queue."""
        queued = 0 if self._controller is None else len(self._controller.queue)
        return LeaderState(leading=self._elector.leading, queued=queued)


class _Server(uvicorn.Server):
    """Serves until ``should_exit`` is set; the process handles signals."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[int], None]) -> None:
        super().__init__(config)
        self._ready: Final = ready

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._ready(find_port(self.servers))


def _announce(connection: Connection, cache: Cache, address: str) -> None:
    write(
        f"fleethook handles the Karmada objects of {connection.host}",
        f"  cache:  {cache.directory}",
        f"  health: http://{address}/readyz",
    )
    flush()
