"""Admission of Deployments and StatefulSets: renders the workloads of node pools.

A warning names the edits of users that the render replaces, and the number of replicas that stays.

Source: OpenYurt, pkg/yurtmanager/webhook/deploymentrender/v1alpha1 (v1.4.4), which renders Deployments only.
"""

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any, Final, TypedDict

import msgspec

from fleethook.cluster.store import StoreView
from fleethook.engines.overrider.entries.steps_and_limits import RenderError
from fleethook.engines.overrider.plan.plan_and_digest import Plan
from fleethook.engines.overrider.plan.plan_cache import PlanCache, PoolPlan
from fleethook.engines.overrider.plan.plan_compilation_and_sharing import LongCompilation
from fleethook.engines.overrider.render.stored_workload_comparison import find_differences
from fleethook.engines.overrider.render.undo_and_annotations import (
    NEVER_RENDERED,
    RENDERED_ANNOTATION,
    RESERVED_PREFIX,
    LastRender,
    has_trigger,
    read_last_render,
)
from fleethook.engines.overrider.render.workload_render_and_name_conflicts import (
    Rendering,
    RenderTarget,
    SelectedPlan,
    render_selected,
    select_plan,
)
from fleethook.engines.overrider.subject.workload_owner import Owner, find_owner
from fleethook.engines.overrider.template.pool_template_and_placement import SubjectError
from fleethook.model import admission
from fleethook.model.admission import AdmissionRequest, Response
from fleethook.model.json import JSON, JSONObject, as_object, as_text
from fleethook.model.openyurt import TRIGGER_ANNOTATION
from fleethook.patch import apply, format_pointer
from fleethook.server.reviews.admission_endpoint import Immediate
from fleethook.server.reviews.review_endpoint import MAX_ON_LOOP

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
    if _keeps_spec(request, workload):
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


_ABSENT: Final = msgspec.Raw(b"")


class _Members(msgspec.Struct):
    metadata: msgspec.Raw = _ABSENT
    spec: msgspec.Raw = _ABSENT


_decode_members: Final = msgspec.json.Decoder(_Members).decode


def _read_stored_members(request: AdmissionRequest) -> JSONObject:
    """Return the stored values of those members among ``metadata`` and ``spec`` that an update may change."""
    try:
        before, after = _decode_members(request.old_object_raw), _decode_members(request.object_raw)
        pairs = {"metadata": (before.metadata, after.metadata), "spec": (before.spec, after.spec)}
        changed = {name: known for name, (known, now) in pairs.items() if bytes(known) != bytes(now)}
        return {name: msgspec.json.decode(known) if bytes(known) else {} for name, known in changed.items()}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}


MAX_REPLACED: Final = 5
# They write the values of the template, and read no warnings.
_CONTROLLERS: Final = "system:serviceaccount:"


def _warn_about_replaced_edits(request: AdmissionRequest, workload: JSONObject, rendering: Rendering) -> list[str]:
    """Return a warning about the edits of a person that the template or an entry replaces."""
    plan = rendering.plan
    if plan is None or not plan.applies or as_text(as_object(request.user).get("username")).startswith(_CONTROLLERS):
        return []
    stored = _select_writable(_read_stored_members(request))
    asked = _select_writable({name: workload.get(name) for name in stored})
    edited = frozenset(difference.address for difference in find_differences(stored, asked, leaves=True))
    if plan.leaves_replicas:
        edited -= {("spec", "replicas")}  # `keep_replicas` has a warning of its own.
    if not edited:
        return []
    rendered: JSONObject = apply(workload, rendering.operations)
    rendered = _select_writable({name: rendered.get(name) for name in stored})
    around = edited | {one[:end] for one in edited for end in range(1, len(one))}
    places = (_find_edit(one.address, edited, around) for one in find_differences(asked, rendered, leaves=True))
    pointers = [format_pointer(place) for place in dict.fromkeys(places) if place]
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


def find_kept_replicas(plan: PoolPlan, sent: JSONObject, stored: Mapping[str, JSON]) -> int | None:
    """Return the number of replicas that an update must keep, None if the update may set its own.

    OpenYurt's controllers write the number of the template with each revision; those of 1.4 also if it differs. An
    autoscaler and ``kubectl scale`` use the scale subresource, which is not rendered. So this function takes the
    template's number for a write of OpenYurt, and any other number for a write of the other owner.

    Args:
        plan: The plan of the workload's pool.
        sent: The requested workload.
        stored: The stored workload.
    """
    before, after = (as_object(one.get("spec")).get("replicas") for one in (stored, sent))
    if not plan.leaves_replicas or type(before) is not int or before == after:
        return None
    numbers = map(plan.values.fill_number, _list_template_replicas(plan.shared.plan))
    return before if (1 if after is None else after) in numbers else None


def keep_replicas(rendering: Rendering, sent: JSONObject, stored: Mapping[str, JSON]) -> Rendering:
    """Return the rendering of an update with the stored number of replicas, if OpenYurt's controller resets it.

    Args:
        rendering: The rendering of ``sent``.
        sent: As in `find_kept_replicas`.
        stored: As in `find_kept_replicas`.
    """
    plan = rendering.plan
    kept = None if plan is None else find_kept_replicas(plan, sent, stored)
    if plan is None or kept is None:
        return rendering
    source = plan.shared.plan.source_of(("spec", "replicas"))
    text = (
        f"/spec/replicas: {sent['spec'].get('replicas')} is the number of the template, and {kept} stays: "
        f"{plan.values.fill_text(source)} leaves the replicas to another owner; use kubectl scale to set this number"
    )
    operations = [*rendering.operations, {"op": "add", "path": "/spec/replicas", "value": kept}]
    return rendering._replace(operations=operations, warnings=(*rendering.warnings, text))


def _list_template_replicas(plan: Plan) -> tuple[int, ...]:
    """Return the numbers of replicas that OpenYurt's controllers may write, with marks."""
    number = plan.template_replicas
    # Without a number, OpenYurt 1.4 writes 0 into an existing workload, and kube-apiserver sets 1 in a new one.
    return (0, 1) if number is None else (number,)
