"""Admission of Deployments and StatefulSets: renders the workloads of node pools.

Source: OpenYurt, pkg/yurtmanager/webhook/deploymentrender/v1alpha1 (v1.4.4), which renders Deployments only.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypedDict

import msgspec

from app.control.slices import Slice, Sliced, run_at_once
from app.model import admission
from app.model.admission import AdmissionRequest, Response
from app.model.json import JSON, JSONObject, as_object
from app.overrider.changes import unchanged_members
from app.overrider.delta import MISSING, describe_place, leaves, value_at
from app.overrider.differences import ABSENT, find_differences
from app.overrider.owner import Owner, find_owner
from app.overrider.plan_cache import PlanCache
from app.overrider.policies.probe import is_probe
from app.overrider.pool_template import SubjectError
from app.overrider.render import (
    NEVER_RENDERED,
    NOTHING_TO_RENDER,
    Rendering,
    RenderTarget,
    find_kept_replicas,
    render_selected,
    select_plan_in_slices,
)
from app.overrider.shared_plan import PoolPlan
from app.overrider.steps import RenderError
from app.overrider.undo import RENDERED_ANNOTATION, Memory, remembered
from app.patch import apply, format_pointer
from app.store import StoreView

KINDS: Final = frozenset({"Deployment", "StatefulSet"})
MAX_REPLACED_VALUES: Final = 5
MAX_SHOWN: Final = 100
_RENDERED_BYTES: Final = RENDERED_ANNOTATION.encode()


class _Annotations(TypedDict, total=False):
    annotations: Any


class _Annotated(TypedDict, total=False):
    """The annotations of a stored object; the decoder skips everything else."""

    metadata: _Annotations


_decode_annotations: Final = msgspec.json.Decoder(_Annotated).decode


def mutate_workload(request: AdmissionRequest, *, store: StoreView, plans: PlanCache) -> Response:
    """Answer the review of a Deployment or StatefulSet as `mutate_workload_in_slices` does."""
    return run_at_once(mutate_workload_in_slices(request, store=store, plans=plans))


def mutate_workload_in_slices(request: AdmissionRequest, *, store: StoreView, plans: PlanCache) -> Sliced[Response]:
    """Answer the review of a Deployment or StatefulSet. It pauses if the plan has to be compiled.

    Admitted unchanged: subresources (scale, status), objects being deleted, workloads that no YurtAppSet or
    YurtAppDaemon owns, probes of policies, and workloads whose pool no entry selects and none selected before. If
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
    if not isinstance(workload.get("spec"), dict):
        return admission.allowed()
    metadata = workload["metadata"]
    owner = find_owner(metadata)
    if owner is None or metadata.get("deletionTimestamp") or (request.dry_run and is_probe(metadata)):
        return admission.allowed()
    return (yield from _mutate_owned(request, workload, owner=owner, store=store, plans=plans))


def _mutate_owned(
    request: AdmissionRequest, workload: JSONObject, *, owner: Owner, store: StoreView, plans: PlanCache
) -> Sliced[Response]:
    namespace = request.namespace or workload["metadata"].get("namespace") or ""
    creating = request.operation == "CREATE"
    target = RenderTarget(request.kind.kind, namespace, owner, creating)
    memory = _read_memory(request, workload)
    try:
        yield Slice.READS_STORE
        found = yield from select_plan_in_slices(workload, target, memory=memory, store=store, plans=plans)
        yield Slice.PURE
        rendering = NOTHING_TO_RENDER if found is None else render_selected(found, workload, target, memory=memory)
    except SubjectError as error:
        return admission.allowed(warnings=[f"not rendered: {error}"])
    except RenderError as error:
        if _keeps_spec(request, workload):
            return admission.allowed(warnings=[f"not rendered: {error}"])
        return admission.denied(str(error))
    if found is not None and not creating and found.plan.leaves_replicas:
        rendering = _keep_replicas(request, workload, rendering, found.plan)
    if not rendering.operations:
        return admission.allowed(warnings=rendering.warnings)
    # A workload that was not rendered before has no overridden values that a user could have changed.
    replaced = _describe_replaced_values(request, workload, rendering) if memory not in (None, NEVER_RENDERED) else ()
    return admission.patched(rendering.operations, warnings=(*rendering.warnings, *replaced))


def _keep_replicas(request: AdmissionRequest, workload: JSONObject, rendering: Rendering, plan: PoolPlan) -> Rendering:
    """Return the rendering of an update with the stored number of replicas, if OpenYurt's controller resets it."""
    kept = find_kept_replicas(plan, workload, as_object(request.old_object))
    if kept is None:
        return rendering
    source = plan.shared.plan.source_of(("spec", "replicas"))
    text = (
        f"/spec/replicas: {workload['spec'].get('replicas')} is the number of the template, and {kept} stays: "
        f"{plan.values.fill_text(source)} leaves the replicas to another owner; use kubectl scale to set this number"
    )
    operations = [*rendering.operations, {"op": "add", "path": "/spec/replicas", "value": kept}]
    return rendering._replace(operations=operations, warnings=(*rendering.warnings, text))


def _read_memory(request: AdmissionRequest, workload: JSONObject) -> Memory | None:
    """Return the memory of the last render, None if the workload was never rendered.

    An update is judged by the stored object. A client that replaces the object may lose the annotations, and a template
    may forge them. Forged annotations are removed.
    """
    if request.operation == "UPDATE" and _RENDERED_BYTES in bytes(request.old_object_raw):
        try:
            stored = _decode_annotations(request.old_object_raw)
        except msgspec.DecodeError:
            stored = {}
        return remembered(stored)
    return None if remembered(workload) is None else NEVER_RENDERED


def _describe_replaced_values(request: AdmissionRequest, workload: JSONObject, rendering: Rendering) -> tuple[str, ...]:
    """Return a warning for each value of the update that an entry or the template replaces.

    The update set a value if it differs from the value in the stored object and from the value in the template.
    """
    if rendering.plan is None or not rendering.plan.applies:
        return ()
    if unchanged_members(request).issuperset(name for name, _ in rendering.plan.shared.plan.update.delta.members):
        return ()  # The controller's touch changes only an annotation.
    plan = rendering.plan.for_update
    stored = request.old_object
    unchanged = {name for name in ("metadata", "spec") if workload.get(name) == as_object(stored).get(name)}
    found = []
    for leaf in leaves(plan.update.delta):
        if leaf.tokens[0] in unchanged:
            continue
        wanted, before = value_at(workload, leaf.tokens), value_at(stored, leaf.tokens)
        if leaf.after is MISSING or wanted in (MISSING, leaf.after, leaf.before) or wanted == before:
            continue
        source = f"YurtAppOverrider {rendering.overrider} sets in {plan.source_of(leaf.tokens)}"
        found.append(
            f"{describe_place(leaf.tokens)}: {_quote(wanted)} is replaced by {_quote(leaf.after)}, which {source}; "
            "edit the overrider to change it"
        )
    return (*found, *_describe_restored_values(request, workload, rendering))[:MAX_REPLACED_VALUES]


def _describe_restored_values(request: AdmissionRequest, workload: JSONObject, rendering: Rendering) -> Iterator[str]:
    """Yield a warning for each value of the update that the render replaces, although no entry sets it.

    The template of the subject sets it. OpenYurt's controller would keep it until the next revision of the template.
    """
    assert rendering.plan is not None
    covered = {describe_place(leaf.tokens) for leaf in leaves(rendering.plan.for_update.update.delta)}
    edited = [one.address for one in find_differences(dict(as_object(request.old_object)), workload, leaves=True)]
    rendered: JSONObject = apply(workload, rendering.operations)
    for one in find_differences(workload, rendered, leaves=True):
        places = [format_pointer(one.address[: end + 1]) for end in range(len(one.address))]
        is_edited = any(address[: len(one.address)] == one.address[: len(address)] for address in edited)
        if (
            not is_edited
            or one.insignificant
            or not covered.isdisjoint(places)
            or places[1:2] == ["/metadata/annotations"]
        ):
            continue
        if one.stored in (ABSENT, None):
            change = "its removal is undone"
        elif one.requested is ABSENT:
            change = f"{_quote(one.stored)} is removed"
        else:
            change = f"{_quote(one.stored)} is replaced by {_quote(one.requested)}"
        yield f"{places[-1]}: {change}: while an overrider applies, the template decides; edit the owner to change it"


def _quote(value: JSON) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"


def _keeps_spec(request: AdmissionRequest, workload: JSONObject) -> bool:
    """Return whether an update changes at most metadata and replicas."""
    if request.operation != "UPDATE":
        return False
    before = as_object(as_object(request.old_object).get("spec"))
    return _remove_replicas(before) == _remove_replicas(workload["spec"])


def _remove_replicas(spec: Mapping[str, JSON]) -> JSONObject:
    return {name: value for name, value in spec.items() if name != "replicas"}
