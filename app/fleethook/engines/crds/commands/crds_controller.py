"""``fleethook crds controller``: the controller for ``Karmada`` objects, its leader election and health."""

import asyncio
import contextlib
import functools
import os
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import uvicorn
from fastapi import FastAPI
from prometheus_client import CollectorRegistry

from fleethook.cli.command_line import Option
from fleethook.cli.inputs.kubeconfig import KubeconfigContext, TargetOptions
from fleethook.cli.output.text_output import flush, write
from fleethook.cli.serve.uvicorn_server import bind
from fleethook.cluster.api_errors import APIError, UnreachableError
from fleethook.cluster.apiserver_connection import Connection
from fleethook.cluster.followed_objects import run_in_background
from fleethook.cluster.leader_election import LeaderElector, LeaseName, LeaseTiming, create_identity
from fleethook.engines.crds.cache.tarball_cache import Cache
from fleethook.engines.crds.commands import crds_options as option
from fleethook.engines.crds.commands.crds_options import exit_on_error, open_cache
from fleethook.engines.crds.controller.crds_metrics import FetchMetrics
from fleethook.engines.crds.controller.instance_fetches import FetchOptions, Reach
from fleethook.engines.crds.controller.karmada_controller import KarmadaController
from fleethook.engines.crds.instance.karmada_release import parse_release
from fleethook.engines.crds.redaction_and_exit_codes import CRDsError, Exit
from fleethook.model.formats.text import describe_os_error
from fleethook.server.health import Check, health_routes
from fleethook.server.log import LogLines, choose_format, configure_logging
from fleethook.server.metrics import exposition, leader_gauges
from fleethook.tracing.spans_and_otel_variables import StartRoot, TracingError, start_tracing

# The Lease of Karmada's operator: a process without it waits.
_OPERATOR_LEASE: Final = "karmada-operator"
_LEASE: Final = "fleethook-crds"
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


class ProcessOptions(NamedTuple):
    """The cluster, Lease and address of the process."""

    cluster: KubeconfigContext
    namespace: str
    """Namespace of the Lease."""
    lease_seconds: float
    host: str
    port: int
    otlp_endpoint: str | None = None
    """The collector of traces, as for `fleethook.tracing.spans_and_otel_variables.start_tracing`."""


def run_controller(cache: Cache, options: FetchOptions, place: ProcessOptions) -> None:
    """Run the controller until SIGTERM or SIGINT; raises CRDsError NETWORK, HTTP or USAGE if it cannot start."""
    configure_logging(LogLines(convert=choose_format()))
    try:
        tracing = start_tracing(place.otlp_endpoint)
        listeners = bind(place.host, place.port)
    except TracingError as error:
        raise CRDsError(Exit.USAGE, str(error)) from None
    except OSError as error:
        raise CRDsError(Exit.USAGE, describe_os_error(error)) from None
    try:
        asyncio.run(_run(cache, options, place, listeners, None if tracing is None else tracing.start_root))
    except UnreachableError as error:
        # The credentials cannot be read. Requests are repeated until the apiserver answers.
        raise CRDsError(Exit.USAGE, str(error)) from None
    except APIError as error:
        raise CRDsError(Exit.HTTP, str(error)) from None
    finally:
        if tracing is not None:
            tracing.close()


async def _run(
    cache: Cache, options: FetchOptions, place: ProcessOptions, listeners: list[socket.socket], trace: StartRoot | None
) -> None:
    registry, ended = CollectorRegistry(), list[str]()
    metrics, stopping = FetchMetrics(registry), asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, stopping.set)
    async with place.cluster.connect() as connection:
        candidate = _Candidate(
            connection,
            LeaseName(place.namespace, _LEASE if options.beside else _OPERATOR_LEASE),
            place.lease_seconds,
            lambda: KarmadaController(connection, cache, options, metrics, trace=trace),
        )
        for gauge in leader_gauges(candidate.is_leading, candidate.queue_length):
            registry.register(gauge)
        app = FastAPI(title="fleethook crds controller", openapi_url=None)
        app.include_router(health_routes(candidate.checks, ended, functools.partial(exposition, registry)))
        server = _Server(
            uvicorn.Config(
                app, lifespan="off", log_config=None, access_log=False,
                server_header=False, proxy_headers=False, ws="none",
            )
        )  # fmt: skip
        _announce(connection, cache, f"{place.host}:{listeners[0].getsockname()[1]}")
        serving = asyncio.create_task(server.serve(listeners), name="health")
        async with run_in_background(candidate.run(), name="controller", ended=ended.append):
            await asyncio.wait([serving, asyncio.create_task(stopping.wait())], return_when=asyncio.FIRST_COMPLETED)
        server.should_exit = True
        await serving


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

    def is_leading(self) -> bool:
        """Return whether this process leads."""
        return self._elector.leading

    def queue_length(self) -> int:
        """Return the length of the controller's queue, 0 without a controller."""
        return 0 if self._controller is None else len(self._controller.queue)


class _Server(uvicorn.Server):
    """Serves until ``should_exit`` is set; the process handles signals."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _announce(connection: Connection, cache: Cache, address: str) -> None:
    write(
        f"fleethook handles the Karmada objects of {connection.host}",
        f"  cache:  {cache.directory}",
        f"  health: http://{address}/readyz",
    )
    flush()


DATA_DIR: Final = Path("/var/lib/karmada")
"""The data directory of Karmada's operator, which has no flag for it."""


def controller(
    host_cluster: TargetOptions = TargetOptions(),
    beside_operator: Annotated[
        bool, Option("--beside-operator", help="Run beside Karmada's operator: write only conditions about CRDs.")
    ] = False,
    version: Annotated[str, Option(help="Release of the operator, for instances that name none.")] = "",
    follow_instance: option.Follow = False,
    stale_if_error: option.Stale = False,
    strict: option.Strict = False,
    no_env_proxy: option.NoEnvProxy = False,
    allow_host: Annotated[
        list[str] | None, Option(help="Host to allow downloads from, or .suffix; may be repeated (default: any).")
    ] = None,
    no_private: Annotated[
        bool, Option("--no-private", help="Refuse private, loopback and link-local addresses.")
    ] = False,
    local_root: Annotated[
        Path | None, Option(help="Directory of the files that localSource may name (default: none).")
    ] = None,
    namespace: Annotated[str, Option("--namespace", "-n", help="Namespace of the Lease.")] = "karmada-system",
    lease_duration: Annotated[
        float, Option(help="Seconds after which another replica takes over from one that has ended.", minimum=1)
    ] = 15.0,
    host: Annotated[str, Option(help="Address of /healthz, /readyz and /metrics.")] = "127.0.0.1",
    port: Annotated[int, Option(help="Port of these endpoints; 0 picks a free port.", minimum=0, maximum=65535)] = 8080,
    otlp_endpoint: Annotated[
        str | None, Option(help="Base URL of a collector for traces (OTLP over HTTP). Needs fleethook[otel].")
    ] = None,
) -> None:
    """Keep the CRD tarballs of all Karmada objects of a cluster cached, and report that in their status.

    --kubeconfig, --context or --in-cluster name the cluster that has the instances. In a pod, the default is
    --in-cluster. Elsewhere one of them is required, because the controller writes.

    Without --beside-operator it uses the Lease of Karmada's operator, so that only one of them handles the objects.
    """
    with exit_on_error():
        if not host_cluster.is_given and "KUBERNETES_SERVICE_HOST" not in os.environ:
            raise CRDsError(Exit.USAGE, "give one of --kubeconfig and --context, or run it in a pod")
        target = host_cluster.find() if host_cluster.is_given else KubeconfigContext(None)
        if version:
            parse_release(version)
        options = FetchOptions(
            version=version,
            beside=beside_operator,
            follow_instance=follow_instance,
            stale_if_error=stale_if_error,
            strict=strict,
            env_proxies=not no_env_proxy,
            reach=Reach(not no_private, tuple(allow_host or ()), local_root),
        )
        run_controller(
            open_cache(DATA_DIR), options, ProcessOptions(target, namespace, lease_duration, host, port, otlp_endpoint)
        )
