"""Rendering a workload at admission: which overrider applies, and the patch that it makes."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from app.model.json import JSON, JSONObject, as_object
from app.model.kcp import cluster_of
from app.model.merge_keys import WORKLOAD
from app.model.openyurt import POOL_NAME_LABEL
from app.overrider.binding import overriders_of
from app.overrider.delta import apply_delta, foreign_container
from app.overrider.overlay import overlay
from app.overrider.owner import Owner
from app.overrider.plan import Plan, Variant, restored_by_base
from app.overrider.plan_cache import PlanCache
from app.overrider.pool_template import CREATE_ONLY, SubjectError
from app.overrider.shared_plan import PoolPlan
from app.overrider.steps import RenderError
from app.overrider.template import place
from app.overrider.template_shape import shape_problem
from app.overrider.undo import (
    EVERYTHING,
    RENDERED_ANNOTATION,
    UNDO_ANNOTATION,
    Memory,
    annotations_of,
    as_annotation,
    merge_undos,
    outside_added,
    retract,
    split_undo,
    undo_of,
)
from app.patch import diff
from app.store import StoreView

NEVER_RENDERED: Final = Memory("", "")


class Rendering(NamedTuple):
    """What makes a workload the one that its pool is to have; nothing where there is nothing to render."""

    operations: Sequence[JSONObject]
    warnings: tuple[str, ...]
    plan: PoolPlan | None = None
    overrider: str = ""
    """The name of the overrider in effect, ``""`` if there is none."""


NOTHING_TO_RENDER: Final = Rendering((), ())


class RenderTarget(NamedTuple):
    """What is rendered, and for whom."""

    kind: str
    """Deployment or StatefulSet."""
    namespace: str
    owner: Owner
    creating: bool
    """Whether the workload is new, so that what an apiserver lets nobody change can still be set."""


def render(
    workload: JSONObject, target: RenderTarget, *, memory: Memory | None, store: StoreView, plans: PlanCache
) -> Rendering:
    """Return the operations that render ``workload`` for its pool.

    Args:
        workload: As it came in, or as it is stored; never changed.
        target: What it is.
        memory: What its last render left (`remembered`), None if it was never rendered.
        store: The objects.
        plans: What was compiled from them.

    Raises:
        SubjectError: The owner or its template is missing: somebody else's broken object.
        RenderError: The overrider does not fit the workload; the text names both and the pool.
    """
    found = select_plan(workload, target, memory=memory, store=store, plans=plans)
    return NOTHING_TO_RENDER if found is None else render_selected(found, workload, target, memory=memory)


class SelectedPlan(NamedTuple):
    """The plan of a workload."""

    plan: PoolPlan
    overriders: tuple[JSONObject, ...]
    """Those of its owner; the first one is in effect."""
    pool: str


def select_plan(
    workload: JSONObject, target: RenderTarget, *, memory: Memory | None, store: StoreView, plans: PlanCache
) -> SelectedPlan | None:
    """Return the plan of a workload, None if there is nothing to render; arguments and errors as of `render`."""
    cluster = cluster_of(workload)
    kind, namespace, owner, _ = target
    overriders = overriders_of(
        store, cluster=cluster, namespace=namespace, group_kind=owner.group_kind, name=owner.name
    )
    if not overriders and memory is None:
        return None
    pool = as_object(workload["metadata"].get("labels")).get(POOL_NAME_LABEL)
    if not isinstance(pool, str) or not pool:
        raise SubjectError(f"the workload has no label {POOL_NAME_LABEL}, so its node pool is not known")
    subject = store.get(cluster, owner.group_kind, namespace, owner.name)
    if subject is None:
        raise SubjectError(f"its owner {owner.group_kind.kind} {namespace}/{owner.name} is not known")
    _check_owner(subject, owner)
    overrider = overriders[0] if overriders else None
    try:
        plan = plans.plan(owner.group_kind, subject, overrider, kind=kind, pool=pool, cluster=cluster, store=store)
    except RenderError as error:
        raise _name_error(error, overrider, namespace=namespace, pool=pool) from error
    return SelectedPlan(plan, overriders, pool) if plan.applies or memory is not None else None


def render_selected(
    found: SelectedPlan, workload: JSONObject, target: RenderTarget, *, memory: Memory | None
) -> Rendering:
    """Return what the plan of a workload makes of it; raises RenderError."""
    plan, overriders, pool = found
    overrider = overriders[0] if overriders else None
    try:
        operations = _operations(plan, workload, memory=memory, creating=target.creating)
    except RenderError as error:
        raise _name_error(error, overrider, namespace=target.namespace, pool=pool) from error
    name = overrider["metadata"]["name"] if overrider else ""
    return Rendering(operations, _second_overrider(overriders) + plan.warnings, plan, name)


def _check_owner(subject: JSONObject, owner: Owner) -> None:
    if owner.api_version != subject["apiVersion"]:
        raise SubjectError(other_version(owner, subject))
    uid = subject["metadata"].get("uid")
    if uid and owner.uid and uid != owner.uid:
        raise SubjectError(
            f"its owner has uid {owner.uid}, but {owner.group_kind.kind} {owner.name} is another object now ({uid})"
        )


def other_version(owner: Owner, subject: JSONObject) -> str:
    """Return the message that a workload belongs to a subject in another version than the one that is read."""
    name = f"{owner.group_kind.kind} {subject['metadata'].get('namespace') or 'default'}/{owner.name}"
    return (
        f"its owner reference names {owner.api_version}, but {name} is read as {subject['apiVersion']}: an OpenYurt "
        "that was upgraded creates other workloads and leaves this one behind"
    )


def render_with(plan: Plan, workload: JSONObject, *, memory: Memory | None, creating: bool) -> JSONObject:
    """Return ``workload`` as ``plan`` wants it.

    Args:
        plan: The plan of the workload's pool.
        workload: As it came in; never changed.
        memory: What the last render left, None if the workload was never rendered.
        creating: Whether the workload is new, so that members can be set that an apiserver lets nobody change.

    Raises:
        RenderError: Somebody else's element is where an entry adds one.
    """
    variant = plan.create if creating else plan.update
    undo = _allowed_undo(memory)
    kept, beyond = split_undo(undo, plan.undo, WORKLOAD)
    added, gone = split_undo(beyond, variant.named, WORKLOAD)
    claimed = "replicas" in as_object(gone.get("spec"))
    stripped = retract(workload, _without_replicas(gone), WORKLOAD) if gone else workload
    bare = _lay_template(stripped, plan, variant)
    if claimed and not creating:
        bare = _replicas_of_template(bare, plan)
    if not plan.steps:
        return _remember(bare, NEVER_RENDERED)
    if (name := foreign_container(variant.delta, bare, undo)) is not None:
        raise _taken(name, plan)
    rendered = apply_delta(bare, variant.delta)
    replaced = undo_of(bare, rendered, named=restored_by_base(plan.base), schema=WORKLOAD)
    replaced = outside_added(replaced, kept, WORKLOAD) if kept else replaced
    # An unchanged overrider that finds another value than its own finds one that somebody wrote since: that is the one
    # to give back. A changed overrider finds its own former value.
    since, before = (replaced, kept) if memory is not None and memory.digest == plan.digest else (kept, replaced)
    # A template that is older here than at its owner brings back members that the owner has dropped.
    brought = {} if creating else undo_of(stripped, rendered, named=EVERYTHING, schema=WORKLOAD)
    made: JSONObject = {}
    for part in (added, brought, plan.undo, before, since):
        made = merge_undos(made, _without_replicas(part), WORKLOAD)
    if "replicas" in as_object(plan.undo.get("spec")):
        made = {**made, "spec": {**made.get("spec", {}), "replicas": None}}
    undo = made
    return _remember(rendered, Memory(plan.digest, as_annotation(undo)))


def _allowed_undo(memory: Memory | None) -> JSONObject:
    """Return the undo that an annotation holds, as far as a render may have written it."""
    undo = {} if memory is None else memory.undo
    spec, metadata = as_object(undo.get("spec")), as_object(undo.get("metadata"))
    kept = {
        "metadata": {name: metadata[name] for name in ("labels", "annotations") if name in metadata},
        "spec": {name: step for name, step in spec.items() if name not in CREATE_ONLY or name == "replicas"},
    }
    return {name: part for name, part in kept.items() if part}


def _lay_template(workload: JSONObject, plan: Plan, variant: Variant) -> JSONObject:
    """Return ``workload`` as the template wants it, without overrides; other people's members survive."""
    template = plan.template if variant.places else plan.template._replace(expressions=())
    return apply_delta(place(overlay(workload, variant.named, WORKLOAD), template), variant.pool_delta)


def _taken(name: str, plan: Plan) -> RenderError:
    added = (one for one in plan.sources if one.tokens[:3] == ("spec", "template", "spec"))
    field = next((one.field for one in added if one.tokens[4:] == ((name, 0),)), "entries")
    return RenderError(
        field,
        f"the workload already has a container {name!r} that another webhook or person added; give yours another name",
    )


def _operations(plan: PoolPlan, workload: JSONObject, *, memory: Memory | None, creating: bool) -> Sequence[JSONObject]:
    if (fast := plan.fast) is not None and not creating:
        wanted = plan.memory
        if memory is not None and fast.is_settled(workload, memory, wanted=wanted, values=plan.values):
            return ()
        if memory is None or memory.undo_text in ("", plan.undo_text):
            operations = fast.operations_for(workload, wanted=wanted, values=plan.values)
            if operations is None and memory is not None:
                operations = fast.operations_after_edit(workload, memory, wanted=wanted, values=plan.values)
            if operations is not None:
                return operations
    if (problem := shape_problem(workload)) is not None:
        raise RenderError("entries", f"the workload is not valid: {problem}")
    whole = plan.full if creating else plan.for_update
    return diff(workload, render_with(whole, workload, memory=memory, creating=creating))


def _replicas_of_template(workload: JSONObject, plan: Plan) -> JSONObject:
    """Give back a replica count that an earlier override had claimed; nobody else's count is touched."""
    replicas = plan.bare["spec"].get("replicas", plan.template.default_replicas)
    if replicas is None or workload["spec"].get("replicas") == replicas:
        return workload
    return {**workload, "spec": {**workload["spec"], "replicas": replicas}}


def _remember(rendered: JSONObject, memory: Memory) -> JSONObject:
    metadata = rendered["metadata"]
    annotations = metadata.get("annotations") or {}
    wanted = annotations_of(*memory)
    known = {name: annotations[name] for name in (RENDERED_ANNOTATION, UNDO_ANNOTATION) if name in annotations}
    if known == wanted:
        return rendered
    kept = {name: value for name, value in annotations.items() if name not in known}
    merged: JSON = {**kept, **wanted}
    if merged:
        return {**rendered, "metadata": {**metadata, "annotations": merged}}
    return {**rendered, "metadata": {name: value for name, value in metadata.items() if name != "annotations"}}


def _without_replicas(undo: JSONObject) -> JSONObject:
    """Return ``undo`` without the replica count: it goes back to the template's, whoever had scaled before."""
    if "replicas" not in as_object(undo.get("spec")):
        return undo
    return {**undo, "spec": {name: step for name, step in undo["spec"].items() if name != "replicas"}}


def _name_error(error: RenderError, overrider: JSONObject | None, *, namespace: str, pool: str) -> RenderError:
    name = overrider["metadata"]["name"] if overrider else "(none)"
    return RenderError(
        f"YurtAppOverrider {namespace}/{name} cannot be rendered for node pool {pool}: {error.field}", error.reason
    )


def _second_overrider(overriders: tuple[JSONObject, ...]) -> tuple[str, ...]:
    if len(overriders) < 2:
        return ()
    names = [overrider["metadata"]["name"] for overrider in overriders]
    return (f"YurtAppOverrider {names[0]} is in effect; {', '.join(names[1:])} for the same subject is ignored",)
