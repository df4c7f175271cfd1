"""Admission of Deployments and StatefulSets: renders the workloads of node pools.

Source: OpenYurt, pkg/yurtmanager/webhook/deploymentrender/v1alpha1 (v1.4.4), which renders Deployments only.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any, Final, NamedTuple, TypedDict

import msgspec

from fleethook.cluster.store import StoreView
from fleethook.engines.overrider.entries.entry_steps import RenderError
from fleethook.engines.overrider.plan.plan_cache import LongCompilation, PlanCache
from fleethook.engines.overrider.render.member_differences import find_differences
from fleethook.engines.overrider.render.render import (
    NEVER_RENDERED,
    Rendering,
    RenderTarget,
    SelectedPlan,
    keep_replicas,
    render_selected,
    select_plan,
)
from fleethook.engines.overrider.render.undo import RESERVED_PREFIX, LastRender, read_last_render
from fleethook.engines.overrider.subject.owner_index import Owner, find_owner
from fleethook.engines.overrider.template.node_affinity import SubjectError
from fleethook.model import admission
from fleethook.model.admission import AdmissionRequest, Response
from fleethook.model.json import JSON, JSONObject, as_object, as_text
from fleethook.model.openyurt import (
    POOL_PATCH_ANNOTATION,
    RENDERED_ANNOTATION,
    REVISION_LABEL,
    TRIGGER_ANNOTATION,
)
from fleethook.patch import apply, format_pointer
from fleethook.server.reviews.admission_endpoint import Immediate, change_response
from fleethook.server.reviews.endpoint import MAX_ON_LOOP

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


class _Members(msgspec.Struct):
    metadata: msgspec.Raw = _ABSENT
    spec: msgspec.Raw = _ABSENT


class _Overrider(msgspec.Struct):
    subject: msgspec.Raw = _ABSENT
    entries: msgspec.Raw = _ABSENT


_decode_workload: Final = msgspec.json.Decoder(_Workload).decode
_decode_members: Final = msgspec.json.Decoder(_Members).decode
_decode_overrider: Final = msgspec.json.Decoder(_Overrider).decode


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


def stored_members(request: AdmissionRequest) -> JSONObject:
    """Return the stored values of those members among ``metadata`` and ``spec`` that an update may change."""
    try:
        before, after = _decode_members(request.old_object_raw), _decode_members(request.object_raw)
        pairs = {"metadata": (before.metadata, after.metadata), "spec": (before.spec, after.spec)}
        changed = {name: known for name, (known, now) in pairs.items() if bytes(known) != bytes(now)}
        return {name: msgspec.json.decode(known) if bytes(known) else {} for name, known in changed.items()}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}


def changes_overrider(request: AdmissionRequest) -> bool:
    """Return whether an update of an overrider changes its subject or its entries."""
    try:
        before, after = _decode_overrider(request.old_object_raw), _decode_overrider(request.object_raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return True
    return bytes(before.subject) != bytes(after.subject) or bytes(before.entries) != bytes(after.entries)


def _read_revision(workload: _Workload) -> tuple[bytes, bytes]:
    metadata = workload.metadata or _Metadata()
    label = metadata.labels.revision if metadata.labels else _ABSENT
    annotation = metadata.annotations.pool_patch if metadata.annotations else _ABSENT
    return bytes(label), bytes(annotation)


KINDS: Final = frozenset({"Deployment", "StatefulSet"})
MAX_REPLACED: Final = 5
# They write the values of the template, and read no warnings.
_CONTROLLERS: Final = "system:serviceaccount:"
_RENDERED_BYTES: Final = RENDERED_ANNOTATION.encode()
_REMOVE_TRIGGER: Final[JSONObject] = {"op": "remove", "path": f"/metadata/annotations/{TRIGGER_ANNOTATION}"}


class _Annotations(TypedDict, total=False):
    annotations: Any


class _Annotated(TypedDict, total=False):
    """The annotations of a stored object; the decoder skips everything else."""

    metadata: _Annotations


_decode_annotations: Final = msgspec.json.Decoder(_Annotated).decode


def mutate_workload(request: AdmissionRequest, *, store: StoreView, plans: PlanCache) -> Immediate:
    """Answer the review of a Deployment or StatefulSet.

    Returns a function for a thread if a plan has to be compiled for long, and for the rendering of a large workload.

    Admitted unchanged: subresources (scale, status), objects being deleted, workloads that no YurtAppSet or
    YurtAppDaemon owns, and workloads whose pool no entry selects and none selected before. If
    rendering fails, only writes that create the workload or change its spec are denied; a change of replicas alone is
    admitted.
    """
    if request.kind.kind not in KINDS:
        found = request.kind.kind or "nothing"
        return admission.errored(f"expected a Deployment or StatefulSet but got a {found}")
    if request.sub_resource or request.operation not in ("CREATE", "UPDATE"):
        return admission.allowed()
    workload = request.desired_object
    if not isinstance(workload, dict) or not isinstance(workload.get("metadata"), dict):
        return admission.errored("request.object is not an object with metadata")
    metadata = workload["metadata"]
    owner = find_owner(metadata) if isinstance(workload.get("spec"), dict) else None
    if owner is None or metadata.get("deletionTimestamp"):
        return admission.allowed()
    if not has_trigger(metadata):
        return _mutate_owned(request, workload, owner=owner, store=store, plans=plans)
    # Without its trigger, an unchanged workload stays as it is, and the controller knows that this webhook was called.
    workload = apply(workload, [_REMOVE_TRIGGER])
    return change_response(_mutate_owned(request, workload, owner=owner, store=store, plans=plans), _remove_trigger)


def _remove_trigger(response: Response) -> Response:
    if not response.allowed:
        return response
    return msgspec.structs.replace(response, patch=[_REMOVE_TRIGGER, *response.patch])


def has_trigger(metadata: JSONObject) -> bool:
    """Return whether a workload has the annotation by which fleethook's controller asks for a review."""
    return "overrider@" in str(as_object(metadata.get("annotations")).get(TRIGGER_ANNOTATION))


def _mutate_owned(
    request: AdmissionRequest, workload: JSONObject, *, owner: Owner, store: StoreView, plans: PlanCache
) -> Immediate:
    namespace = request.namespace or workload["metadata"].get("namespace") or ""
    target = RenderTarget(request.kind.kind, namespace, owner, request.operation == "CREATE")
    last_render = find_last_render(request, workload)
    try:
        found = select_plan(workload, target, last_render=last_render, store=store, plans=plans)
    except SubjectError as error:
        return admission.allowed(warnings=[f"not rendered: {error}"])
    except RenderError as error:
        return _refuse(error, request, workload)
    if found is None:
        return admission.allowed()
    if isinstance(found, LongCompilation):
        # The objects may change during the compilation, so the plan is selected again.
        return found.run
    if request.size > MAX_ON_LOOP:
        return partial(_render_selected, request, workload, found, target=target, last_render=last_render)
    return _render_selected(request, workload, found, target=target, last_render=last_render)


def _refuse(error: RenderError, request: AdmissionRequest, workload: JSONObject) -> Response:
    if _keeps_spec(request, workload):
        return admission.allowed(warnings=[f"not rendered: {error}"])
    return admission.denied(str(error))


def _render_selected(
    request: AdmissionRequest,
    workload: JSONObject,
    found: SelectedPlan,
    *,
    target: RenderTarget,
    last_render: LastRender | None,
) -> Response:
    """Return the answer with the operations of a plan. It reads nothing that changes."""
    try:
        rendering = render_selected(found, workload, target, last_render=last_render)
    except RenderError as error:
        return _refuse(error, request, workload)
    if not target.creating and found.plan.leaves_replicas:
        rendering = keep_replicas(rendering, workload, as_object(request.old_object))
    if not rendering.operations:
        return admission.allowed(warnings=rendering.warnings)
    # A workload that was not rendered before has no overridden values that a user could have changed.
    replaced = [] if last_render in (None, NEVER_RENDERED) else _warn_about_replaced_edits(request, workload, rendering)
    return admission.patched(rendering.operations, warnings=(*rendering.warnings, *replaced))


def find_last_render(request: AdmissionRequest, workload: JSONObject) -> LastRender | None:
    """Return the annotations of the last render, None if the workload was never rendered.

    An update is judged by the stored object. A client that replaces the object may lose the annotations, and a template
    may forge them. Forged annotations are removed.
    """
    if request.operation == "UPDATE" and _RENDERED_BYTES in bytes(request.old_object_raw):
        try:
            stored = _decode_annotations(request.old_object_raw)
        except msgspec.DecodeError:
            stored = {}
        return read_last_render(stored)
    return None if read_last_render(workload) is None else NEVER_RENDERED


def _warn_about_replaced_edits(request: AdmissionRequest, workload: JSONObject, rendering: Rendering) -> list[str]:
    """Return a warning about the edits of a person that the template or an entry replaces."""
    plan = rendering.plan
    if plan is None or not plan.applies or as_text(as_object(request.user).get("username")).startswith(_CONTROLLERS):
        return []
    stored = _select_writable(stored_members(request))
    asked = _select_writable({name: workload.get(name) for name in stored})
    edited = frozenset(one.address for one in find_differences(stored, asked, leaves=True))
    if plan.leaves_replicas:
        edited -= {("spec", "replicas")}  # `keep_replicas` has a warning of its own.
    if not edited:
        return []
    made: JSONObject = apply(workload, rendering.operations)
    made = _select_writable({name: made.get(name) for name in stored})
    around = edited | {one[:end] for one in edited for end in range(1, len(one))}
    places = (_find_edit(one.address, edited, around) for one in find_differences(asked, made, leaves=True))
    pointers = [format_pointer(one) for one in dict.fromkeys(places) if one]
    if not pointers:
        return []
    listed = ", ".join(pointers[:MAX_REPLACED]) + (" and others" if len(pointers) > MAX_REPLACED else "")
    return [f"replaced: {listed}: edit the owner or YurtAppOverrider {rendering.overrider}, which decide these values"]


_Addresses = AbstractSet[tuple[str, ...]]


def _find_edit(address: tuple[str, ...], edited: _Addresses, around: _Addresses) -> tuple[str, ...]:
    """Return the address of the edit around a replaced value, its own address if it contains edits, otherwise ()."""
    outer = (address[:end] for end in range(1, len(address) + 1))
    return next((one for one in outer if one in edited), address if address in around else ())


def _select_writable(members: JSONObject) -> JSONObject:
    """Return the members that users write, without fleethook's annotations."""
    if "metadata" not in members:
        return members
    metadata = as_object(members["metadata"])
    kept = {name: as_object(metadata.get(name)) for name in ("labels", "annotations")}
    kept = {
        name: {key: value for key, value in values.items() if not key.startswith(RESERVED_PREFIX)}
        for name, values in kept.items()
    }
    return {**members, "metadata": kept}


def _keeps_spec(request: AdmissionRequest, workload: JSONObject) -> bool:
    """Return whether an update changes at most metadata and replicas."""
    if request.operation != "UPDATE":
        return False
    before = as_object(as_object(request.old_object).get("spec"))
    return _remove_replicas(before) == _remove_replicas(workload["spec"])


def _remove_replicas(spec: Mapping[str, JSON]) -> JSONObject:
    return {name: value for name, value in spec.items() if name != "replicas"}
