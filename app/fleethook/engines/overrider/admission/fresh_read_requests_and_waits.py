"""Reads inputs before a review, so that no workload is rendered from a subject that is older than the workload.

A watch is some milliseconds behind the apiserver. Three kinds of writes arrive within this time:

- OpenYurt's controller creates a workload right after the creation of its subject.
- OpenYurt's controller writes a workload right after a change of its subject. The review has the new spec or revision.
- fleethook's controller touches a workload right after a change of an overrider or a subject. The trigger annotation
  has the versions that the controller has seen.

In the first two cases, the workload itself usually shows that the store is new enough
(`fleethook.engines.overrider.admission.fresh_read_decision`). Otherwise the review reads the object that the store may
have in an older version, or not at all, and looks again. In the third case, the review waits until the watch has
passed those versions, and reads only if that takes too long. Every other write uses the store.

docs/explanation/guarantees.md lists the renders that are possible from an older store. The controller corrects each.
"""

import asyncio
import logging
import re
from collections.abc import Coroutine, Iterable, Iterator
from typing import Any, Final, NamedTuple

import msgspec

from fleethook.cluster.api_errors import APIError, UnreachableError
from fleethook.cluster.kubernetes.kubernetes_source_and_live_reads import LiveSource
from fleethook.cluster.partial_and_stale_objects import StaleError
from fleethook.cluster.store import ObjectKey, StoreView
from fleethook.engines.overrider.admission.fresh_read_decision import Doubts, ReviewedWorkload
from fleethook.engines.overrider.admission.overrider_admission import changes_overrider
from fleethook.engines.overrider.plan.plan_cache import PlanCache
from fleethook.engines.overrider.plan.plan_compilation_and_sharing import LongCompilation
from fleethook.engines.overrider.render.undo_and_annotations import TRIGGER_MARK
from fleethook.engines.overrider.subject.bound_overriders import find_binding, read_overriders, select_overriders
from fleethook.engines.overrider.subject.subject_and_pools import depends_on_node_pools
from fleethook.engines.overrider.subject.workload_owner import Binding
from fleethook.model.admission import AdmissionRequest
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSONObject
from fleethook.model.kcp import cluster_of
from fleethook.model.openyurt import NODE_POOL, SUBJECT_KINDS, YURT_APP_OVERRIDER
from fleethook.work.threads_and_gc import Worker

_log: Final = logging.getLogger(__name__)

_OVERRIDERS: Final = (YURT_APP_OVERRIDER,)
_SEEN_OVERRIDER: Final = re.compile(rf"\b{TRIGGER_MARK}(\d{{1,20}})\b")
_SEEN_SUBJECT: Final = re.compile(r"\bsubject@(\d{1,20})\b")
# A working watch is behind by milliseconds only. After this time, reading is faster than waiting.
CATCH_UP_SECONDS: Final = 1.0
# Together with the wait before, four seconds of the webhook's timeout of five.
_READ_SECONDS: Final = 3.0


class FreshReads(NamedTuple):
    """Updates the inputs of reviews in the store."""

    store: StoreView
    plans: PlanCache
    live: LiveSource
    worker: Worker

    def ensure(self, request: AdmissionRequest) -> Coroutine[Any, Any, None] | None:
        """Return work that updates the inputs of a workload's review in the store, None if they are new enough.

        If a read fails, the review uses the store, because there is no evidence that it is behind. The work raises
        StaleError if the store is behind, and so does this function if the store lacks a kind.
        """
        workload = ReviewedWorkload.of(request)
        if workload is None:
            return None
        if problem := self.live.missing(_OVERRIDERS):
            raise StaleError(problem)
        doubts = Doubts(workload, store=self.store, plans=self.plans, missing=self.live.missing)
        late = [*self._find_late(workload)] if workload.trigger else []
        return self._dispel(doubts, late) if late or doubts.find() is not None else None

    async def _dispel(self, doubts: Doubts, late: list[tuple[GroupKind, int]]) -> None:
        """Read one kind after the other, until the workload shows that the store is new enough."""
        if late:
            await self._catch_up(late, doubts)
        while (kind := doubts.find()) is not None:
            if isinstance(kind, LongCompilation):
                await self.worker.run(doubts.workload.namespace, kind.run)
                continue
            if await _read([self._read_kind(kind, doubts.workload)]):
                return
            doubts.settled.add(kind)

    def _find_late(self, workload: ReviewedWorkload) -> Iterator[tuple[GroupKind, int]]:
        """Yield the kinds and resourceVersions that the trigger names and the store may lack."""
        patterns = {YURT_APP_OVERRIDER: _SEEN_OVERRIDER, workload.owner.group_kind: _SEEN_SUBJECT}
        if self.live.missing(patterns):
            return
        for kind, pattern in patterns.items():
            seen = pattern.search(workload.trigger)
            if seen and self.live.behind(kind, int(seen[1])):
                yield kind, int(seen[1])

    async def _catch_up(self, late: list[tuple[GroupKind, int]], doubts: Doubts) -> None:
        """Wait until the store has these resourceVersions, and read the kinds that it still lacks."""
        waits = (self.live.catch_up(kind, version, seconds=CATCH_UP_SECONDS) for kind, version in late)
        reached = await asyncio.gather(*waits)
        behind = [kind for (kind, _), is_there in zip(late, reached, strict=True) if not is_there]
        if problem := await _read(self._read_kind(kind, doubts.workload) for kind in behind):
            raise StaleError(f"overriders or their subject changed and cannot be read now: {problem}")
        doubts.settled.update(behind)

    def _read_kind(self, kind: GroupKind, workload: ReviewedWorkload) -> Coroutine[Any, Any, None]:
        """Return a read of the overriders, the subject or the NodePool of a workload."""
        cluster, namespace, owner, pool = workload.cluster, workload.namespace, workload.owner, workload.pool
        if kind == YURT_APP_OVERRIDER:
            subject = Binding(cluster, owner.group_kind, namespace, owner.name)
            return read_overriders(subject, store=self.store, live=self.live)
        if kind == NODE_POOL:
            return self.live.read_one(kind, cluster=cluster, namespace="", name=pool)
        return self.live.read_one(kind, cluster=cluster, namespace=namespace, name=owner.name)


async def ensure_fresh_overrider(request: AdmissionRequest, *, store: StoreView, live: LiveSource) -> None:
    """Update the inputs of an overrider's validation in the store: its subject, and other overriders of the subject.

    A failed read leaves the store as it is, and its reason in `AdmissionRequest.unread`.

    Raises:
        StaleError: The store lacks a kind that the answer depends on.
    """
    try:
        document = request.old_object if request.operation == "DELETE" else request.object
        if not isinstance(document, dict) or (request.operation == "UPDATE" and not changes_overrider(request)):
            return
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return
    cluster, namespace = cluster_of(document), request.namespace
    subject = find_binding(cluster, document, namespace=namespace)
    if subject is not None and subject.group_kind not in SUBJECT_KINDS:
        subject = None
    if problem := live.missing((YURT_APP_OVERRIDER, *_list_subject_kinds(subject, store, document))):
        raise StaleError(problem)
    if subject is not None:
        rivals = select_overriders(namespace, subject.group_kind.kind, subject.name)
        read_subject = live.read_one(subject.group_kind, cluster=cluster, namespace=namespace, name=subject.name)
        if problem := await _read([live.read_selected(rivals, cluster=cluster), read_subject]):
            request.unread.append(problem)
    # The read may have added the subject, which decides the kinds.
    if problem := live.missing(_list_subject_kinds(subject, store, document)):
        raise StaleError(problem)


def _list_subject_kinds(subject: ObjectKey | None, store: StoreView, overrider: JSONObject) -> tuple[GroupKind, ...]:
    """Return the kinds that the validation of an overrider of this subject depends on."""
    if subject is None:
        return ()
    version = {"apiVersion": (store.get(*subject) or {}).get("apiVersion", "")}
    depends = depends_on_node_pools(subject.group_kind, version, (overrider,))
    return (subject.group_kind, NODE_POOL) if depends else (subject.group_kind,)


async def _read(reads: Iterable[Coroutine[Any, Any, None]]) -> str:
    """Run live reads concurrently; return the reason why one failed, ``""`` if none did."""
    try:
        async with asyncio.timeout(_READ_SECONDS):
            await asyncio.gather(*reads)
    except (APIError, UnreachableError) as error:
        problem = str(error)
    except TimeoutError:
        problem = f"no answer within {_READ_SECONDS:.0f} s"
    else:
        return ""
    _log.warning("live read failed, using the store: %s", problem)
    return problem
