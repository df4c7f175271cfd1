"""The work of the leader: the replica that holds the Lease registers the server and does the engines' tasks.

A server without a cluster does not import this module (see `fleethook.cluster`).
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from prometheus_client.registry import Collector

from fleethook.app import Fleethook
from fleethook.cluster.apiserver_connection import Connection
from fleethook.cluster.leader_election import (
    NAME,
    LeaderElector,
    LeaseName,
    LeaseTiming,
    create_identity,
    find_namespace,
)
from fleethook.cluster.registration.registrar import (
    ChangingConfigurations,
    Registrar,
    Registration,
    end_registration,
)
from fleethook.cluster.registration.webhook_configurations import (
    find_exempt_namespaces,
    find_reference,
    webhook_configurations,
)
from fleethook.model.json import JSONObject
from fleethook.server.engine_server import Leadership
from fleethook.server.metrics import leader_gauges


def candidate_metrics(app: Fleethook, is_leading: Callable[[], bool]) -> list[Collector]:
    """Return the metrics of a candidate for the Lease; ``is_leading`` tells whether it holds the Lease."""
    gauges = leader_gauges(is_leading, lambda: sum(server.queue_length() for server in app.engines.values()))
    return [*gauges, *(collector for engine in app.engines.values() for collector in engine.leader_collectors())]


TakeConfigurations = Callable[[Sequence[JSONObject]], None]
"""Takes configurations."""


async def lead(app: Fleethook, bundle: Callable[[], bytes], *, ended: TakeConfigurations = lambda _: None) -> None:
    """Compete for the Lease until cancelled, and do the leader's work while this replica holds it.

    Args:
        app: The application. No client may be sent here before it listens.
        bundle: Returns the CAs of this server's certificate, as PEM.
        ended: Gets the configurations that stay registered after the leader has stopped.
    """
    settings = app.settings
    await app.parts.listening.wait()
    assert app.cluster is not None
    await app.cluster.source.wait_tried()
    async with Connection(settings.kubeconfig, context=settings.context) as connection:
        lease = LeaseName(find_namespace(settings), NAME)
        elector = LeaderElector(
            connection, lease, create_identity(), timing=LeaseTiming.from_duration(settings.lease_duration)
        )
        for collector in candidate_metrics(app, lambda: elector.leading):
            app.metrics.registry.register(collector)
        # Only one replica writes. Replicas with different certificates would overwrite each other's caBundle for ever.
        await elector.run(partial(_lead_once, app, connection, bundle=bundle, ended=ended))


async def _lead_once(
    app: Fleethook, connection: Connection, *, bundle: Callable[[], bytes], ended: TakeConfigurations
) -> None:
    """Run each task that the settings ask for."""
    settings = app.settings
    try:
        async with asyncio.TaskGroup() as tasks:
            registered: Callable[[], Awaitable[object]] | None = None
            # The engine registers the consumers of an export.
            registers = settings.registration != "off" or any(server.registers for server in app.engines.values())
            if registers and settings.kcp_export is None:
                registrar = _make_registrar(app, connection, bundle)
                work = registrar.run(_make_registration(app), injecting=settings.registration != "off")
                tasks.create_task(work, name="registration")
                # With any other setting, a user or another program registers the server, at an unknown time.
                registered = registrar.installed.wait if settings.registration == "all" else None
            leadership = Leadership(connection, bundle, registered)
            for name, engine in app.engines.items():
                tasks.create_task(engine.lead(leadership), name=name)
    finally:
        # In a cluster, other replicas answer, or the next Pod does.
        if app.draining and (settings.unregister_on_exit or not settings.in_cluster):
            ended(await end_registration(connection, _list_own(app), deletes=settings.unregister_on_exit))


def _list_own(app: Fleethook) -> list[JSONObject]:
    """Return the configurations of this server."""
    registration = _make_registration(app)
    own = [] if registration is None else webhook_configurations(**registration._asdict())
    return own + [one for engine in app.engines.values() if engine.registers for one in engine.configurations()]


def _make_registrar(app: Fleethook, connection: Connection, bundle: Callable[[], bytes]) -> Registrar:
    assert app.cluster is not None
    source = app.cluster.source

    registering = [server for server in app.engines.values() if server.registers]

    def build() -> list[JSONObject]:
        return [one for engine in registering for one in engine.configurations()]

    owner = next((server.registration_owner for server in registering if server.registration_owner), "")
    changing = ChangingConfigurations(build, app.parts.registration_changed, owner)
    return Registrar(connection, bundle, ready=source.wait_synced, defined=source.ask_again, changing=changing)


def _make_registration(app: Fleethook) -> Registration | None:
    settings = app.settings
    if settings.registration != "all" or settings.kcp_export is not None:
        return None
    return Registration(
        find_reference(settings),
        find_exempt_namespaces(settings, find_namespace(settings)),
        settings.engines,
        selecting=any(engine.selects for engine in app.engines.values()),
    )
