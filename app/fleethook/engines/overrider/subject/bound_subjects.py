"""Finds the subjects that have an overrider. fleethook's webhook configuration selects their workloads."""

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from fleethook.cluster.registration.webhook_configurations import CONFIGURATION_NAME
from fleethook.cluster.store import ObjectKey, Store, Stored
from fleethook.engines.overrider.overrider_settings import OverriderSettings
from fleethook.engines.overrider.subject.match_condition_texts import SubjectName
from fleethook.engines.overrider.subject.owner_and_overrider import subject_of
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSONObject
from fleethook.model.openyurt import YURT_APP_OVERRIDER
from fleethook.server.engine_server import ServerContext

WEBHOOK_CONFIGURATION: Final = GroupKind("admissionregistration.k8s.io", "MutatingWebhookConfiguration")
"""The kind of the object whose annotation has the announced edits."""


def bound_subjects(store: Store) -> frozenset[SubjectName]:
    """Return the subjects that overriders are bound to, over all clusters."""
    overriders = (store.get(*key) for key in list(store.keys(YURT_APP_OVERRIDER)))
    return frozenset(name for overrider in overriders if (name := _get_subject_name(overrider)) is not None)


def call_on_change(store: Store, changed: Callable[[], None]) -> Callable[[], None]:
    """Call ``changed`` when subjects of overriders or fleethook's webhook configuration change.

    Returns:
        A function that ends the calls.
    """

    def notify(key: ObjectKey, before: Stored | None, after: JSONObject | None) -> None:
        is_overrider = key.group_kind == YURT_APP_OVERRIDER
        if _is_own_configuration(key) or (is_overrider and _get_subject_name(before) != _get_subject_name(after)):
            changed()

    return store.subscribe(notify)


def _is_own_configuration(key: ObjectKey) -> bool:
    return key.group_kind == WEBHOOK_CONFIGURATION and key.name == CONFIGURATION_NAME


def _get_subject_name(overrider: JSONObject | None) -> SubjectName | None:
    subject = None if overrider is None else subject_of(overrider)
    if overrider is None or subject is None:
        return None
    return SubjectName(overrider["metadata"].get("namespace") or "", *subject)


if TYPE_CHECKING:
    from fleethook.cluster.apiserver_connection import Connection
    from fleethook.engines.overrider.subject.match_condition_writer import ConditionWriter


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
) -> None:
    """Write the selection until cancelled, at each change of the overriders.

    Args:
        context: The parts of the server; the overriders come from its cluster.
        connection: Writes the webhook configuration.
    """
    assert context.cluster is not None
    # Before the overriders are read, the list of subjects would be empty by mistake.
    await context.cluster.source.wait_synced((YURT_APP_OVERRIDER,))
    writer = make_selection_writer(context, connection)
    end = call_on_change(context.store, writer.wake)
    try:
        await writer.run()
    finally:
        end()


def make_selection_writer(
    context: ServerContext,
    connection: "Connection",
    *,
    clock: Callable[[], float] = time.monotonic,
) -> "ConditionWriter":
    """Return the writer of the selection.

    Args:
        context: As for `write_selection`.
        connection: As for `write_selection`.
        clock: Returns monotonic seconds.
    """
    # Imported here because most servers do not need them.
    from fleethook.engines.overrider.subject.match_condition_writer import ConditionClient, ConditionWriter  # noqa: PLC0415

    assert context.cluster is not None
    source = context.cluster.source

    async def refresh(namespace: str) -> None:
        await source.read_namespace(YURT_APP_OVERRIDER, cluster="", namespace=namespace)

    return ConditionWriter(
        ConditionClient(connection),
        partial(bound_subjects, context.store),
        refresh=refresh,
        clock=clock,
    )


async def keep_selection(context: ServerContext) -> None:
    """Keep the selection without a leader until cancelled. The writes of several replicas conflict and converge."""
    await context.listening.wait()
    assert context.cluster is not None
    await write_selection(context, context.cluster.connection)
