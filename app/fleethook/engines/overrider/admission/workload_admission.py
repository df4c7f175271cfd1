"""Admission of Deployments and StatefulSets: renders the workloads of node pools.

Source: OpenYurt, pkg/yurtmanager/webhook/deploymentrender/v1alpha1 (v1.4.4), which renders Deployments only.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypedDict

import msgspec

from fleethook.cluster.store import StoreView
from fleethook.engines.overrider.admission.workload_edits import keep_replicas, keeps_spec, warn_about_replaced_edits
from fleethook.engines.overrider.entries.steps_and_limits import RenderError
from fleethook.engines.overrider.plan.plan_cache import PlanCache
from fleethook.engines.overrider.plan.plan_compilation_and_sharing import LongCompilation
from fleethook.engines.overrider.render.plan_selection import RenderTarget, SelectedPlan, render_selected, select_plan
from fleethook.engines.overrider.render.undo_and_annotations import NEVER_RENDERED, LastRender, read_last_render
from fleethook.engines.overrider.subject.owner_and_overrider import Owner, find_owner
from fleethook.engines.overrider.template.pool_template_and_placement import SubjectError
from fleethook.model import admission
from fleethook.model.admission import AdmissionRequest, Response
from fleethook.model.json import JSONObject, as_object
from fleethook.model.openyurt import RENDERED_ANNOTATION, TRIGGER_ANNOTATION
from fleethook.patch import apply
from fleethook.server.reviews.admission_endpoint import Immediate
from fleethook.server.reviews.http_checks import MAX_ON_LOOP

KINDS: Final = frozenset({"Deployment", "StatefulSet"})
_RENDERED_BYTES: Final = RENDERED_ANNOTATION.encode()
_REMOVE_TRIGGER: Final[JSONObject] = {"op": "remove", "path": f"/metadata/annotations/{TRIGGER_ANNOTATION}"}


def change_response(decided: Immediate, change: Callable[[Response], Response]) -> Immediate:
    """Return the answer of a handler with a change of its response."""
    if not isinstance(decided, Response):
        return lambda: None if (response := decided()) is None else change(response)
    return change(decided)


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
        return admission.errored(f"expected a Deployment or StatefulSet but got a {request.kind.kind or 'nothing'}")
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
        selected = select_plan(workload, target, last_render=last_render, store=store, plans=plans)
    except SubjectError as error:
        return admission.allowed(warnings=[f"not rendered: {error}"])
    except RenderError as error:
        return _answer_failed_render(error, request, workload)
    if selected is None:
        return admission.allowed()
    if isinstance(selected, LongCompilation):
        # The objects may change during the compilation, so the plan is selected again.
        return selected.run
    if request.size > MAX_ON_LOOP:
        return partial(_render_selected, request, workload, selected, target=target, last_render=last_render)
    return _render_selected(request, workload, selected, target=target, last_render=last_render)


def _answer_failed_render(error: RenderError, request: AdmissionRequest, workload: JSONObject) -> Response:
    if keeps_spec(request, workload):
        return admission.allowed(warnings=[f"not rendered: {error}"])
    return admission.denied(str(error))


def _render_selected(
    request: AdmissionRequest,
    workload: JSONObject,
    selected: SelectedPlan,
    *,
    target: RenderTarget,
    last_render: LastRender | None,
) -> Response:
    """Return the answer with the operations of a plan. It reads nothing that changes."""
    try:
        rendering = render_selected(selected, workload, target, last_render=last_render)
    except RenderError as error:
        return _answer_failed_render(error, request, workload)
    if not target.creating and selected.plan.leaves_replicas:
        rendering = keep_replicas(rendering, workload, as_object(request.old_object))
    if not rendering.operations:
        return admission.allowed(warnings=rendering.warnings)
    # A workload that was not rendered before has no overridden values that a user could have changed.
    replaced = [] if last_render in (None, NEVER_RENDERED) else warn_about_replaced_edits(request, workload, rendering)
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
