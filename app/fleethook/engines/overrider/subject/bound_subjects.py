"""Finds the subjects that have an overrider. fleethook's webhook configuration selects their workloads."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from fleethook.cluster.api_errors import APIError, UnreachableError
from fleethook.cluster.registration.configuration_objects import CONFIGURATION_NAME
from fleethook.cluster.registration.match_conditions import (
    ANNOUNCED_ANNOTATION,
    Announcement,
    Selection,
    SubjectName,
    read_announcements,
)
from fleethook.cluster.store import ObjectKey, Store, Stored
from fleethook.engines.overrider.overrider_settings import OverriderSettings
from fleethook.engines.overrider.policies.mode import MODE_ANNOTATION, Mode, read_mode
from fleethook.engines.overrider.subject.owner_index import subject_of
from fleethook.engines.overrider.subject.subject_members import same_input
from fleethook.model.admission import AdmissionRequest, Response
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSONObject, as_object
from fleethook.model.openyurt import YURT_APP_OVERRIDER
from fleethook.server.engine_server import ServerContext

_log: Final = logging.getLogger(__name__)


class Announce(Protocol):
    """Adds the subject of an overrider to the webhook configuration, so that reviews of its workloads arrive."""

    async def __call__(self, announcement: Announcement, *, fails_open: bool) -> None:
        """Add the subject; ``fails_open`` tells whether kube-apiserver admits its workloads without a response."""


Unbind = Callable[[str], Awaitable[bool]]
"""Deletes the policy bindings of the overrider with a uid, and returns whether there were any."""

# kube-apiserver drops policies without a binding once a second (policy_source.go, defaultRefreshInterval), after its
# watch has received the deletion.
_STOP_SECONDS: Final = 1.5
# The leader may have sent a binding before its watch received the announcement.
_MAX_UNBINDS: Final = 2

WEBHOOK_CONFIGURATION: Final = GroupKind("admissionregistration.k8s.io", "MutatingWebhookConfiguration")
"""The kind of the object whose annotation has the announced edits."""


def bound_subjects(store: Store, default: Mode) -> Selection:
    """Return the subjects that overriders are bound to, over all clusters.

    If no replica responds, kube-apiserver admits the workloads of overriders with the mode ``policy``.

    Args:
        store: The overriders.
        default: The mode of overriders without the annotation.
    """
    closed, opened = set[SubjectName](), set[SubjectName]()
    for key in list(store.keys(YURT_APP_OVERRIDER)):
        overrider = store.get(*key)
        if overrider is not None and (subject := _get_subject_name(overrider)) is not None:
            (opened if _fails_open(overrider, default) else closed).add(subject)
    return Selection(frozenset(closed - opened), frozenset(opened))


def _fails_open(overrider: JSONObject, default: Mode) -> bool:
    return read_mode(overrider, default)[0] is Mode.POLICY


def overrider_uids(store: Store) -> set[str]:
    """Return the uids of all overriders, over all clusters."""
    overriders = (store.get(*key) for key in list(store.keys(YURT_APP_OVERRIDER)))
    return {_get_uid(overrider) for overrider in overriders if overrider is not None}


async def announce_overrider(
    request: AdmissionRequest, response: Response, *, announce: Announce, default: Mode
) -> None:
    """Announce the subject of an overrider that is about to be created. The subject is immutable afterwards."""
    if request.operation != "CREATE" or request.sub_resource or request.dry_run or not response.allowed:
        return
    subject = subject_of(request.object)
    if subject is not None:
        # kube-apiserver sets the uid of a new object before it calls webhooks.
        uid = _get_uid(request.object) or request.uid
        announcement = Announcement(SubjectName(request.namespace, *subject), uid)
        await announce(announcement, fails_open=_fails_open(request.object, default))


async def conclude_overrider(
    request: AdmissionRequest, response: Response, *, announce: Announce, unbind: Unbind, default: Mode
) -> None:
    """Prepare the cluster for an admitted overrider; see `announce_overrider` and `suspend_policies`."""
    await announce_overrider(request, response, announce=announce, default=default)
    await suspend_policies(request, response, announce=announce, unbind=unbind, default=default)


async def suspend_policies(
    request: AdmissionRequest,
    response: Response,
    *,
    announce: Announce,
    unbind: Unbind,
    default: Mode,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Make the webhook responsible for the workloads of an overrider that is about to be edited or deleted.

    Afterwards its policies have no binding, and apiservers do not use them. They would apply the values of the former
    version to workloads that are created after the edit, and the webhook keeps values that no entry sets.

    Args:
        request: The review of the overrider.
        response: Its answer.
        announce: Ends the exemption of the subject's workloads. The uid of the request identifies the edit.
        unbind: Deletes the bindings of the overrider with a uid. After a failure, which is logged, the leader replaces
            the policies later.
        default: The mode of overriders without the annotation.
        sleep: Waits for a number of seconds.
    """
    edits = request.operation in ("UPDATE", "DELETE")
    if not edits or request.sub_resource or request.dry_run or not response.allowed:
        return
    former = request.old_object
    subject = subject_of(former) if isinstance(former, dict) else None
    if subject is None or same_input(former, request.object) or read_mode(former, default)[0] is Mode.WEBHOOK:
        return
    latest = request.object if isinstance(request.object, dict) else former
    announcement = Announcement(SubjectName(request.namespace, *subject), request.uid)
    await announce(announcement, fails_open=_fails_open(latest, default))
    try:
        for _ in range(_MAX_UNBINDS):
            if not await unbind(_get_uid(former)):
                break
            await sleep(_STOP_SECONDS)
    except (APIError, UnreachableError) as error:
        _log.warning("cannot delete the policy bindings of an edited overrider, the leader replaces them: %s", error)


def announced_edits(store: Store) -> frozenset[Announcement]:
    """Return the announcements of edits in fleethook's webhook configuration, as far as the watch has received it.

    The uid of an announced edit is that of its request; the uid of an announced creation is that of the overrider.
    """
    stored = (store.get(*key) for key in list(store.keys(WEBHOOK_CONFIGURATION)) if _is_own_configuration(key))
    annotations = [as_object(one["metadata"].get("annotations")) for one in stored if one is not None]
    found = {one for each in annotations for one in read_announcements(each.get(ANNOUNCED_ANNOTATION))}
    created = overrider_uids(store)
    return frozenset(one for one in found if one.overrider not in created)


def call_on_change(store: Store, changed: Callable[[], None]) -> Callable[[], None]:
    """Call ``changed`` when subjects of overriders or fleethook's webhook configuration change.

    Returns:
        A function that ends the calls.
    """

    def notify(key: ObjectKey, before: Stored | None, after: JSONObject | None) -> None:
        is_overrider = key.group_kind == YURT_APP_OVERRIDER
        if _is_own_configuration(key) or (is_overrider and _get_selection(before) != _get_selection(after)):
            changed()

    return store.subscribe(notify)


def _is_own_configuration(key: ObjectKey) -> bool:
    return key.group_kind == WEBHOOK_CONFIGURATION and key.name == CONFIGURATION_NAME


def _get_uid(overrider: JSONObject) -> str:
    return str(overrider["metadata"].get("uid") or "")


def _get_selection(overrider: JSONObject | None) -> tuple[SubjectName | None, object]:
    """Return the members of an overrider that decide on `bound_subjects`."""
    annotations = {} if overrider is None else as_object(overrider["metadata"].get("annotations"))
    return _get_subject_name(overrider), annotations.get(MODE_ANNOTATION)


def _get_subject_name(overrider: JSONObject | None) -> SubjectName | None:
    subject = None if overrider is None else subject_of(overrider)
    if overrider is None or subject is None:
        return None
    return SubjectName(overrider["metadata"].get("namespace") or "", *subject)


if TYPE_CHECKING:
    from fleethook.cluster.connection import Connection
    from fleethook.cluster.registration.condition_writer import ConditionWriter


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
    from fleethook.cluster.registration.condition_writer import ConditionClient, ConditionWriter  # noqa: PLC0415

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
