"""Renders a workload: selects the plan of its pool, and computes the JSON patch of this plan."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

from fleethook.cluster.store import StoreView
from fleethook.engines.overrider.entries.steps_and_limits import RenderError
from fleethook.engines.overrider.plan.plan_and_digest import Plan, Variant, list_template_fields
from fleethook.engines.overrider.plan.plan_cache import PlanCache, PoolPlan
from fleethook.engines.overrider.plan.plan_compilation_and_sharing import LongCompilation
from fleethook.engines.overrider.render.list_elements_and_order import CONTAINER_LISTS, index_elements
from fleethook.engines.overrider.render.overlay_and_defaults import covers, overlay, settle
from fleethook.engines.overrider.render.template_delta import (
    Assign,
    Change,
    ListDelta,
    ObjectDelta,
    apply_delta,
    value_at,
)
from fleethook.engines.overrider.render.undo_and_annotations import (
    NEVER_RENDERED,
    LastRender,
    as_annotation,
    claims_replicas,
    merge_undos,
    remove_replicas,
    restore_replicas,
    restored_values,
    retract,
    select_restored,
    set_last_render,
    undo_of,
)
from fleethook.engines.overrider.subject.bound_overriders import overriders_of, warn_about_ignored
from fleethook.engines.overrider.subject.subject_and_pools import has_no_daemon_controller
from fleethook.engines.overrider.subject.workload_owner import Binding, Owner, describe_other_version
from fleethook.engines.overrider.template.pool_template_and_placement import (
    CREATE_ONLY,
    SubjectError,
    place,
    shape_problem,
)
from fleethook.engines.overrider.template.tweaks import decode_tweaks, list_selections
from fleethook.model.json import JSONObject, as_object
from fleethook.model.kcp import cluster_of
from fleethook.model.merge_keys import WORKLOAD
from fleethook.model.openyurt import POOL_NAME_LABEL, YURT_APP_DAEMON
from fleethook.patch import diff


class Rendering(NamedTuple):
    """The JSON patch that renders a workload for its pool, empty if nothing changes."""

    operations: Sequence[JSONObject]
    warnings: tuple[str, ...]
    plan: PoolPlan | None = None
    overrider: str = ""
    """The name of the overrider in effect, ``""`` if there is none."""
    keeps_template: bool = False
    """See `SelectedPlan`."""


NOTHING_TO_RENDER: Final = Rendering((), ())


class RenderTarget(NamedTuple):
    """The workload to render, and its owner."""

    kind: str
    """Deployment or StatefulSet."""
    namespace: str
    owner: Owner
    creating: bool
    """Whether the workload is new, so that the fields of `CREATE_ONLY` can be set."""


def render(
    workload: JSONObject, target: RenderTarget, *, last_render: LastRender | None, store: StoreView, plans: PlanCache
) -> Rendering:
    """Return the operations that render ``workload`` for its pool.

    Args:
        workload: The requested or the stored object; never changed.
        target: Its kind and its owner.
        last_render: The annotations of its last render (`read_last_render`), None if it was never rendered.
        store: Overriders, subjects and NodePools.
        plans: The plans compiled from them.

    Raises:
        SubjectError: The owner or its template is missing or broken.
        RenderError: The overrider does not fit the workload; the text names both and the pool.
    """
    select = partial(select_plan, workload, target, last_render=last_render, store=store, plans=plans)
    while isinstance(selected := select(), LongCompilation):
        selected.run()
    if selected is None:
        return NOTHING_TO_RENDER
    return render_selected(selected, workload, target, last_render=last_render)


class SelectedPlan(NamedTuple):
    """The plan of a workload."""

    plan: PoolPlan
    overriders: tuple[JSONObject, ...]
    """The overriders of its owner; the first one is in effect."""
    pool: str
    keeps_template: bool
    """Whether the workload keeps the template that it has, because no controller writes that of its owner."""


def select_plan(
    workload: JSONObject,
    target: RenderTarget,
    *,
    last_render: LastRender | None,
    store: StoreView,
    plans: PlanCache,
) -> SelectedPlan | LongCompilation | None:
    """Return the plan of a workload, None if there is nothing to render; arguments and errors as of `render`.

    If the compilation of the plan would block the event loop, this function returns it.
    """
    cluster = cluster_of(workload)
    kind, namespace, owner, _ = target
    overriders = overriders_of(store, Binding(cluster, owner.group_kind, namespace, owner.name))
    if not overriders and last_render is None:
        return None
    pool = as_object(workload["metadata"].get("labels")).get(POOL_NAME_LABEL)
    if not isinstance(pool, str) or not pool:
        raise SubjectError(f"the workload has no label {POOL_NAME_LABEL}, so its node pool is not known")
    subject = store.get(cluster, owner.group_kind, namespace, owner.name)
    if subject is None:
        raise SubjectError(f"its owner {owner.group_kind.kind} {namespace}/{owner.name} is not known")
    _check_owner(subject, owner)
    overrider = overriders[0] if overriders else None
    find = partial(plans.find, owner.group_kind, subject, overrider, kind=kind, pool=pool, cluster=cluster, store=store)
    try:
        plan = find(kept_tweaks="" if last_render is None else last_render.tweaks)
    except RenderError as error:
        raise _add_location(error, overrider, namespace=namespace, pool=pool) from error
    if isinstance(plan, LongCompilation) or (not plan.applies and last_render is None):
        return plan if isinstance(plan, LongCompilation) else None
    if last_render is None and not target.creating and plan.shared.plan.template.tweaks:
        plan = _select_by_content(plan, workload, subject, find)
        if isinstance(plan, LongCompilation):
            return plan
    unmanaged = owner.group_kind == YURT_APP_DAEMON and has_no_daemon_controller(store, cluster)
    return SelectedPlan(plan, overriders, pool, unmanaged and not target.creating)


def _select_by_content(
    plan: PoolPlan, workload: JSONObject, subject: JSONObject, find_plan: Callable[..., PoolPlan | LongCompilation]
) -> PoolPlan | LongCompilation:
    """Return the plan whose tweaks a workload has, which no render has remembered yet.

    Args:
        plan: The plan with the tweaks that the labels of the node pool select now.
        workload: The workload.
        subject: Its YurtAppSet v1beta1.
        find_plan: Returns the plan with other tweaks.
    """

    def rate(one: PoolPlan) -> tuple[bool, bool]:
        full = one.full
        fits = shape_problem(workload) is None and has_template(full, workload, last_render=None, creating=False)
        return fits, fits and workload["spec"].get("replicas", 1) == full.create.bare["spec"].get("replicas", 1)

    best, rating = plan, rate(plan)
    present = decode_tweaks(subject, plan.shared.plan.template.tweaks) or ()
    for text in list_selections(subject, plan.values.pool, present):
        if all(rating):
            break
        try:
            other = find_plan(kept_tweaks=text)
        except (SubjectError, RenderError):
            continue  # OpenYurt's controller cannot have written it.
        if isinstance(other, LongCompilation):
            return other
        if (of_other := rate(other)) > rating:
            best, rating = other, of_other
    return best


def render_selected(
    selected: SelectedPlan, workload: JSONObject, target: RenderTarget, *, last_render: LastRender | None
) -> Rendering:
    """Return the operations that the plan of a workload results in; raises RenderError."""
    plan, overriders, pool, keeps = selected
    overrider = overriders[0] if overriders else None
    try:
        operations = compute_patch(
            plan, workload, last_render=last_render, creating=target.creating, keeps_template=keeps
        )
    except RenderError as error:
        raise _add_location(error, overrider, namespace=target.namespace, pool=pool) from error
    name = overrider["metadata"]["name"] if overrider else ""
    return Rendering(operations, warn_about_ignored(overriders) + plan.warnings, plan, name, keeps)


def _check_owner(subject: JSONObject, owner: Owner) -> None:
    if owner.api_version != subject["apiVersion"]:
        raise SubjectError(describe_other_version(owner, subject))
    uid = subject["metadata"].get("uid")
    if uid and owner.uid and uid != owner.uid:
        raise SubjectError(
            f"its owner has uid {owner.uid}, but {owner.group_kind.kind} {owner.name} is another object now ({uid})"
        )


def _add_location(error: RenderError, overrider: JSONObject | None, *, namespace: str, pool: str) -> RenderError:
    name = overrider["metadata"]["name"] if overrider else "(none)"
    return RenderError(
        f"YurtAppOverrider {namespace}/{name} cannot be rendered for node pool {pool}: {error.field}", error.reason
    )


def compute_patch(
    plan: PoolPlan,
    workload: JSONObject,
    *,
    last_render: LastRender | None,
    creating: bool,
    keeps_template: bool = False,
) -> Sequence[JSONObject]:
    """Return the patch that renders a workload: the difference to the result of `render_with`.

    No other function computes it. The plan has the operations ready for a workload that matches its template; they
    have the same result, and a review takes a tenth of the time.

    Args:
        plan: As in `render_with`.
        workload: As in `render_with`.
        last_render: As in `render_with`.
        creating: As in `render_with`.
        keeps_template: As in `render_with`.

    Raises:
        RenderError: As `render_with`, and for a workload with members of a wrong type.
    """
    fast = None if keeps_template else plan.fast
    if fast is not None and creating and last_render is None:
        new = fast.operations_for_new(workload, next_render=plan.next_render, values=plan.values)
        if new is not None:
            return new
    if fast is not None and not creating:
        next_render = plan.next_render
        if last_render is not None and fast.is_settled(
            workload, last_render, next_render=next_render, values=plan.values
        ):
            return ()
        if last_render is None or last_render.undo_text in ("", plan.undo_text):
            operations = fast.operations_for(workload, next_render=next_render, values=plan.values)
            if operations is not None:
                return operations
    if (problem := shape_problem(workload)) is not None:
        raise RenderError("entries", f"the workload is not valid: {problem}")
    rendered = render_with(
        plan.full, workload, last_render=last_render, creating=creating, keeps_template=keeps_template
    )
    return diff(workload, rendered)


def render_with(
    plan: Plan, workload: JSONObject, *, last_render: LastRender | None, creating: bool, keeps_template: bool = False
) -> JSONObject:
    """Return ``workload`` rendered by ``plan``.

    Args:
        plan: The plan of the workload's pool.
        workload: The requested object; never changed.
        last_render: The annotations of the last render, None if the workload was never rendered.
        creating: Whether the workload is new, so that the fields of `CREATE_ONLY` can be set.
        keeps_template: See `SelectedPlan`.

    Raises:
        RenderError: An entry adds a container whose name another webhook or person has taken.
    """
    variant = plan.create if creating else plan.update
    if keeps_template:
        return _render_keeping_template(plan, workload, last_render)
    unrendered, undo, last_target = _retract_last(workload, plan, variant, last_render)
    bare = _lay_template(unrendered, plan, variant)
    if not creating and claims_replicas(undo) and not claims_replicas(plan.undo) and not plan.leaves_replicas:
        bare = restore_replicas(bare, plan.template_replicas)
    if not plan.steps:
        return set_last_render(settle(workload, unrendered, bare, target=None), NEVER_RENDERED)
    if (name := foreign_container(variant.delta, bare)) is not None:
        raise _make_name_conflict(name, plan)
    rendered = apply_delta(bare, variant.delta)
    # This template may be older than the one of the owner's controller, and restore members that the owner dropped. So
    # the undo of an update removes these, too; if the next template names them, it restores them.
    to_restore = bare if creating else unrendered
    if not creating and "[]" in as_annotation(undo):
        to_restore = retract(workload, remove_replicas(undo), WORKLOAD, rendered=last_target, empties=False)
    # The first render lays nothing anew, so there are defaults to keep only for members that it removes.
    unsettled = last_render is None and not variant.removes
    kept = rendered if unsettled else settle(workload, unrendered, rendered, target=None)
    settled = kept if last_target is None else settle(workload, unrendered, rendered, target=last_target)
    next_undo = undo_of(to_restore, kept, template_fields=list_template_fields(plan.update.bare), schema=WORKLOAD)
    next_undo = merge_undos(plan.undo, remove_replicas(next_undo), WORKLOAD)
    return set_last_render(settled, LastRender(plan.digest, as_annotation(next_undo), plan.template.tweaks))


def _render_keeping_template(plan: Plan, workload: JSONObject, last_render: LastRender | None) -> JSONObject:
    """Return a rendered workload that keeps its template, although its owner may have another one now.

    The undo of such a render has the values that the entries replaced, because no template restores them. Where an
    earlier render relied on the template, the present one has to do.
    """
    variant = plan.update
    undo = _read_undo(last_render)
    claimed = claims_replicas(undo)
    known = undo["spec"]["replicas"] if claimed else None
    if known is None or plan.leaves_replicas:
        undo = remove_replicas(undo)
    unrendered = retract(workload, undo, WORKLOAD)
    bare = overlay(unrendered, select_restored(plan.update.bare, undo, WORKLOAD), WORKLOAD)
    bare = overlay(bare, restored_values(undo), WORKLOAD)
    if claimed and known is None and not plan.leaves_replicas:
        bare = restore_replicas(bare, plan.template_replicas)
    if not plan.steps:
        return set_last_render(settle(workload, unrendered, bare, target=None), NEVER_RENDERED)
    if (name := foreign_container(variant.delta, bare)) is not None:
        raise _make_name_conflict(name, plan)
    # The order of added elements depends on the template of the owner, so the present order stays.
    kept = settle(workload, bare, apply_delta(bare, variant.delta), target=None, keeps_order=True)
    next_undo = merge_undos(plan.undo, undo_of(bare, kept, template_fields={}, schema=WORKLOAD), WORKLOAD)
    if claims_replicas(plan.undo):
        next_undo = {**next_undo, "spec": {**next_undo["spec"], "replicas": bare["spec"].get("replicas")}}
    return set_last_render(kept, LastRender(plan.digest, as_annotation(next_undo)))


def has_template(plan: Plan, workload: JSONObject, *, last_render: LastRender | None, creating: bool) -> bool:
    """Return whether ``workload`` has all members of its template, so that a render restores none.

    Args:
        plan: As in `render_with`.
        workload: As in `render_with`.
        last_render: As in `render_with`.
        creating: As in `render_with`.
    """
    if shape_problem(workload) is not None:
        return True  # The render reports it.
    variant = plan.create if creating else plan.update
    unrendered = _retract_last(workload, plan, variant, last_render).workload
    return bool(_lay_template(unrendered, plan, variant) == unrendered)


class _Retracted(NamedTuple):
    """A workload without the overrides of its last render."""

    workload: JSONObject
    undo: JSONObject
    """The undo of the last render."""
    last_target: JSONObject | None
    """The rendered template if the last render was by the same plan, else None."""


def _retract_last(workload: JSONObject, plan: Plan, variant: Variant, last_render: LastRender | None) -> _Retracted:
    undo, is_same = _read_undo(last_render), last_render is not None and last_render.digest == plan.digest
    last_target = apply_delta(plan.update.bare, variant.delta) if undo and is_same else None
    return _Retracted(retract(workload, remove_replicas(undo), WORKLOAD, rendered=last_target), undo, last_target)


def _read_undo(last_render: LastRender | None) -> JSONObject:
    """Return the undo of an annotation without the members that no render writes."""
    undo = {} if last_render is None else last_render.undo
    spec, metadata = as_object(undo.get("spec")), as_object(undo.get("metadata"))
    kept = {
        "metadata": {name: metadata[name] for name in ("labels", "annotations") if name in metadata},
        "spec": {name: step for name, step in spec.items() if name not in CREATE_ONLY or name == "replicas"},
    }
    return {name: part for name, part in kept.items() if part}


def _lay_template(workload: JSONObject, plan: Plan, variant: Variant) -> JSONObject:
    """Return ``workload`` with the template laid over it, without overrides; members of other writers stay."""
    template = plan.template if variant.places else plan.template._replace(expressions=())
    return apply_delta(place(overlay(workload, variant.template_fields, WORKLOAD), template), variant.pool_delta)


def _make_name_conflict(name: str, plan: Plan) -> RenderError:
    added = (source for source in plan.sources if source.tokens[:3] == ("spec", "template", "spec"))
    field = next((change.field for change in added if change.tokens[4:] == ((name, 0),)), "entries")
    return RenderError(
        field,
        f"the workload already has a container {name!r} that another webhook or person added; give yours another name",
    )


def foreign_container(delta: ObjectDelta, workload: JSONObject) -> str | None:
    """Return the name of a container that ``delta`` adds although another client has added it before, or None.

    Args:
        delta: The changes of an overrider.
        workload: The workload without the overrider's changes. If the annotation of the last render was lost, a
            container with all requested members counts as added by fleethook.
    """
    pod_spec = _find_member(_find_member(_find_member(delta, "spec"), "template"), "spec")
    if not isinstance(pod_spec, ObjectDelta):
        return None
    for member, change in pod_spec.members:
        if member not in CONTAINER_LISTS or not isinstance(change, ListDelta):
            continue
        present = index_elements(value_at(workload, ("spec", "template", "spec", member)), change.schema) or {}
        for identity, before_at, _, inner in change.elements:
            taken = before_at is None and identity in present
            if taken and isinstance(inner, Assign) and not covers(present[identity], inner.after):
                return str(identity[0])
    return None


def _find_member(change: Change | None, name: str) -> Change | None:
    return (
        next((inner for one, inner in change.members if one == name), None) if isinstance(change, ObjectDelta) else None
    )
