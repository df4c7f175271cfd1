"""Reads inputs before rendering, so that no workload is rendered from an outdated subject or overrider.

A watch is some milliseconds behind the apiserver. Three kinds of writes arrive within this time:

- OpenYurt's controller creates a workload right after the creation of its subject.
- OpenYurt's controller writes a workload right after a change of its subject. The review has the new spec or revision.
- fleethook's controller touches a workload right after a change of an overrider or a subject. The trigger annotation
  has the versions that the controller has seen.

In the first two cases, the review reads the subject and its overriders from the apiserver, each by its name if the
store knows one: kube-apiserver may hold a list back for 100 ms. In the third case, the review waits until the watch has
passed those versions, and reads only if that takes too long. Every other write
(metadata, a workload without an overrider) uses the store.
"""

import asyncio
import logging
import re
from collections.abc import Coroutine, Iterable
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from app.kube.errors import APIError, UnreachableError
from app.model.admission import AdmissionRequest
from app.model.gvk import GroupKind
from app.model.json import JSON, JSONObject, as_object
from app.model.kcp import cluster_of
from app.model.openyurt import NODE_POOL, POOL_NAME_LABEL, TRIGGER_ANNOTATION, YURT_APP_OVERRIDER
from app.overrider.binding import Binding, overriders_of, select_overriders, subject_of
from app.overrider.changes import changes_overrider, changes_workload
from app.overrider.owner import SUBJECT_KINDS, Owner, find_owner
from app.overrider.subject_parts import depends_on_node_pools
from app.overrider.undo import RENDERED_ANNOTATION
from app.store import ObjectKey, StoreView
from app.store.sources.kubernetes.field_selection import FieldSelection
from app.store.stale import StaleError

_log: Final = logging.getLogger(__name__)

_OVERRIDERS: Final = (YURT_APP_OVERRIDER,)
_SEEN_OVERRIDER: Final = re.compile(r"\boverrider@(\d{1,20})\b")
_SEEN_SUBJECT: Final = re.compile(r"\bsubject@(\d{1,20})\b")
_RENDERED_BYTES: Final = RENDERED_ANNOTATION.encode()
# A working watch is behind by milliseconds only. After this time, reading is faster than waiting.
CATCH_UP_SECONDS: Final = 1.0
# Together with the wait before, four seconds of the webhook's timeout of five.
_READ_SECONDS: Final = 3.0
_FORBIDDEN: Final = 403


class LiveSource(Protocol):
    """A source whose watch can be awaited, and which can be read directly."""

    def missing(self, group_kinds: Iterable[GroupKind]) -> str:
        """Return the reason why the store does not have these kinds yet, ``""`` if it has them."""

    def behind(self, group_kind: GroupKind, resource_version: int) -> bool:
        """Return whether the store may lack a change of that kind up to ``resource_version``."""

    async def catch_up(self, group_kind: GroupKind, resource_version: int, *, seconds: float) -> bool:
        """Wait until the store has all changes up to ``resource_version``; return whether it has them."""

    async def read_one(self, group_kind: GroupKind, *, cluster: str, namespace: str, name: str) -> None:
        """Read one object into the store; raises APIError, UnreachableError."""

    async def read_selected(self, selection: FieldSelection, *, cluster: str) -> None:
        """Read the objects of a selection into the store; raises APIError, UnreachableError."""


def trigger(time: str, *, overrider: str, subject: str = "") -> str:
    """Return the text of the trigger annotation.

    Args:
        time: The time of the write, RFC 3339. An apiserver calls the webhook only if the text changes.
        overrider: The resourceVersion of the overrider that the writer has seen, or of its deletion.
        subject: The resourceVersion of the subject that the writer has seen, ``""`` if the subject did not change.
    """
    seen = f"{time} overrider@{overrider}"
    return f"{seen} subject@{subject}" if subject else seen


class _Workload(NamedTuple):
    """The properties of a workload under review that decide which inputs to read."""

    cluster: str
    namespace: str
    owner: Owner
    pool: str
    trigger: str
    rendered: bool
    """Whether the workload has the annotation of a render, or had it before this write."""


def ensure_fresh_workload(
    request: AdmissionRequest, *, store: StoreView, live: LiveSource
) -> Coroutine[Any, Any, None] | None:
    """Return a coroutine that updates the inputs of a workload's review in the store, None if none is needed.

    An update of a workload's spec may result from a subject that is newer than the store. If the read fails, the review
    uses the store, because there is no evidence that it is behind.

    Raises:
        StaleError: The store is behind, or lacks a kind that the answer depends on. The coroutine raises it, too.
    """
    workload = _read_workload(request)
    if workload is None:
        return None
    if problem := live.missing(_OVERRIDERS):
        raise StaleError(problem)
    depends = request.operation == "CREATE" or (_is_overridden(workload, store) and changes_workload(request))
    if not depends and not workload.trigger:
        return None
    inputs = _list_inputs(workload, store)
    unread = live.missing(inputs)
    late = _find_late(workload, live) if workload.trigger and not unread else []
    if not depends and not late:
        return None
    return _FreshRead(workload, inputs, unread, late, depends).run(store, live)


class _FreshRead(NamedTuple):
    """The reads for one review: the kinds that its answer depends on, and the changes that the store lacks."""

    workload: _Workload
    inputs: tuple[GroupKind, ...]
    unread: str
    late: list[tuple[GroupKind, int]]
    depends: bool

    async def run(self, store: StoreView, live: LiveSource) -> None:
        workload, owner, unread = self.workload, self.workload.owner, self.unread
        behind = bool(self.late) and await _is_behind(self.late, live)
        if self.depends or behind:
            subject = Binding(workload.cluster, owner.group_kind, workload.namespace, owner.name)
            reads = [read_overriders(subject, store=store, live=live)]
            if not unread:
                reads += [_read_input(kind, workload, live) for kind in self.inputs]
            problem = await _read(reads)
            if not problem and NODE_POOL in _list_inputs(workload, store) and NODE_POOL not in self.inputs:
                # The overrider that was just read selects node pools by labels.
                unread = unread or live.missing((NODE_POOL,))
                problem = "" if unread else await _read([_read_input(NODE_POOL, workload, live)])
            if problem and behind:
                raise StaleError(f"overriders or their subject changed and cannot be read now: {problem}")
        if unread and self.depends and _is_overridden(workload, store):
            raise StaleError(unread)


async def read_overriders(subject: Binding, *, store: StoreView, live: LiveSource) -> None:
    """Read the overriders of a subject into the store; raises APIError, UnreachableError.

    A subject has one overrider, so a known one that still exists makes a list unnecessary. etcd answers a read by name
    at once. kube-apiserver answers a list from its watch cache, after the next progress notification of etcd, which it
    requests every 100 ms (k8s.io/apiserver, pkg/storage/cacher/progress, since Kubernetes 1.31).

    Two concurrent creates can pass validation. If they have the same creationTimestamp, and the later one has the
    smaller name, it is in effect. A review within the delay of the watch then uses the other one, and the controller
    renders the workload again.
    """
    if known := _find_names(subject, store):
        cluster, _, namespace, _ = subject
        reads = [live.read_one(YURT_APP_OVERRIDER, cluster=cluster, namespace=namespace, name=name) for name in known]
        try:
            await asyncio.gather(*reads)
        except APIError as error:
            if error.code != _FORBIDDEN:
                raise
            # Older roles allow only lists and watches.
        else:
            if _find_names(subject, store) == known:
                return
    await live.read_selected(
        select_overriders(subject.namespace, subject.group_kind.kind, subject.name), cluster=subject.cluster
    )


def _find_names(subject: Binding, store: StoreView) -> list[str]:
    cluster, group_kind, namespace, name = subject
    found = overriders_of(store, cluster=cluster, namespace=namespace, group_kind=group_kind, name=name)
    return [one["metadata"]["name"] for one in found]


async def ensure_fresh_overrider(request: AdmissionRequest, *, store: StoreView, live: LiveSource) -> None:
    """Update the inputs of an overrider's validation in the store: its subject, and other overriders of the subject.

    A failed read leaves the store as it is, and its reason in `AdmissionRequest.unread`.

    Raises:
        StaleError: The store lacks a kind that the answer depends on.
    """
    try:
        document = request.old_object if request.operation == "DELETE" else request.object
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return
    if not isinstance(document, dict) or (request.operation == "UPDATE" and not changes_overrider(request)):
        return
    cluster, namespace = cluster_of(document), request.namespace
    subject = _find_subject(document, cluster=cluster, namespace=namespace)
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


def _read_workload(request: AdmissionRequest) -> _Workload | None:
    """Return the workload under review, None if the answer depends on no object of the store."""
    if request.sub_resource or request.operation not in ("CREATE", "UPDATE"):
        return None
    try:
        document = request.desired_object
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None  # The handler reports the error.
    if not isinstance(document, dict):
        return None
    metadata = as_object(document.get("metadata"))
    owner = find_owner(metadata)
    if owner is None or metadata.get("deletionTimestamp"):
        return None
    annotations = as_object(metadata.get("annotations"))
    return _Workload(
        cluster_of(document),
        request.namespace or _read_text(metadata.get("namespace")),
        owner,
        _read_text(as_object(metadata.get("labels")).get(POOL_NAME_LABEL)),
        _read_text(annotations.get(TRIGGER_ANNOTATION)),
        # A client that replaces the object may have dropped the annotation.
        RENDERED_ANNOTATION in annotations or _RENDERED_BYTES in bytes(request.old_object_raw),
    )


def _read_text(value: JSON) -> str:
    return value if isinstance(value, str) else ""


def _is_overridden(workload: _Workload, store: StoreView) -> bool:
    """Return whether an overrider is bound to the workload's owner, or was bound at its last render."""
    cluster, namespace, owner = workload[:3]
    return workload.rendered or bool(
        overriders_of(store, cluster=cluster, namespace=namespace, group_kind=owner.group_kind, name=owner.name)
    )


def _list_inputs(workload: _Workload, store: StoreView) -> tuple[GroupKind, ...]:
    """Return the kinds that a workload depends on, apart from overriders."""
    # Taints of the node pool become tolerations of a YurtAppDaemon's workload (`app.overrider.template`), and labels
    # choose the tweaks of a YurtAppSet v1beta1 and the entries of an overrider.
    cluster, namespace, owner, pool = workload[:4]
    kind = owner.group_kind
    bound = overriders_of(store, cluster=cluster, namespace=namespace, group_kind=kind, name=owner.name)
    depends = depends_on_node_pools(kind, {"apiVersion": owner.api_version}, bound)
    return (kind, NODE_POOL) if depends and pool else (kind,)


def _find_subject(overrider: JSONObject, *, cluster: str, namespace: str) -> ObjectKey | None:
    subject = subject_of(overrider)
    if subject is None:
        return None
    group_kind = GroupKind(YURT_APP_OVERRIDER.group, subject[0])
    return ObjectKey(cluster, group_kind, namespace, subject[1]) if group_kind in SUBJECT_KINDS else None


def _find_late(workload: _Workload, live: LiveSource) -> list[tuple[GroupKind, int]]:
    """Return the kinds and resourceVersions that the trigger names and the store may lack."""
    seen = {
        YURT_APP_OVERRIDER: _SEEN_OVERRIDER.search(workload.trigger),
        workload.owner.group_kind: _SEEN_SUBJECT.search(workload.trigger),
    }
    return [(kind, int(found[1])) for kind, found in seen.items() if found and live.behind(kind, int(found[1]))]


async def _is_behind(late: Iterable[tuple[GroupKind, int]], live: LiveSource) -> bool:
    """Wait until the store has these resourceVersions; return whether it still lacks one."""
    waits = (live.catch_up(kind, version, seconds=CATCH_UP_SECONDS) for kind, version in late)
    return not all(await asyncio.gather(*waits))


def _read_input(kind: GroupKind, workload: _Workload, live: LiveSource) -> Coroutine[Any, Any, None]:
    if kind == NODE_POOL:
        return live.read_one(kind, cluster=workload.cluster, namespace="", name=workload.pool)
    return live.read_one(kind, cluster=workload.cluster, namespace=workload.namespace, name=workload.owner.name)


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
