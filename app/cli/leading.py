"""The work that one replica does for all: registering, and keeping workloads as they should be."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from prometheus_client.registry import Collector

from app.asgi import Fleethook
from app.control.leader_metrics import ControllerCounts, ControllerMetrics, LeaderMetrics, LeaderState
from app.interpret.lua.announce import announce
from app.lifetime import reading
from app.model.karmada import CONFIG_MAP, CUSTOMIZATION, INTERPRETER_CONFIGURATION
from app.model.openyurt import YURT_APP_OVERRIDER
from app.overrider.bound_subjects import bound_subjects, call_on_change, call_when_selected, overrider_uids
from app.registration.paths import INTERPRET
from app.registration.webhooks import Reference, URLReference, service_of
from app.settings import Settings

if TYPE_CHECKING:
    from app.kube.connection import Connection
    from app.kube.leader_election import LeaderElector
    from app.overrider.controller import OverriderController
    from app.registration.condition_writer import ConditionWriter
    from app.registration.registrar import Registrar

_POD_NAMESPACE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


class Leader:
    """What is known of the work that one replica does for all."""

    def __init__(self, elector: "LeaderElector") -> None:
        self._elector: Final = elector
        self.controller: OverriderController | None = None
        self._former = ControllerCounts()

    def end(self) -> None:
        """Keep the counts of a controller that has ended, and not the controller."""
        self._former, self.controller = self.counts(), None

    def state(self) -> LeaderState:
        """Return whether this replica leads, and the length of the controller's queue."""
        controller = self.controller
        return LeaderState(leading=self._elector.leading, queued=0 if controller is None else len(controller.queue))

    def counts(self) -> ControllerCounts:
        """Return the counts of the controller, or of the last one."""
        controller = self.controller
        if controller is None:
            return self._former
        workloads = controller.workloads
        return ControllerCounts(reconciled=controller.reconciled, touched=workloads.touched, failed=workloads.failed)

    def collectors(self) -> tuple[Collector, ...]:
        """Return the metrics of this replica's part in the leader's work."""
        return LeaderMetrics(self.state), ControllerMetrics(self.counts)


async def lead(settings: Settings, app: Fleethook, bundle: Callable[[], bytes], listening: asyncio.Event) -> None:
    """Wait for the Lease again and again, and do the leader's work while this replica holds it.

    Args:
        settings: What to do.
        app: The application.
        bundle: Returns the authorities, PEM, that this server's certificate may be from.
        listening: Set once the server listens. Before, nobody may be sent here.
    """
    from app.kube.connection import Connection  # noqa: PLC0415 - see app.kube
    from app.kube.leader_election import LeaderElector, LeaseName, LeaseTiming, create_identity  # noqa: PLC0415 - as above

    await listening.wait()
    assert app.cluster is not None
    await app.cluster.source.wait_tried()
    async with Connection(settings.kubeconfig, context=settings.context) as connection:
        lease = LeaseName(_namespace(settings), "fleethook")
        elector = LeaderElector(
            connection, lease, create_identity(), timing=LeaseTiming.from_duration(settings.lease_duration)
        )
        leader = Leader(elector)
        for collector in leader.collectors():
            app.metrics.registry.register(collector)
        # One of the replicas writes: with certificates that differ, they would undo each other's caBundle for ever.
        await elector.run(partial(_work, settings, app, connection, bundle=bundle, leader=leader))


async def _work(
    settings: Settings, app: Fleethook, connection: "Connection", *, bundle: Callable[[], bytes], leader: Leader
) -> None:
    """Do the leader's work until cancelled; a replica that does not lead keeps no controller."""
    try:
        await _lead_once(settings, app, connection, bundle=bundle, leader=leader)
    finally:
        leader.end()


async def _lead_once(
    settings: Settings, app: Fleethook, connection: "Connection", *, bundle: Callable[[], bytes], leader: Leader
) -> None:
    from app.control.events import Recorder  # noqa: PLC0415 - see app.kube

    async with asyncio.TaskGroup() as tasks:
        registered: Callable[[], Awaitable[object]] | None = None
        if settings.registration != "off":
            registrar = _registrar(app, connection, bundle)
            tasks.create_task(_register(settings, registrar), name="registration")
            # Where others register the server, nobody says when that is done.
            registered = registrar.installed.wait if settings.registration == "all" else None
        if "interpret" in settings.engines:
            recorder = Recorder(connection, component="fleethook", now=lambda: datetime.now(UTC))
            tasks.create_task(announce(app.customizations, recorder), name="customizations")
        if settings.registers_interpreters:
            tasks.create_task(_register_interpreters(settings, app, connection, bundle), name="interpreters")
        if settings.controls:
            leader.controller = _controller(settings, app, connection, registered)
            tasks.create_task(leader.controller.run(), name="controller")
        if selects(settings):
            tasks.create_task(_select(app, connection), name="selection")


def _registrar(app: Fleethook, connection: "Connection", bundle: Callable[[], bytes]) -> "Registrar":
    from app.registration.registrar import Registrar  # noqa: PLC0415 - see app.kube

    assert app.cluster is not None
    source = app.cluster.source
    return Registrar(connection, bundle, ready=source.wait_synced, defined=source.ask_again)


async def _register(settings: Settings, registrar: "Registrar") -> None:
    exempt = [settings.service.partition("/")[0]] if settings.service else []
    reference = _reference(settings) if settings.registration == "all" else None
    await registrar.run(reference, exempt_namespaces=exempt, engines=settings.engines)


async def _register_interpreters(
    settings: Settings, app: Fleethook, connection: "Connection", bundle: Callable[[], bytes]
) -> None:
    from app.interpret.registrar import InterpreterRegistrar, encoded  # noqa: PLC0415 - see app.kube

    assert app.cluster is not None
    assert app.chain is not None
    # Rules without the customizations would have Karmada ask its own interpreters for a moment.
    await app.cluster.source.wait_synced((CUSTOMIZATION, CONFIG_MAP, INTERPRETER_CONFIGURATION))
    reference = _reference(settings)
    registrar = InterpreterRegistrar(
        connection,
        app.store,
        answers=app.chain.answers,
        client_config=lambda: {**reference.client_config(INTERPRET), "caBundle": encoded(bundle())},
    )
    await registrar.run()


def _controller(
    settings: Settings,
    app: Fleethook,
    connection: "Connection",
    registered: Callable[[], Awaitable[object]] | None,
) -> "OverriderController":
    from app.overrider.controller import OverriderController  # noqa: PLC0415 - see app.kube
    from app.overrider.workload_client import Limits  # noqa: PLC0415 - as above

    assert app.cluster is not None
    return OverriderController(
        connection,
        app.store,
        app.cluster.source,
        app.plans,
        limits=Limits(settings.controller_rate, settings.controller_concurrency),
        resync_seconds=settings.resync_interval,
        absent_seconds=settings.discovery_interval,
        registered=registered,
        slices=app.slices,
        reading=reading,
        openyurt_conflict=(lambda: "") if app.conflicts is None else app.conflicts.describe,
    )


def selects(settings: Settings) -> bool:
    """Return whether the leader tells the apiserver which subjects have an overrider.

    Only where the controller runs, which finds what was not sent, and not in kcp, whose webhook configurations are in
    other clusters than the workloads.
    """
    return settings.controls and not settings.kcp


def withdraws_selection(settings: Settings) -> bool:
    """Return whether a replica takes back the selection of an earlier leader.

    Only where an installation switches the controller off; a server that somebody points at a cluster writes nothing.
    """
    installed = settings.service is not None or settings.webhook_url is not None
    off = settings.controller is False and "overrider" in settings.engines
    return off and installed and settings.follows_cluster and not settings.kcp


async def _select(app: Fleethook, connection: "Connection") -> None:
    assert app.cluster is not None
    # An empty list is only true once the overriders were read.
    await app.cluster.source.wait_synced((YURT_APP_OVERRIDER,))
    writer = selection_writer(app, connection)
    end = call_on_change(app.store, writer.wake)
    try:
        await writer.run()
    finally:
        end()


def selection_writer(
    app: Fleethook, connection: "Connection", *, clock: Callable[[], float] = time.monotonic
) -> "ConditionWriter":
    """Return what keeps the list of the subjects with an overrider; ``clock`` returns seconds since any point."""
    from app.registration.condition_client import ConditionClient  # noqa: PLC0415 - see app.kube
    from app.registration.condition_writer import ConditionWriter  # noqa: PLC0415 - as above

    assert app.cluster is not None
    source = app.cluster.source

    async def refresh(namespace: str) -> None:
        await source.read_namespace(YURT_APP_OVERRIDER, cluster="", namespace=namespace)

    return ConditionWriter(
        ConditionClient(connection),
        partial(bound_subjects, app.store),
        overriders=partial(overrider_uids, app.store),
        refresh=refresh,
        clock=clock,
    )


async def withdraw_selection(app: Fleethook, listening: asyncio.Event) -> None:
    """Take back a selection that nobody keeps up to date, until cancelled: it would hide new overriders for ever."""
    from app.registration.condition_client import ConditionClient  # noqa: PLC0415 - see app.kube
    from app.registration.condition_writer import ConditionWriter  # noqa: PLC0415 - as above

    await listening.wait()
    assert app.cluster is not None
    writer = ConditionWriter(ConditionClient(app.cluster.connection), None)
    end = call_when_selected(app.store, writer.wake)
    try:
        await writer.run()
    finally:
        end()


def _namespace(settings: Settings) -> str:
    """Return the namespace of this server."""
    if settings.namespace is not None:
        return settings.namespace
    if settings.in_cluster and _POD_NAMESPACE.exists():
        return _POD_NAMESPACE.read_text().strip()
    for named in (settings.service, settings.cert_secret):
        if named is not None:
            return named.partition("/")[0]
    return "kube-system"


def _reference(settings: Settings) -> Reference:
    if settings.webhook_url is not None:
        return URLReference(settings.webhook_url)
    assert settings.service is not None
    return service_of(settings.service)
