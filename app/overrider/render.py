"""Rendering a workload at admission: which overrider applies, and the patch that it makes."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from app.model import admission
from app.model.admission import AdmissionRequest, Response
from app.model.json import JSON, JSONObject, as_object
from app.model.kcp import cluster_of
from app.model.merge_keys import WORKLOAD
from app.model.openyurt import POOL_NAME_LABEL
from app.overrider.binding import overriders_of
from app.overrider.direct import direct_operations
from app.overrider.owner import Owner, find_owner
from app.overrider.plan import Plan, base, checked
from app.overrider.plans import PlanCache
from app.overrider.steps import RenderError, run_steps
from app.overrider.template import SubjectError
from app.overrider.undo import (
    RENDERED_ANNOTATION,
    UNDO_ANNOTATION,
    annotations_of,
    as_annotation,
    retract,
    undo_of,
)
from app.patch import StrategicMergeError, diff
from app.store import StoreView

KINDS: Final = frozenset({"Deployment", "StatefulSet"})
_RENDERED_BYTES: Final = RENDERED_ANNOTATION.encode()


class Rendering(NamedTuple):
    """What makes a workload the one that its pool is to have; nothing where there is nothing to render."""

    operations: Sequence[JSONObject]
    warnings: tuple[str, ...]


def mutate_workload(request: AdmissionRequest, *, store: StoreView, plans: PlanCache) -> Response:
    """Answer the review of a Deployment or StatefulSet (seed 004, "Workflow of mutating webhook").

    Admitted unchanged: subresources (scale, status), objects being deleted, workloads that no alpha YurtAppSet or
    YurtAppDaemon owns, and workloads whose pool no entry selects and none selected before. A render that fails denies
    a write that creates the workload or changes what it runs, and never any other write.
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
    if owner is None or metadata.get("deletionTimestamp"):
        return admission.allowed()
    return _mutate_owned(request, workload, owner=owner, store=store, plans=plans)


def _mutate_owned(
    request: AdmissionRequest, workload: JSONObject, *, owner: Owner, store: StoreView, plans: PlanCache
) -> Response:
    namespace = request.namespace or workload["metadata"].get("namespace") or ""
    memory = _memory(request, workload)
    creating = request.operation == "CREATE"
    place = Place(request.kind.kind, namespace, owner, creating)
    try:
        rendering = render(workload, place, memory=memory, store=store, plans=plans)
    except SubjectError as error:
        return admission.allowed(warnings=[f"not rendered: {error}"])
    except RenderError as error:
        if _runs_the_same(request, workload):
            return admission.allowed(warnings=[f"not rendered: {error}"])
        return admission.denied(str(error))
    if not rendering.operations:
        return admission.allowed(warnings=rendering.warnings)
    return admission.patched(rendering.operations, warnings=rendering.warnings)


class Place(NamedTuple):
    """What is rendered, and for whom."""

    kind: str
    """Deployment or StatefulSet."""
    namespace: str
    owner: Owner
    creating: bool
    """Whether the workload is new, so that what an apiserver lets nobody change can still be set."""


def render(
    workload: JSONObject, place: Place, *, memory: JSONObject | None, store: StoreView, plans: PlanCache
) -> Rendering:
    """Return the operations that render ``workload`` for its pool.

    Args:
        workload: As it came in, or as it is stored; never changed.
        place: What it is.
        memory: The undo of its last render (`remembered`), None if it was never rendered.
        store: The objects.
        plans: What was compiled from them.

    Raises:
        SubjectError: The owner or its template is missing: somebody else's broken object.
        RenderError: The overrider does not fit the workload; the text names both and the pool.
    """
    cluster = cluster_of(workload)
    kind, namespace, owner, creating = place
    overriders = overriders_of(
        store, cluster=cluster, namespace=namespace, group_kind=owner.group_kind, name=owner.name
    )
    if not overriders and memory is None:
        return Rendering((), ())
    pool = as_object(workload["metadata"].get("labels")).get(POOL_NAME_LABEL)
    if not isinstance(pool, str) or not pool:
        raise SubjectError(f"the workload has no label {POOL_NAME_LABEL}, so its node pool is not known")
    subject = store.get(cluster, owner.group_kind, namespace, owner.name)
    if subject is None:
        raise SubjectError(f"its owner {owner.group_kind.kind} {namespace}/{owner.name} is not known")
    _check_uid(subject, owner)
    overrider = overriders[0] if overriders else None
    try:
        plan = plans.plan(owner.group_kind, subject, overrider, kind=kind, pool=pool, cluster=cluster, store=store)
        if not plan.steps and memory is None:
            return Rendering((), ())
        operations = _operations(plan, workload, memory=memory or {}, creating=creating)
    except RenderError as error:
        raise _named(error, overrider, namespace=namespace, pool=pool) from error
    return Rendering(operations, _second_overrider(overriders) + plan.warnings)


def _check_uid(subject: JSONObject, owner: Owner) -> None:
    uid = subject["metadata"].get("uid")
    if uid and owner.uid and uid != owner.uid:
        raise SubjectError(
            f"its owner has uid {owner.uid}, but {owner.group_kind.kind} {owner.name} is another object now ({uid})"
        )


def _memory(request: AdmissionRequest, workload: JSONObject) -> JSONObject | None:
    """Return what the last render left behind: its undo, ``{}`` if there is none to read, None if never rendered.

    A client that replaces the whole object loses the annotation; then the stored object still has it.
    """
    known = remembered(workload)
    if known is not None or _RENDERED_BYTES not in bytes(request.old_object_raw):
        return known
    stored = request.old_object
    return remembered(stored) if isinstance(stored, dict) else None


def remembered(workload: JSONObject) -> JSONObject | None:
    """Return what the last render left on ``workload``: its undo, ``{}`` if there is none, None if never rendered."""
    annotations = as_object(as_object(workload.get("metadata")).get("annotations"))
    if RENDERED_ANNOTATION not in annotations:
        return None
    try:
        undo = msgspec.json.decode(annotations.get(UNDO_ANNOTATION) or b"{}")
    except (msgspec.DecodeError, TypeError):
        return {}
    return undo if isinstance(undo, dict) else {}


def render_with(plan: Plan, workload: JSONObject, *, memory: JSONObject, creating: bool) -> JSONObject:
    """Return ``workload`` as ``plan`` wants it.

    Args:
        plan: The plan of the workload's pool.
        workload: As it came in; never changed.
        memory: The undo of the last render, ``{}`` for none.
        creating: Whether the workload is new, so that what an apiserver lets nobody change can still be set.

    Raises:
        RenderError: An entry does not fit this workload.
    """
    return _run(plan, _bare(plan, workload, memory=memory, creating=creating))


def _operations(plan: Plan, workload: JSONObject, *, memory: JSONObject, creating: bool) -> Sequence[JSONObject]:
    direct = plan.direct
    # An undo that an earlier render left and this one does not is taken away only by rendering.
    stale = not plan.undo_text and UNDO_ANNOTATION in (workload["metadata"].get("annotations") or ())
    usual = direct is not None and not memory and not stale and direct.stands(workload, creating=creating)
    bare = workload if usual else _bare(plan, workload, memory=memory, creating=creating)
    if direct is not None and bare is workload and not stale:
        operations = direct_operations(direct, workload)
        if operations is not None:
            return operations
    return diff(workload, _run(plan, bare))


def _run(plan: Plan, bare: JSONObject) -> JSONObject:
    rendered = run_steps(bare, plan.steps)
    if plan.error is None:
        return _remember(rendered, plan, undo_text=plan.undo_text)
    # The template alone could not be rendered, so nothing was checked or remembered when the plan was compiled.
    checked(bare, rendered)
    undo = undo_of(bare, rendered, named=plan.template.named_on_update, schema=WORKLOAD)
    return _remember(rendered, plan, undo_text=as_annotation(undo))


def _bare(plan: Plan, workload: JSONObject, *, memory: JSONObject, creating: bool) -> JSONObject:
    if not memory:
        stripped = workload
    else:
        spec = {name: step for name, step in as_object(memory.get("spec")).items() if name != "replicas"}
        metadata = as_object(memory.get("metadata"))
        kept = {name: metadata[name] for name in ("labels", "annotations") if name in metadata}
        stripped = retract(workload, {"metadata": kept, "spec": spec}, WORKLOAD)
    try:
        bare = base(stripped, plan.template, creating=creating)
    except StrategicMergeError as error:
        raise SubjectError(f"the pool's own patch does not fit: {error}") from error
    if not creating and "replicas" in as_object(memory.get("spec")):
        return _replicas_of_template(bare, plan)
    return bare


def _replicas_of_template(workload: JSONObject, plan: Plan) -> JSONObject:
    """Give back a replica count that an earlier override had claimed; nobody else's count is touched."""
    replicas = plan.template.named["spec"].get("replicas")
    if replicas is None or workload["spec"].get("replicas") == replicas:
        return workload
    return {**workload, "spec": {**workload["spec"], "replicas": replicas}}


def _remember(rendered: JSONObject, plan: Plan, *, undo_text: str) -> JSONObject:
    metadata = rendered["metadata"]
    annotations = metadata.get("annotations") or {}
    wanted = annotations_of(plan.digest if plan.steps else "", undo_text)
    known = {name: annotations[name] for name in (RENDERED_ANNOTATION, UNDO_ANNOTATION) if name in annotations}
    if known == wanted:
        return rendered
    kept = {name: value for name, value in annotations.items() if name not in known}
    merged: JSON = {**kept, **wanted}
    if merged:
        return {**rendered, "metadata": {**metadata, "annotations": merged}}
    return {**rendered, "metadata": {name: value for name, value in metadata.items() if name != "annotations"}}


def _runs_the_same(request: AdmissionRequest, workload: JSONObject) -> bool:
    """Return whether an update leaves alone what the workload runs: metadata and replicas are not part of that."""
    if request.operation != "UPDATE":
        return False
    before = as_object(as_object(request.old_object).get("spec"))
    return _without_replicas(before) == _without_replicas(workload["spec"])


def _without_replicas(spec: Mapping[str, JSON]) -> JSONObject:
    return {name: value for name, value in spec.items() if name != "replicas"}


def _named(error: RenderError, overrider: JSONObject | None, *, namespace: str, pool: str) -> RenderError:
    name = overrider["metadata"]["name"] if overrider else "(none)"
    return RenderError(
        f"YurtAppOverrider {namespace}/{name} cannot be rendered for node pool {pool}: {error.field}", error.reason
    )


def _second_overrider(overriders: tuple[JSONObject, ...]) -> tuple[str, ...]:
    if len(overriders) < 2:
        return ()
    names = [overrider["metadata"]["name"] for overrider in overriders]
    return (f"YurtAppOverrider {names[0]} is in effect; {', '.join(names[1:])} for the same subject is ignored",)
