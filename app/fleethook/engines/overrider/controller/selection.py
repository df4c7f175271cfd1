"""Keeps the selection: the subjects with an overrider, in the matchConditions of the webhooks."""

import asyncio
import time
from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING

from fleethook.cluster.registration.match_conditions import SubjectName
from fleethook.engines.overrider.overrider_settings import OverriderSettings
from fleethook.engines.overrider.policies.mode import Mode
from fleethook.engines.overrider.subject.bound_subjects import bound_subjects, call_on_change, overrider_uids
from fleethook.model.openyurt import YURT_APP_OVERRIDER
from fleethook.server.engine_server import ServerContext

if TYPE_CHECKING:
    from fleethook.cluster.connection import Connection
    from fleethook.cluster.registration.condition_client import ConditionWriter


def runs_selection(settings: OverriderSettings) -> bool:
    """Return whether the leader restricts the webhooks to the workloads of subjects with an overrider.

    That needs the controller, which finds workloads that the apiserver did not send. It is off in kcp, where webhook
    configurations and workloads are in different clusters.
    """
    return settings.controls and not settings.kcp


def lists_without_leader(settings: OverriderSettings) -> bool:
    """Return whether each replica keeps the selection, because no leader does.

    It does if an installation switches the controller off. A server without an address of its own, such as one on a
    developer's machine, writes nothing to the cluster.
    """
    is_installed = settings.service is not None or settings.webhook_url is not None
    has_no_controller = settings.controller is False and "overrider" in settings.engines
    return has_no_controller and is_installed and settings.follows_cluster and not settings.kcp


async def write_selection(
    context: ServerContext,
    connection: "Connection",
    exempt: Callable[[], Collection[SubjectName]] = frozenset,
    changed: asyncio.Event | None = None,
) -> None:
    """Write the selection until cancelled, at each change of the overriders.

    Args:
        context: The parts of the server; the overriders come from its cluster.
        connection: Writes the webhook configuration.
        exempt: Returns the subjects whose workloads policies render.
        changed: Set when the result of ``exempt`` changes.
    """
    assert context.cluster is not None
    # Before the overriders are read, the list of subjects would be empty by mistake.
    await context.cluster.source.wait_synced((YURT_APP_OVERRIDER,))
    writer = make_selection_writer(context, connection, exempt=exempt)
    end = call_on_change(context.store, writer.wake)
    try:
        async with asyncio.TaskGroup() as tasks:
            if changed is not None:
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
    context: ServerContext,
    connection: "Connection",
    *,
    exempt: Callable[[], Collection[SubjectName]] = frozenset,
    clock: Callable[[], float] = time.monotonic,
) -> "ConditionWriter":
    """Return the writer of the selection.

    Args:
        context: As for `write_selection`.
        connection: As for `write_selection`.
        exempt: As for `write_selection`.
        clock: Returns monotonic seconds.
    """
    # Imported here because most servers do not need them.
    from fleethook.cluster.registration.condition_client import (
        ConditionClient,
        ConditionWriter,
    )

    assert context.cluster is not None
    source = context.cluster.source

    async def refresh(namespace: str) -> None:
        await source.read_namespace(YURT_APP_OVERRIDER, cluster="", namespace=namespace)

    return ConditionWriter(
        ConditionClient(connection),
        partial(bound_subjects, context.store, Mode(context.settings.section(OverriderSettings).overrider_mode)),
        overriders=partial(overrider_uids, context.store),
        exempt=exempt,
        refresh=refresh,
        clock=clock,
    )


async def keep_selection(context: ServerContext) -> None:
    """Keep the selection without a leader until cancelled. The writes of several replicas conflict and converge."""
    await context.listening.wait()
    assert context.cluster is not None
    await write_selection(context, context.cluster.connection)
