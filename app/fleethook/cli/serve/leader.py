"""The work of the leader: the replica that holds the Lease registers the server and does the engines' tasks."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

from prometheus_client.registry import Collector

from fleethook.app import Fleethook
from fleethook.cluster.leader_election import NAME, find_namespace
from fleethook.cluster.registration.configuration_objects import find_exempt_namespaces, find_reference
from fleethook.server.engine_server import Leadership
from fleethook.server.metrics import leader_gauges

if TYPE_CHECKING:
    from fleethook.cluster.connection import Connection
    from fleethook.cluster.registration.registrar import Registrar
    from fleethook.model.json import JSONObject


def needs_leader(app: Fleethook) -> bool:
    """Return whether the settings ask for any work of a leader."""
    return app.settings.registration != "off" or any(one.leads or one.registers for one in app.engines.values())


def candidate_metrics(app: Fleethook, is_leading: Callable[[], bool]) -> list[Collector]:
    """Return the metrics of a candidate for the Lease; ``is_leading`` tells whether it holds the Lease."""
    gauges = leader_gauges(is_leading, lambda: sum(one.queue_length() for one in app.engines.values()))
    return [*gauges, *(one for engine in app.engines.values() for one in engine.leader_collectors())]


async def lead(app: Fleethook, bundle: Callable[[], bytes]) -> None:
    """Compete for the Lease until cancelled, and do the leader's work while this replica holds it.

    Args:
        app: The application. No client may be sent here before it listens.
        bundle: Returns the CAs of this server's certificate, as PEM.
    """
    from fleethook.cluster.connection import Connection  # noqa: PLC0415 - see fleethook.cluster
    from fleethook.cluster.leader_election import (  # noqa: PLC0415 - as above
        LeaderElector,
        LeaseName,
        LeaseTiming,
        create_identity,
    )

    settings = app.settings
    await app.listening.wait()
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
        await elector.run(partial(_lead_once, app, connection, bundle=bundle))


async def _lead_once(app: Fleethook, connection: "Connection", *, bundle: Callable[[], bytes]) -> None:
    """Run each task that the settings ask for."""
    settings = app.settings
    async with asyncio.TaskGroup() as tasks:
        registered: Callable[[], Awaitable[object]] | None = None
        if settings.registration != "off" or any(one.registers for one in app.engines.values()):
            registrar = _make_registrar(app, connection, bundle)
            tasks.create_task(_register(app, registrar), name="registration")
            # With any other setting, a user or another program registers the server, at an unknown time.
            registered = registrar.installed.wait if settings.registration == "all" else None
        leadership = Leadership(connection, bundle, registered)
        for name, engine in app.engines.items():
            tasks.create_task(engine.lead(leadership), name=name)


def _make_registrar(app: Fleethook, connection: "Connection", bundle: Callable[[], bytes]) -> "Registrar":
    from fleethook.cluster.registration.registrar import (  # noqa: PLC0415 - see fleethook.cluster
        ChangingConfigurations,
        Registrar,
    )

    assert app.cluster is not None
    source = app.cluster.source

    registering = [one for one in app.engines.values() if one.registers]

    def build() -> "list[JSONObject]":
        return [one for engine in registering for one in engine.configurations()]

    owner = next((one.registration_owner for one in registering if one.registration_owner), "")
    changing = ChangingConfigurations(build, app.registration_changed, owner)
    return Registrar(connection, bundle, ready=source.wait_synced, defined=source.ask_again, changing=changing)


async def _register(app: Fleethook, registrar: "Registrar") -> None:
    from fleethook.cluster.registration.registrar import Registration  # noqa: PLC0415 - as above

    settings = app.settings
    registration = None
    if settings.registration == "all":
        registration = Registration(
            find_reference(settings),
            find_exempt_namespaces(settings, find_namespace(settings)),
            settings.engines,
            selecting=any(one.selects for one in app.engines.values()),
        )
    await registrar.run(registration, injecting=settings.registration != "off")
