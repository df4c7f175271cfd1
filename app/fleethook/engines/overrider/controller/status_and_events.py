"""The statuses of overriders: computes their conditions, and writes them with events for changed conditions."""

import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Final, Literal, NamedTuple

import msgspec

from fleethook.cluster.api_errors import NOT_FOUND, APIError, UnreachableError, get_object
from fleethook.cluster.apiserver_connection import MERGE_PATCH, Connection
from fleethook.cluster.conditions_and_events import Condition, EventRecorder, ObjectReference, build_conditions
from fleethook.cluster.kubernetes.kubernetes_source_and_live_reads import KubernetesSource
from fleethook.cluster.kubernetes.watched_resources import YURT_APP_OVERRIDERS
from fleethook.cluster.partial_and_stale_objects import PartialObject
from fleethook.cluster.store import ObjectKey, StoreView
from fleethook.engines.overrider.controller.openyurt_renderer_and_definition import (
    DEFINITION_NAME,
    find_dropped_members,
)
from fleethook.engines.overrider.controller.overrider_conditions import (
    BOUND,
    CONFLICT,
    NO_GAPS,
    RENDERED,
    Gaps,
    bound,
    conflicts,
    count_workloads,
    describe_orphans,
    rendered,
    unrendered,
)
from fleethook.engines.overrider.controller.subject_state import SubjectState
from fleethook.engines.overrider.controller.workload_decision import Result
from fleethook.engines.overrider.entries.entry_selection import EntrySelection
from fleethook.engines.overrider.subject.subject_and_pools import describe_lack_of_pools
from fleethook.engines.overrider.subject.workload_owner import Binding
from fleethook.model.formats.text import list_names
from fleethook.model.gvk import DEFINITION, GroupKind
from fleethook.model.json import JSON, JSONObject, as_list, as_object
from fleethook.model.openyurt import API_VERSION, NODE_POOL, YURT_APP_OVERRIDER

_MAX_POOLS: Final = 1_000


def build_status(
    overrider: JSONObject,
    findings: Sequence[Condition],
    results: Sequence[Result],
    gaps: Gaps = NO_GAPS,
    *,
    former: Mapping[str, JSON],
    now: datetime,
) -> JSONObject:
    """Return the status to store, which equals the former one if nothing changed."""
    generation = overrider["metadata"].get("generation") or 0
    concerned = [result for result in results if result.counts]
    ranked = sorted(concerned, key=lambda one: (not one.error, one.pool, one.kind, one.workload))
    right, total = count_workloads(concerned, gaps)
    return {
        "observedGeneration": generation,
        "summary": f"{right}/{total}",
        "conditions": build_conditions(findings, former=former.get("conditions"), generation=generation, now=now),
        "pools": [_build_pool(result) for result in ranked[:_MAX_POOLS]],
    }


def _build_pool(result: Result) -> JSONObject:
    pool: JSONObject = {"pool": result.pool, "kind": result.kind, "workload": result.workload}
    if result.hash:
        pool["hash"] = result.hash
    if result.generation:
        pool["observedGeneration"] = result.generation
    if result.error:
        pool["error"] = result.error
    return pool


_log: Final = logging.getLogger(__name__)

COMPONENT: Final = "fleethook-overrider"
_MAX_NAMED_REVERTED: Final = 5

# Remembered are only statuses that the apiserver changes when it stores them. Others are compared with the stored one.
MAX_REMEMBERED: Final = 4096


class _Sent(NamedTuple):
    uid: JSON
    status: JSONObject
    stored: Mapping[str, JSON]
    """The status that the apiserver stored, which lacks a part."""


class SubjectFacts(NamedTuple):
    """The facts about a subject that its report has beside the states of its workloads."""

    late: bool
    """Whether the subject's controller had enough time to create the workloads."""
    orphans: Sequence[str]
    """The workloads without an owner, for messages."""
    conflict: str
    """The reason why OpenYurt's own rendering interferes, ``""`` if it does not."""
    gone: JSONObject | None
    """The deleted overrider of the subject."""
    compared: bool
    """Whether this leader has compared all workloads once. Before that, a value that is lost looks rendered."""


class StatusReporter:
    """Writes statuses and events to the apiserver."""

    def __init__(
        self, connection: Connection, source: KubernetesSource, store: StoreView, *, now: Callable[[], datetime]
    ) -> None:
        """Create a reporter.

        Args:
            connection: The connection to the apiserver.
            source: The informers of overriders.
            store: The node pools and the CustomResourceDefinitions.
            now: Returns the time.
        """
        self._connection: Final = connection
        self._source: Final = source
        self._store: Final = store
        self._now: Final = now
        self._recorder: Final = EventRecorder(connection, component=COMPONENT, now=now)
        # OpenYurt's CustomResourceDefinition drops a part of the status.
        self._sent: Final[OrderedDict[str, _Sent]] = OrderedDict()

    def forget(self) -> None:
        """Write each status again at the next report, because another definition may store more of it."""
        self._sent.clear()

    async def report_subject(
        self,
        at: SubjectState,
        results: Sequence[Result],
        facts: SubjectFacts,
        *,
        find_workload: Callable[[ObjectKey], PartialObject | None],
    ) -> bool:
        """Write the events about a subject's workloads, and the status of its overriders.

        Args:
            at: The subject.
            results: The states of its workloads.
            facts: The other facts about the subject.
            find_workload: Returns a workload, None if it is gone.

        Returns:
            Whether each stored status is up to date; True before it may be written.
        """
        await self._report_reverts(at, results, facts.gone)
        await self._report_scales(at, results, find_workload)
        # To remove the overrides of orphans, the controller would need the template of the render. It is gone with the
        # owner, and the undo knows only the members that the template does not have.
        if facts.gone is not None and facts.orphans and not at.overriders:
            message = describe_orphans(facts.orphans)
            await self.record_event(at.binding, facts.gone, "Warning", "OrphanedWorkloads", message)
        stored, others = True, conflicts(facts.conflict)
        for overrider in at.overriders if facts.compared else ():
            is_bound = bound(overrider, at.binding, at.overriders[0], subject=at.subject is not None)
            of_this: Sequence[Result] = []
            gaps, found = NO_GAPS, unrendered(is_bound, () if at.subject else facts.orphans)
            if is_bound.status == "True":
                of_this = results
                gaps = self._find_gaps(at, overrider, facts)
                found = rendered(results, gaps)
            stored &= await self.report(at.binding, overrider, (is_bound, found, *others), of_this, gaps)
        return stored

    async def _report_reverts(self, at: SubjectState, results: Sequence[Result], gone: JSONObject | None) -> None:
        """Write an event that names the workloads that match their template again."""
        reverted = [result for result in results if result.had and not result.counts]
        about = at.effective or gone or at.subject
        if reverted and about is not None:
            names = [f"{result.workload} in {result.pool}" for result in reverted]
            text = f"reverted to their template: {list_names(names, most=_MAX_NAMED_REVERTED)}"
            await self.record_event(at.binding, about, "Normal", "Reverted", text)

    async def _report_scales(
        self, at: SubjectState, results: Sequence[Result], find_workload: Callable[[ObjectKey], PartialObject | None]
    ) -> None:
        """Write an event about each workload whose scale was undone, because its overrider sets the replicas."""
        for result in (result for result in results if result.decision.undone_scale):
            key = ObjectKey(at.binding.cluster, GroupKind("apps", result.kind), at.binding.namespace, result.workload)
            if (workload := find_workload(key)) is not None:
                about = {"name": workload.name, "namespace": workload.namespace, "uid": workload.uid}
                document: JSONObject = {"apiVersion": "apps/v1", "kind": result.kind, "metadata": about}
                text = result.decision.undone_scale
                await self.record_event(at.binding, document, "Warning", "ScaleUndone", text)

    def _find_gaps(self, at: SubjectState, overrider: JSONObject, facts: SubjectFacts) -> Gaps:
        """Return the pools that an overrider selects and that have no workload to render."""
        selection = EntrySelection(overrider.get("entries") if at.missing or at.other_version else None)

        def is_selected(pool: str) -> bool:
            return selection.any_applies(pool, self._store.get(at.binding.cluster, NODE_POOL, "", pool))

        subject, kind = at.subject or {}, at.binding.group_kind
        return Gaps(
            missing=tuple(filter(is_selected, at.missing)),
            overdue=facts.late,
            other_version=tuple(sorted(filter(is_selected, at.other_version))),
            subject=f"{kind.kind} {at.binding.name}",
            read_version=str(subject.get("apiVersion") or ""),
            no_pools="" if at.pools or not subject else describe_lack_of_pools(kind, subject, at.absent_pools),
            absent_pools=at.absent_pools,
            no_controller=at.no_controller,
            orphans=tuple(facts.orphans),
        )

    async def report(
        self,
        binding: Binding,
        overrider: JSONObject,
        findings: Sequence[Condition],
        results: Sequence[Result],
        gaps: Gaps,
    ) -> bool:
        """Write an overrider's status if it changed, and an event for each condition that did.

        Args:
            binding: Its subject.
            overrider: The overrider.
            findings: Its conditions.
            results: The states of its workloads.
            gaps: The missing workloads.

        Returns:
            Whether the stored status is up to date.
        """
        former, uid = as_object(overrider.get("status")), overrider["metadata"].get("uid")
        path = YURT_APP_OVERRIDERS.in_namespace(binding.namespace, overrider["metadata"]["name"])
        path = self._source.scope(binding.cluster) + path
        sent = self._sent.get(path)
        if sent is not None and (sent.uid, sent.stored) == (uid, former):
            former = sent.status
        status = build_status(overrider, findings, results, gaps, former=former, now=self._now())
        if status == former:
            return True
        try:
            stored = await self._write(path, status)
        except (APIError, UnreachableError, msgspec.DecodeError) as error:
            _log.warning("the status of YurtAppOverrider %s was not written: %s", path, error)
            return False
        if stored is None:
            return True
        if stored != status:
            self._remember(path, _Sent(uid, status, stored))
        for finding in _select_for_events(findings, _read_conditions(former)):
            level: Literal["Normal", "Warning"] = "Normal" if _is_well(finding) else "Warning"
            await self.record_event(binding, overrider, level, finding.reason, finding.message)
        return True

    async def _write(self, path: str, status: JSONObject) -> Mapping[str, JSON] | None:
        """Write a status and return its stored form, None if the overrider was deleted."""
        try:
            answer = await self._connection.request(
                "PATCH", f"{path}/status", body={"status": status}, content_type=MERGE_PATCH
            )
        except APIError as error:
            if error.code != NOT_FOUND:
                raise
            # kube-apiserver has the same answer for a deleted overrider and for a definition without a status
            # subresource, as OpenYurt's. With the latter, only events report.
            if await get_object(self._connection, path) is None:
                return None
            definition = self._store.get("", DEFINITION, "", DEFINITION_NAME)
            if definition is not None and "status" not in find_dropped_members(definition):
                raise  # The apiserver does not serve a replaced definition yet.
            return {}
        document = YURT_APP_OVERRIDERS.decode(answer)
        # The next reconcile must compare with this status, even if it starts before the watch event arrives.
        self._source.informer(YURT_APP_OVERRIDER).learn(document)
        return as_object(document.get("status"))

    def _remember(self, path: str, sent: _Sent) -> None:
        self._sent.pop(path, None)
        self._sent[path] = sent
        if len(self._sent) > MAX_REMEMBERED:
            self._sent.popitem(last=False)

    async def record_event(
        self, binding: Binding, about: JSONObject, level: Literal["Normal", "Warning"], reason: str, message: str
    ) -> None:
        """Write an event about an overrider or a subject."""
        scope = self._source.scope(binding.cluster)
        await self._recorder.record(_make_reference(about), level, reason, message, scope=scope)


def _read_conditions(status: Mapping[str, JSON]) -> Sequence[tuple[JSON, ...]]:
    stored = map(as_object, as_list(status.get("conditions")))
    return [tuple(condition.get(name) for name in Condition._fields) for condition in stored]


def _select_for_events(findings: Sequence[Condition], known: Sequence[tuple[JSON, ...]]) -> list[Condition]:
    # An overrider that is not in effect is not rendered either. One event is enough for both conditions.
    reasons = [finding.reason for finding in findings if finding.type == BOUND]
    changed = [finding for finding in findings if finding not in known]
    return [finding for finding in changed if not (finding.type == RENDERED and finding.reason in reasons)]


def _is_well(finding: Condition) -> bool:
    """Return whether a condition needs no action. An unknown one changes by itself."""
    return finding.type != CONFLICT and finding.status != "False"


def _make_reference(document: JSONObject) -> ObjectReference:
    metadata = document["metadata"]
    return ObjectReference(
        document.get("apiVersion") or API_VERSION,
        document["kind"],
        metadata.get("namespace") or "",
        metadata["name"],
        metadata.get("uid") or "",
    )
