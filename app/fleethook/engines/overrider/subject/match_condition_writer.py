"""Finds the subjects that have an overrider, and writes the match conditions that list them.

`ConditionClient` reads and writes the conditions. `ConditionWriter` keeps them up to date: the leader does this, and
without the controller every replica, because there is no leader then.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from fleethook.cluster.api_errors import CONFLICT, APIError, UnreachableError, get_object
from fleethook.cluster.apiserver_connection import Connection
from fleethook.cluster.kubernetes.watched_resources import MUTATING_CONFIGURATIONS
from fleethook.cluster.registration.registrar import owns_fields, patch_object, release_fields
from fleethook.cluster.registration.webhook_configurations import (
    BOUND_CONDITION,
    CONFIGURATION_NAME,
    MUTATING,
    configuration_path,
    find_conditions,
)
from fleethook.cluster.store import ObjectKey, Store, Stored
from fleethook.engines.overrider.subject.announcements import (
    ANNOUNCED_ANNOTATION,
    ANNOUNCED_SECONDS,
    MAX_EXPIRED,
    Announcement,
    read_announcements,
    write_announcements,
)
from fleethook.engines.overrider.subject.bound_overriders import subject_of
from fleethook.engines.overrider.subject.match_condition_texts import (
    SelectedSubjects,
    SubjectName,
    list_selected,
    read_conditions,
    select_workloads,
)
from fleethook.model.json import JSONObject
from fleethook.model.openyurt import YURT_APP_OVERRIDER
from fleethook.patch import diff
from fleethook.server.engine_server import ServerContext

_FIELD_MANAGER: Final = "fleethook-selection"
_PATH: Final = configuration_path(MUTATING)


class WorkloadWebhooks(NamedTuple):
    """The registered webhooks for workloads."""

    resource_version: str
    names: frozenset[str]
    """The names of those webhooks of `list_selected` that are registered."""
    selecting: dict[str, JSONObject]
    """``rules`` and ``matchConditions`` of each of them that has some, as `select_workloads` returns them."""
    announcements: tuple[Announcement, ...] = ()
    """The announcements, oldest first."""
    document: JSONObject = {}  # noqa: RUF012 - never modified
    """The configuration as read."""

    @property
    def listed(self) -> SelectedSubjects | None:
        """The selection, None if no leader or replica has written conditions."""
        found = [condition["expression"] for each in self.selecting.values() for condition in each["matchConditions"]]
        return read_conditions(found) if found else None

    def selects(self, selection: SelectedSubjects) -> bool:
        """Return whether rules and conditions are those of a selection."""
        return self.selecting == select_workloads(self.names, selection)

    @property
    def is_owned(self) -> bool:
        """Whether this program owns fields, which it should not: see `release_fields`."""
        return owns_fields(self.document, _FIELD_MANAGER)


class ConditionClient:
    """Writes the rules, some elements of ``matchConditions`` and the annotation.

    Helm, GitOps tools and ``serve --register`` keep the other fields, and this program owns none. Several replicas
    write; a write fails if the configuration has changed since it was read.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection: Final = connection

    async def read(self) -> WorkloadWebhooks | None:
        """Return the registered webhooks, None if there are none; raises APIError, UnreachableError."""
        present = await get_object(self._connection, _PATH)
        if present is None:
            return None
        metadata = present["metadata"]
        selected = list_selected()
        webhooks = {
            webhook["name"]: webhook for webhook in present.get("webhooks") or () if webhook["name"] in selected
        }
        found = {
            name: {"rules": one.get("rules") or [], "matchConditions": find_conditions(one)}
            for name, one in webhooks.items()
        }
        announced = read_announcements((metadata.get("annotations") or {}).get(ANNOUNCED_ANNOTATION))
        selecting = {name: one for name, one in found.items() if any(one.values())}
        version = metadata.get("resourceVersion") or ""
        return WorkloadWebhooks(version, frozenset(webhooks), selecting, announced, present) if webhooks else None

    async def write(
        self, registered: WorkloadWebhooks, selection: SelectedSubjects, *, announcements: Sequence[Announcement] = ()
    ) -> str:
        """Set rules and conditions of all webhooks for workloads; return the new resourceVersion.

        Args:
            registered: The registered webhooks.
            selection: The subjects with an overrider.
            announcements: The announcements to keep, oldest first.

        Raises:
            APIError: The apiserver refuses the write; 409 if the configuration has changed.
            UnreachableError: The apiserver does not respond.
        """
        wanted = _change(registered.document, select_workloads(registered.names, selection), announcements)
        stored = registered.document
        if operations := diff(stored, wanted):
            version = registered.resource_version
            stored = await patch_object(self._connection, _PATH, version, operations, manager=_FIELD_MANAGER)
        stored = await release_fields(self._connection, _PATH, stored, manager=_FIELD_MANAGER)
        return str(stored["metadata"].get("resourceVersion") or "")


def _change(
    document: JSONObject, selecting: Mapping[str, JSONObject], announcements: Sequence[Announcement]
) -> JSONObject:
    """Return a configuration with these rules and conditions of workloads, and these announcements."""
    webhooks = []
    for webhook in document["webhooks"]:
        changed = webhook
        if members := selecting.get(webhook["name"]):
            ours = find_conditions(webhook)
            kept = [condition for condition in webhook.get("matchConditions") or () if condition not in ours]
            changed = {**webhook, "rules": members["rules"], "matchConditions": [*kept, *members["matchConditions"]]}
        webhooks.append(changed)
    metadata = document["metadata"]
    before = metadata.get("annotations") or {}
    annotations = {name: text for name, text in before.items() if name != ANNOUNCED_ANNOTATION}
    if announcements:
        annotations[ANNOUNCED_ANNOTATION] = write_announcements(announcements)
    if annotations != before:
        metadata = {**metadata, "annotations": annotations}
    return {**document, "metadata": metadata, "webhooks": webhooks}


_log: Final = logging.getLogger(__name__)

# Each apiserver compiles a changed expression, so changes within this time are one write. The first change is written
# at once.
_PAUSE_SECONDS: Final = 1.0
_MAX_PAUSE_SECONDS: Final = 60.0


async def _return_at_once(_namespace: str) -> None:
    """Read nothing."""


class ConditionWriter:
    """Writes the condition whenever the subjects or the configuration change."""

    def __init__(
        self,
        client: ConditionClient,
        subjects: Callable[[], frozenset[SubjectName]],
        *,
        refresh: Callable[[str], Awaitable[None]] = _return_at_once,
        pause_seconds: float = _PAUSE_SECONDS,
        announced_seconds: float = ANNOUNCED_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare.

        Args:
            client: Reads and writes the condition.
            subjects: Returns the subjects that an overrider is bound to.
            refresh: Reads the overriders of a namespace from the apiserver, so that ``subjects`` returns them; raises
                APIError, UnreachableError.
            pause_seconds: The minimum time between two writes.
            announced_seconds: Time for which an announced subject is kept without an overrider.
            clock: A monotonic clock in seconds.
        """
        self._client: Final = client
        self._subjects: Final = subjects
        self._refresh: Final = refresh
        self._pause_seconds: Final = pause_seconds
        self._announced_seconds: Final = announced_seconds
        self._clock: Final = clock
        self._bound: frozenset[SubjectName] = frozenset()
        # The time at which this leader found an announcement. Those without a uid are listed subjects unknown to it.
        self._found_at: dict[Announcement, float] = {}
        self._changed: Final = asyncio.Event()
        self._changed.set()

    def wake(self) -> None:
        """Request a comparison, because the subjects or the configuration have changed."""
        self._changed.set()

    async def run(self) -> None:
        """Compare and write after each `wake`, until cancelled."""
        failures = 0
        while True:
            await self._wait()
            self._changed.clear()
            try:
                await self.write()
                failures = 0
            except (APIError, UnreachableError) as error:
                self._changed.set()
                # A conflict is no failure: another replica has announced a subject meanwhile.
                failures += not (isinstance(error, APIError) and error.code == CONFLICT)
                if failures == 1:
                    _log.warning("cannot write the match condition %s, trying again: %s", BOUND_CONDITION, error)
            await asyncio.sleep(min(_MAX_PAUSE_SECONDS, self._pause_seconds * 2 ** min(failures, 10)))

    async def _wait(self) -> None:
        """Wait for `wake`, but not beyond the expiry of an announcement."""
        ends = [at for at in map(self._compute_expiry, self._found_at.values()) if at > self._clock()]
        try:
            async with asyncio.timeout(min(ends) - self._clock() if ends else None):
                await self._changed.wait()
        except TimeoutError:
            return

    async def write(self) -> bool:
        """Write the condition if it differs; return whether it did. Raises APIError, UnreachableError."""
        registered = await self._client.read()
        if registered is None:
            return False
        bound = self._subjects()
        self._record(registered, bound)
        if expired := self._find_expired(registered, bound):
            # The watch of overriders may be late, so a live read precedes each removal.
            for namespace in sorted({subject.namespace for subject in expired}):
                await self._refresh(namespace)
            bound = self._subjects()
            expired -= bound
        announced = [one for one, at in self._found_at.items() if self._compute_expiry(at) > self._clock()]
        wanted = SelectedSubjects(bound | {one.subject for one in announced})
        self._bound = bound
        left = [announcement for announcement in registered.announcements if announcement in announced]
        many = len(registered.announcements) - len(left) > MAX_EXPIRED
        if not expired and not many and registered.selects(wanted) and not registered.is_owned:
            return False
        await self._client.write(registered, wanted, announcements=left)
        _log.info("wrote the match condition %s", BOUND_CONDITION, extra={"fields": {"subjects": len(wanted.subjects)}})
        return True

    def _record(self, registered: WorkloadWebhooks, bound: frozenset[SubjectName]) -> None:
        """Record the time at which announcements and subjects of other replicas were found.

        A subject whose overrider this leader has known, and which was deleted, is not recorded.
        """
        listed = registered.listed.subjects if registered.listed else frozenset[SubjectName]()
        announced = registered.announcements
        known = bound.union(self._bound, (announcement.subject for announcement in announced))
        unknown = [Announcement(subject, "") for subject in sorted(listed - known)]
        now = self._clock()
        self._found_at = {one: self._found_at.get(one, now) for one in (*announced, *unknown)}

    def _find_expired(self, registered: WorkloadWebhooks, bound: frozenset[SubjectName]) -> set[SubjectName]:
        """Return the announced subjects without an overrider whose announcement has expired."""
        over = {one.subject for one, at in self._found_at.items() if self._compute_expiry(at) <= self._clock()}
        listed = registered.listed
        return {name for name in over - bound if listed is None or name in listed.subjects or listed.spills(name)}

    def _compute_expiry(self, found: float) -> float:
        """Return the time until which an announced subject is kept without an overrider."""
        return found + self._announced_seconds


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
    return key.group_kind == MUTATING_CONFIGURATIONS.group_kind and key.name == CONFIGURATION_NAME


def _get_subject_name(overrider: JSONObject | None) -> SubjectName | None:
    subject = None if overrider is None else subject_of(overrider)
    if overrider is None or subject is None:
        return None
    return SubjectName(overrider["metadata"].get("namespace") or "", *subject)


async def write_selection(context: ServerContext, connection: Connection) -> None:
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
    context: ServerContext, connection: Connection, *, clock: Callable[[], float] = time.monotonic
) -> ConditionWriter:
    """Return the writer of the selection.

    Args:
        context: As for `write_selection`.
        connection: As for `write_selection`.
        clock: Returns monotonic seconds.
    """
    assert context.cluster is not None
    source = context.cluster.source

    async def refresh(namespace: str) -> None:
        await source.read_namespace(YURT_APP_OVERRIDER, cluster="", namespace=namespace)

    return ConditionWriter(
        ConditionClient(connection), partial(bound_subjects, context.store), refresh=refresh, clock=clock
    )


async def keep_selection(context: ServerContext) -> None:
    """Keep the selection without a leader until cancelled. The writes of several replicas conflict and converge."""
    await context.listening.wait()
    assert context.cluster is not None
    await write_selection(context, context.cluster.connection)
