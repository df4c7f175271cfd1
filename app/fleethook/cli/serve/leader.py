"""The work of the leader: the replica that holds the Lease registers the server and runs the controllers."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final

from prometheus_client.registry import Collector

from fleethook.app import Fleethook
from fleethook.cluster.leader_election import NAME, find_namespace
from fleethook.cluster.leader_metrics import ControllerCounts, ControllerMetrics, LeaderMetrics, LeaderState
from fleethook.cluster.registration.exempt_namespaces import find_exempt_namespaces
from fleethook.cluster.registration.match_conditions import SubjectName
from fleethook.cluster.registration.paths import INTERPRET
from fleethook.cluster.registration.webhooks import CONFIGURATION_NAME, Reference, URLReference, service_of
from fleethook.engines.interpret.lua.refusal_events import record_refusals
from fleethook.engines.overrider.policies.mode import Mode
from fleethook.engines.overrider.subject.bound_subjects import (
    WEBHOOK_CONFIGURATION,
    bound_subjects,
    call_on_change,
    overrider_uids,
)
from fleethook.lifetime import pause_garbage_collector
from fleethook.model.karmada import CONFIG_MAP, CUSTOMIZATION, INTERPRETER_CONFIGURATION
from fleethook.model.openyurt import YURT_APP_OVERRIDER
from fleethook.settings import Settings

if TYPE_CHECKING:
    from fleethook.cluster.connection import Connection
    from fleethook.cluster.leader_election import LeaderElector
    from fleethook.cluster.registration.condition_writer import ConditionWriter
    from fleethook.cluster.registration.registrar import Registrar
    from fleethook.engines.overrider.controller.controller import OverriderController
    from fleethook.engines.overrider.policies.policy_keeper import PolicyKeeper


class Leader:
    """The state and the counts of a candidate for the Lease, for metrics."""

    def __init__(self, elector: "LeaderElector") -> None:
        self._elector: Final = elector
        self.controller: OverriderController | None = None
        self._last_counts = ControllerCounts()

    def end(self) -> None:
        """Keep the counts of the ended controller, and drop the controller with its queue."""
        self._last_counts, self.controller = self.counts(), None

    def state(self) -> LeaderState:
        """Return whether this replica holds the Lease, and the length of its controller's queue."""
        controller = self.controller
        return LeaderState(leading=self._elector.leading, queued=0 if controller is None else len(controller.queue))

    def counts(self) -> ControllerCounts:
        """Return the counts of the running controller, or of the last one."""
        controller = self.controller
        if controller is None:
            return self._last_counts
        workloads = controller.workloads
        return ControllerCounts(reconciled=controller.reconciled, touched=workloads.touched, failed=workloads.failed)

    def collectors(self) -> tuple[Collector, ...]:
        """Return the metrics of this candidate."""
        return LeaderMetrics(self.state), ControllerMetrics(self.counts)


async def lead(settings: Settings, app: Fleethook, bundle: Callable[[], bytes], listening: asyncio.Event) -> None:
    """Compete for the Lease until cancelled, and do the leader's work while this replica holds it.

    Args:
        settings: The settings; they decide on the work of the leader.
        app: The application.
        bundle: Returns the CAs of this server's certificate, as PEM.
        listening: Set once the server listens. No client may be sent here before.
    """
    from fleethook.cluster.connection import Connection  # noqa: PLC0415 - see app.kube
    from fleethook.cluster.leader_election import (  # noqa: PLC0415 - as above
        LeaderElector,
        LeaseName,
        LeaseTiming,
        create_identity,
    )

    await listening.wait()
    assert app.cluster is not None
    await app.cluster.source.wait_tried()
    async with Connection(settings.kubeconfig, context=settings.context) as connection:
        lease = LeaseName(find_namespace(settings), NAME)
        elector = LeaderElector(
            connection, lease, create_identity(), timing=LeaseTiming.from_duration(settings.lease_duration)
        )
        leader = Leader(elector)
        for collector in leader.collectors():
            app.metrics.registry.register(collector)
        # Only one replica writes. Replicas with different certificates would overwrite each other's caBundle for ever.
        await elector.run(partial(_work, settings, app, connection, bundle=bundle, leader=leader))


async def _work(
    settings: Settings, app: Fleethook, connection: "Connection", *, bundle: Callable[[], bytes], leader: Leader
) -> None:
    """Do the leader's work until cancelled, then drop the controller."""
    try:
        await _lead_once(settings, app, connection, bundle=bundle, leader=leader)
    finally:
        leader.end()


async def _lead_once(
    settings: Settings, app: Fleethook, connection: "Connection", *, bundle: Callable[[], bytes], leader: Leader
) -> None:
    """Run each task that the settings ask for."""
    from fleethook.cluster.events import Recorder  # noqa: PLC0415 - see app.kube

    async with asyncio.TaskGroup() as tasks:
        registered: Callable[[], Awaitable[object]] | None = None
        if settings.registration != "off":
            registrar = _make_registrar(app, connection, bundle)
            tasks.create_task(_register(settings, registrar), name="registration")
            # Otherwise somebody else registers the server, at an unknown time.
            registered = registrar.installed.wait if settings.registration == "all" else None
        if "interpret" in settings.engines:
            recorder = Recorder(connection, component="fleethook", now=lambda: datetime.now(UTC))
            tasks.create_task(record_refusals(app.customizations, recorder), name="customizations")
        if settings.registers_interpreters:
            tasks.create_task(_register_interpreters(settings, app, connection, bundle), name="interpreters")
        changed = asyncio.Event()
        policies = _make_policy_keeper(settings, app, connection, changed) if runs_selection(settings) else None
        if settings.controls:
            leader.controller = _make_controller(settings, app, connection, registered, policies=policies)
            tasks.create_task(leader.controller.run(), name="controller")
        if policies is not None:
            tasks.create_task(_run_selection(app, connection, policies, changed), name="selection")


def _make_registrar(app: Fleethook, connection: "Connection", bundle: Callable[[], bytes]) -> "Registrar":
    from fleethook.cluster.registration.registrar import Registrar  # noqa: PLC0415 - see app.kube

    assert app.cluster is not None
    source = app.cluster.source
    return Registrar(connection, bundle, ready=source.wait_synced, defined=source.ask_again)


async def _register(settings: Settings, registrar: "Registrar") -> None:
    exempt = find_exempt_namespaces(settings.service)
    reference = _make_reference(settings) if settings.registration == "all" else None
    selecting = runs_selection(settings) or lists_without_leader(settings)
    await registrar.run(reference, exempt_namespaces=exempt, engines=settings.engines, selecting=selecting)


async def _register_interpreters(
    settings: Settings, app: Fleethook, connection: "Connection", bundle: Callable[[], bytes]
) -> None:
    from fleethook.engines.interpret.hooks.interpreter_registrar import (  # noqa: PLC0415 - see app.kube
        InterpreterRegistrar,
        encode_ca_bundle,
    )

    assert app.cluster is not None
    assert app.chain is not None
    # Rules without the customizations would make Karmada use its own interpreters for a moment.
    await app.cluster.source.wait_synced((CUSTOMIZATION, CONFIG_MAP, INTERPRETER_CONFIGURATION))
    reference = _make_reference(settings)
    registrar = InterpreterRegistrar(
        connection,
        app.store,
        answers=app.chain.answers,
        client_config=lambda: {**reference.client_config(INTERPRET), "caBundle": encode_ca_bundle(bundle())},
    )
    await registrar.run()


def _make_controller(
    settings: Settings,
    app: Fleethook,
    connection: "Connection",
    registered: Callable[[], Awaitable[object]] | None,
    *,
    policies: "PolicyKeeper | None",
) -> "OverriderController":
    from fleethook.engines.overrider.controller.controller import OverriderController  # noqa: PLC0415 - see app.kube
    from fleethook.engines.overrider.controller.workload_client import WriteLimits  # noqa: PLC0415 - as above

    assert app.cluster is not None
    return OverriderController(
        connection,
        app.store,
        app.cluster.source,
        app.plans,
        limits=WriteLimits(settings.controller_rate, settings.controller_concurrency),
        resync_seconds=settings.resync_interval,
        absent_seconds=settings.discovery_interval,
        registered=registered,
        policies=policies,
        slices=app.slices,
        reading=pause_garbage_collector,
        openyurt_conflict=(lambda: "") if app.conflicts is None else app.conflicts.describe,
    )


def _make_policy_keeper(
    settings: Settings, app: Fleethook, connection: "Connection", changed: asyncio.Event
) -> "PolicyKeeper":
    from fleethook.engines.overrider.policies.policy_client import PolicyClient  # noqa: PLC0415 - see app.kube
    from fleethook.engines.overrider.policies.policy_keeper import PolicyKeeper  # noqa: PLC0415 - as above
    from fleethook.engines.overrider.policies.policy_watch import PolicyWatch  # noqa: PLC0415 - as above

    assert app.cluster is not None
    read_one = app.cluster.source.read_one
    return PolicyKeeper(
        PolicyClient(connection, owner=settings.policy_owner or ""),
        PolicyWatch(connection, absent_seconds=settings.discovery_interval),
        app.store,
        default=Mode(settings.overrider_mode),
        limit=settings.policy_limit,
        time=time.monotonic,
        read_edits=partial(read_one, WEBHOOK_CONFIGURATION, cluster="", namespace="", name=CONFIGURATION_NAME),
        changed=changed.set,
    )


def runs_selection(settings: Settings) -> bool:
    """Return whether the leader restricts the webhooks to the workloads of subjects with an overrider.

    That needs the controller, which finds workloads that the apiserver did not send. It is off in kcp, where webhook
    configurations and workloads are in different clusters.
    """
    return settings.controls and not settings.kcp


def lists_without_leader(settings: Settings) -> bool:
    """Return whether each replica keeps the selection, because no leader does.

    It does if an installation switches the controller off. A server without an address of its own, such as one on a
    developer's machine, writes nothing to the cluster.
    """
    is_installed = settings.service is not None or settings.webhook_url is not None
    has_no_controller = settings.controller is False and "overrider" in settings.engines
    return has_no_controller and is_installed and settings.follows_cluster and not settings.kcp


async def _run_selection(
    app: Fleethook, connection: "Connection", policies: "PolicyKeeper", changed: asyncio.Event
) -> None:
    assert app.cluster is not None
    # Before the overriders are read, the list of subjects would be empty by mistake.
    await app.cluster.source.wait_synced((YURT_APP_OVERRIDER,))
    writer = make_selection_writer(app, connection, exempt=policies.exempt)
    end = call_on_change(app.store, writer.wake)
    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_wake_on(changed, writer), name="exemptions")
            tasks.create_task(writer.run(), name="match condition")
    finally:
        end()


async def _wake_on(changed: asyncio.Event, writer: "ConditionWriter") -> None:
    while True:
        await changed.wait()
        changed.clear()
        writer.wake()


def make_selection_writer(
    app: Fleethook,
    connection: "Connection",
    *,
    exempt: Callable[[], Collection[SubjectName]] = frozenset,
    clock: Callable[[], float] = time.monotonic,
) -> "ConditionWriter":
    """Return the writer of the selection: the subjects with an overrider, in the matchConditions of the webhooks.

    Args:
        app: The application.
        connection: Connection of the leader.
        exempt: Returns the subjects whose workloads policies render.
        clock: Returns monotonic seconds.
    """
    from fleethook.cluster.registration.condition_client import ConditionClient  # noqa: PLC0415 - see app.kube
    from fleethook.cluster.registration.condition_writer import ConditionWriter  # noqa: PLC0415 - as above

    assert app.cluster is not None
    source = app.cluster.source

    async def refresh(namespace: str) -> None:
        await source.read_namespace(YURT_APP_OVERRIDER, cluster="", namespace=namespace)

    return ConditionWriter(
        ConditionClient(connection),
        partial(bound_subjects, app.store, Mode(app.settings.overrider_mode)),
        overriders=partial(overrider_uids, app.store),
        exempt=exempt,
        refresh=refresh,
        clock=clock,
    )


async def keep_selection(app: Fleethook, listening: asyncio.Event) -> None:
    """Keep the selection without a leader until cancelled. The writes of several replicas conflict and converge."""
    await listening.wait()
    assert app.cluster is not None
    await app.cluster.source.wait_synced((YURT_APP_OVERRIDER,))
    writer = make_selection_writer(app, app.cluster.connection)
    end = call_on_change(app.store, writer.wake)
    try:
        await writer.run()
    finally:
        end()


def _make_reference(settings: Settings) -> Reference:
    if settings.webhook_url is not None:
        return URLReference(settings.webhook_url)
    assert settings.service is not None
    return service_of(settings.service)
