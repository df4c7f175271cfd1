"""Decides which objects the review of a workload reads from the apiserver before it uses the store.

A watch is some milliseconds behind the apiserver, and OpenYurt's controllers write workloads in just these milliseconds
after a change of the subject. Three facts show that the store is not older than the workload, without a read:

- The workload has the revision of its last render, and that render used the same plan. OpenYurt's controllers write a
  label with the name of the ControllerRevision, which identifies the template, and an annotation with the patch of the
  node pool (v1.4.4, pkg/yurtmanager/controller/yurtappset: getYurtAppSetPatch, CreateNewPatchedObject; v1.7.0,
  workloadmanager: ApplyTemplate). So they have written no other template since.
- The workload has all members of the stored template, or of its rendered form. The store may lack members that a newer
  template adds; the render keeps them.
- Laying the stored template over the workload, without the overrides of the last render, changes nothing. This is the
  same fact for workloads that other webhooks have changed.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

import msgspec

from fleethook.cluster.partial_and_stale_objects import StaleError
from fleethook.cluster.store import StoreView
from fleethook.engines.overrider.admission.workload_admission import KINDS, find_kept_replicas, find_last_render
from fleethook.engines.overrider.entries.entry_selection import uses_labels
from fleethook.engines.overrider.entries.steps_and_limits import RenderError
from fleethook.engines.overrider.plan.plan_cache import PlanCache, PoolPlan
from fleethook.engines.overrider.plan.plan_compilation_and_sharing import LongCompilation
from fleethook.engines.overrider.render.undo_and_annotations import RENDERED_ANNOTATION, LastRender
from fleethook.engines.overrider.render.workload_render_and_name_conflicts import (
    RenderTarget,
    has_template,
    select_plan,
)
from fleethook.engines.overrider.subject.bound_overriders import overriders_of
from fleethook.engines.overrider.subject.subject_and_pools import depends_on_node_pools
from fleethook.engines.overrider.subject.workload_owner import Binding, Owner, find_owner
from fleethook.engines.overrider.template.pool_template_and_placement import SubjectError
from fleethook.model.admission import AdmissionRequest
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSON, JSONObject, as_object, as_text
from fleethook.model.kcp import cluster_of
from fleethook.model.openyurt import (
    NODE_POOL,
    POOL_NAME_LABEL,
    POOL_PATCH_ANNOTATION,
    REVISION_LABEL,
    TRIGGER_ANNOTATION,
    YURT_APP_OVERRIDER,
)

_RENDERED_BYTES: Final = RENDERED_ANNOTATION.encode()
_ABSENT: Final = msgspec.Raw(b"")


class _Labels(msgspec.Struct, rename={"revision": REVISION_LABEL}):
    revision: msgspec.Raw = _ABSENT


class _PoolPatch(msgspec.Struct, rename={"pool_patch": POOL_PATCH_ANNOTATION}):
    pool_patch: msgspec.Raw = _ABSENT


class _Metadata(msgspec.Struct):
    labels: _Labels | None = None
    annotations: _PoolPatch | None = None


class _Workload(msgspec.Struct):
    metadata: _Metadata | None = None
    spec: msgspec.Raw = _ABSENT


_decode_workload: Final = msgspec.json.Decoder(_Workload).decode


class WorkloadChange(NamedTuple):
    """The members of a workload that an update changes. Objects of an unexpected shape count as changed."""

    spec: bool
    revision: bool
    """Whether OpenYurt's controller may have written another template.

    The controllers name the revision of the template in a label, and the patch of the node pool, which is no part of
    the revision, in an annotation.
    """


UNKNOWN_CHANGE: Final = WorkloadChange(spec=True, revision=True)


def compare_workload(request: AdmissionRequest) -> WorkloadChange:
    """Return the members of a workload that an update changes."""
    try:
        before, after = _decode_workload(request.old_object_raw), _decode_workload(request.object_raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return UNKNOWN_CHANGE
    is_same = bytes(before.spec) == bytes(after.spec)
    return WorkloadChange(spec=not is_same, revision=_read_revision(before) != _read_revision(after))


def _read_revision(workload: _Workload) -> tuple[bytes, bytes]:
    metadata = workload.metadata or _Metadata()
    label = metadata.labels.revision if metadata.labels else _ABSENT
    annotation = metadata.annotations.pool_patch if metadata.annotations else _ABSENT
    return bytes(label), bytes(annotation)


class ReviewedWorkload(NamedTuple):
    """The properties of a workload under review that decide which inputs to read."""

    request: AdmissionRequest
    document: JSONObject
    cluster: str
    namespace: str
    owner: Owner
    pool: str
    trigger: str
    rendered: bool
    """Whether the workload has the annotation of a render, or had it before this write."""

    @classmethod
    def of(cls, request: AdmissionRequest) -> "ReviewedWorkload | None":
        """Return the workload under review, None if the answer depends on no object of the store."""
        if request.sub_resource or request.operation not in ("CREATE", "UPDATE") or request.kind.kind not in KINDS:
            return None
        try:
            document = request.desired_object
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None  # The handler reports the error.
        if not isinstance(document, dict) or not isinstance(document.get("spec"), dict):
            return None
        metadata = as_object(document.get("metadata"))
        owner = find_owner(metadata)
        if owner is None or metadata.get("deletionTimestamp"):
            return None
        annotations = as_object(metadata.get("annotations"))
        return cls(
            request,
            document,
            cluster_of(document),
            request.namespace or as_text(metadata.get("namespace")),
            owner,
            as_text(as_object(metadata.get("labels")).get(POOL_NAME_LABEL)),
            as_text(annotations.get(TRIGGER_ANNOTATION)),
            # A client that replaces the object may have dropped the annotation.
            RENDERED_ANNOTATION in annotations or _RENDERED_BYTES in bytes(request.old_object_raw),
        )

    @property
    def creating(self) -> bool:
        """Whether the review is of a creation."""
        return self.request.operation == "CREATE"

    @property
    def depends_on_node_pool(self) -> bool:
        """Whether the template of the workload depends on the NodePool.

        Taints become tolerations of a YurtAppDaemon's workload, and labels choose the tweaks of a YurtAppSet v1beta1.
        """
        return bool(self.pool) and depends_on_node_pools(self.owner.group_kind, {"apiVersion": self.owner.api_version})


class Doubts:
    """Finds the kinds that the store may have in a version that is older than a workload under review.

    Attributes:
        settled: The kinds that were read for this review.
    """

    def __init__(
        self,
        workload: ReviewedWorkload,
        *,
        store: StoreView,
        plans: PlanCache,
        missing: Callable[[Iterable[GroupKind]], str],
    ) -> None:
        """Prepare.

        Args:
            workload: The workload under review.
            store: Overriders, subjects and NodePools.
            plans: The plans that were compiled from them.
            missing: Returns the reason why the store does not have these kinds yet, ``""`` if it has them.
        """
        self.settled: Final[set[GroupKind]] = set()
        self.workload: Final = workload
        self._store: Final = store
        self._plans: Final = plans
        self._missing: Final = missing
        self._change = UNKNOWN_CHANGE
        self._refused = False

    def find(self) -> GroupKind | LongCompilation | None:
        """Return the kind to read next, None if the store is new enough, or a compilation that must end before.

        Raises:
            StaleError: The store lacks a kind that the answer depends on.
        """
        workload, owner = self.workload, self.workload.owner
        binding = Binding(workload.cluster, owner.group_kind, workload.namespace, owner.name)
        overriders = overriders_of(self._store, binding)
        if not self._changes_template(overriders):
            return None
        if not overriders and YURT_APP_OVERRIDER not in self.settled:
            # kube-apiserver sends the workload because of an overrider that is newer than the store, or deleted.
            return YURT_APP_OVERRIDER
        if not overriders and not workload.rendered:
            return None
        if problem := self._missing(self._list_inputs(overriders)):
            raise StaleError(problem)
        # The labels of an unknown NodePool may select it.
        selects = workload.creating and any(map(uses_labels, overriders)) and self._lacks_node_pool()
        if selects and NODE_POOL not in self.settled:
            return NODE_POOL
        proven = self._is_proven()
        if isinstance(proven, LongCompilation):
            return proven
        return None if proven else next((kind for kind in self._list_suspects() if kind not in self.settled), None)

    def _changes_template(self, overriders: Collection[JSONObject]) -> bool:
        """Return whether the review is of a write that a change of the template may have caused."""
        if self.workload.creating:
            return True
        if not overriders and not self.workload.rendered:
            return False
        self._change = compare_workload(self.workload.request)
        return self._change.spec or self._change.revision

    def _is_proven(self) -> bool | LongCompilation:
        """Return whether the workload shows that the store is new enough, or a compilation that must end before."""
        request, document, owner = self.workload.request, self.workload.document, self.workload.owner
        last_render = find_last_render(request, document)
        target = RenderTarget(request.kind.kind, self.workload.namespace, owner, self.workload.creating)
        try:
            found = select_plan(document, target, last_render=last_render, store=self._store, plans=self._plans)
        except (SubjectError, RenderError) as error:
            self._refused = isinstance(error, RenderError)
            return False
        if found is None or isinstance(found, LongCompilation):
            return found or True
        return is_proven(found.plan, self.workload, last_render=last_render, change=self._change)

    def _list_inputs(self, overriders: Iterable[JSONObject]) -> tuple[GroupKind, ...]:
        """Return the kinds that a workload depends on, apart from overriders."""
        kind, workload = self.workload.owner.group_kind, self.workload
        depends = workload.depends_on_node_pool or (workload.pool and any(map(uses_labels, overriders)))
        return (kind, NODE_POOL) if depends else (kind,)

    def _list_suspects(self) -> Iterator[GroupKind]:
        """Yield the kinds of which a newer version may explain the workload, the likeliest first."""
        if self.workload.depends_on_node_pool and self._lacks_node_pool():
            yield NODE_POOL
        yield self.workload.owner.group_kind
        if self.workload.depends_on_node_pool:
            yield NODE_POOL
        if self._refused:
            yield YURT_APP_OVERRIDER

    def _lacks_node_pool(self) -> bool:
        pool = self.workload.pool
        return bool(pool) and self._store.get(self.workload.cluster, NODE_POOL, "", pool) is None


def is_proven(
    plan: PoolPlan, workload: ReviewedWorkload, *, last_render: LastRender | None, change: WorkloadChange
) -> bool:
    """Return whether a workload under review results from the template of a plan, or from an older one.

    Args:
        plan: The plan of the workload's pool, from the objects in the store.
        workload: The workload.
        last_render: The annotations of its last render, None if it was never rendered.
        change: The members that an update changes.
    """
    document, creating = workload.document, workload.creating
    if not creating:
        if plan.leaves_replicas and _sets_replicas(plan, document, as_object(workload.request.old_object)):
            return False
        is_same = last_render is not None and plan.applies and last_render.digest == plan.digest
        if is_same and not change.revision and REVISION_LABEL in as_object(document["metadata"].get("labels")):
            return True
    fast = plan.fast
    if fast is not None and fast.fits(document, creating=creating, values=plan.values):
        return True
    return has_template(plan.full, document, last_render=last_render, creating=creating)


def _sets_replicas(plan: PoolPlan, workload: JSONObject, stored: Mapping[str, JSON]) -> bool:
    """Return whether an update sets a number of replicas that differs from the template in the store.

    Either OpenYurt's controller wrote the number of a newer template, or an autoscaler wrote its own, which must stay.
    """
    before, after = (as_object(one.get("spec")).get("replicas") for one in (stored, workload))
    return before != after and find_kept_replicas(plan, workload, stored) is None
