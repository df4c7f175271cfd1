"""Renders a workload: selects the plan of its pool, and computes the JSON patch."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from fleethook.cluster.store import StoreView
from fleethook.engines.overrider.entries.entry_steps import RenderError
from fleethook.engines.overrider.plan.plan import Plan, Variant, list_template_fields
from fleethook.engines.overrider.plan.plan_cache import LongCompilation, PlanCache
from fleethook.engines.overrider.plan.shared_plan import PoolPlan
from fleethook.engines.overrider.render.delta import apply_delta, foreign_container
from fleethook.engines.overrider.render.overlay import overlay, settle
from fleethook.engines.overrider.render.undo import (
    LastRender,
    as_annotation,
    merge_undos,
    restored_values,
    retract,
    select_restored,
    set_last_render,
    undo_of,
)
from fleethook.engines.overrider.subject.owner_index import Owner, overriders_of
from fleethook.engines.overrider.subject.subject_members import (
    decode_tweaks,
    has_no_daemon_controller,
    list_selections,
)
from fleethook.engines.overrider.template.node_affinity import CREATE_ONLY, SubjectError, place, shape_problem
from fleethook.model.json import JSON, JSONObject, as_object
from fleethook.model.kcp import cluster_of
from fleethook.model.merge_keys import WORKLOAD
from fleethook.model.openyurt import POOL_NAME_LABEL, YURT_APP_DAEMON
from fleethook.patch import diff

NEVER_RENDERED: Final = LastRender("", "")


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
        last_render: The annotations of its last render (`remembered`), None if it was never rendered.
        store: Overriders, subjects and NodePools.
        plans: The plans compiled from them.

    Raises:
        SubjectError: The owner or its template is missing or broken.
        RenderError: The overrider does not fit the workload; the text names both and the pool.
    """
    while isinstance(
        found := select_plan(workload, target, last_render=last_render, store=store, plans=plans), LongCompilation
    ):
        found.run()
    return NOTHING_TO_RENDER if found is None else render_selected(found, workload, target, last_render=last_render)


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
    overriders = overriders_of(
        store, cluster=cluster, namespace=namespace, group_kind=owner.group_kind, name=owner.name
    )
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
    kept = "" if last_render is None else last_render.tweaks
    try:
        plan = plans.find(
            owner.group_kind, subject, overrider, kind=kind, pool=pool, cluster=cluster, store=store, kept=kept
        )
    except RenderError as error:
        raise _add_location(error, overrider, namespace=namespace, pool=pool) from error
    if isinstance(plan, LongCompilation) or (not plan.applies and last_render is None):
        return plan if isinstance(plan, LongCompilation) else None
    if last_render is None and not target.creating and plan.shared.plan.template.tweaks:
        find = partial(
            plans.find, owner.group_kind, subject, overrider, kind=kind, pool=pool, cluster=cluster, store=store
        )
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
            other = find_plan(kept=text)
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
    return Rendering(operations, _warn_about_ignored(overriders) + plan.warnings, plan, name, keeps)


def _check_owner(subject: JSONObject, owner: Owner) -> None:
    if owner.api_version != subject["apiVersion"]:
        raise SubjectError(other_version(owner, subject))
    uid = subject["metadata"].get("uid")
    if uid and owner.uid and uid != owner.uid:
        raise SubjectError(
            f"its owner has uid {owner.uid}, but {owner.group_kind.kind} {owner.name} is another object now ({uid})"
        )


def other_version(owner: Owner, subject: JSONObject) -> str:
    """Return the message that an owner reference has another API version than the stored subject."""
    name = f"{owner.group_kind.kind} {subject['metadata'].get('namespace') or 'default'}/{owner.name}"
    return (
        f"its owner reference names {owner.api_version}, but {name} is read as {subject['apiVersion']}: after "
        "an upgrade, OpenYurt creates new workloads and abandons this one"
    )


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
    if not creating and _claims_replicas(undo) and not _claims_replicas(plan.undo) and not plan.leaves_replicas:
        bare = _restore_replicas(bare, plan)
    if not plan.steps:
        return set_last_render(settle(workload, unrendered, bare, target=None), NEVER_RENDERED)
    if (name := foreign_container(variant.delta, bare)) is not None:
        raise _make_name_conflict(name, plan)
    rendered = apply_delta(bare, variant.delta)
    # This template may be older than the one of the owner's controller, and restore members that the owner dropped. So
    # the undo of an update removes these, too; if the next template names them, it restores them.
    to_restore = bare if creating else unrendered
    if not creating and "[]" in as_annotation(undo):
        to_restore = retract(workload, _remove_replicas(undo), WORKLOAD, rendered=last_target, empties=False)
    # The first render lays nothing anew, so there are defaults to keep only for members that it removes.
    unsettled = last_render is None and not variant.removes
    kept = rendered if unsettled else settle(workload, unrendered, rendered, target=None)
    settled = kept if last_target is None else settle(workload, unrendered, rendered, target=last_target)
    next_undo = undo_of(to_restore, kept, template_fields=list_template_fields(plan.update.bare), schema=WORKLOAD)
    next_undo = merge_undos(plan.undo, _remove_replicas(next_undo), WORKLOAD)
    return set_last_render(settled, LastRender(plan.digest, as_annotation(next_undo), plan.template.tweaks))


def _render_keeping_template(plan: Plan, workload: JSONObject, last_render: LastRender | None) -> JSONObject:
    """Return a rendered workload that keeps its template, although its owner may have another one now.

    The undo of such a render has the values that the entries replaced, because no template restores them. Where an
    earlier render relied on the template, the present one has to do.
    """
    variant = plan.update
    undo = _read_undo(last_render)
    claimed = _claims_replicas(undo)
    known = undo["spec"]["replicas"] if claimed else None
    if known is None or plan.leaves_replicas:
        undo = _remove_replicas(undo)
    unrendered = retract(workload, undo, WORKLOAD)
    bare = overlay(unrendered, select_restored(plan.update.bare, undo, WORKLOAD), WORKLOAD)
    bare = overlay(bare, restored_values(undo), WORKLOAD)
    if claimed and known is None and not plan.leaves_replicas:
        bare = _restore_replicas(bare, plan)
    if not plan.steps:
        return set_last_render(settle(workload, unrendered, bare, target=None), NEVER_RENDERED)
    if (name := foreign_container(variant.delta, bare)) is not None:
        raise _make_name_conflict(name, plan)
    # The order of added elements depends on the template of the owner, so the present order stays.
    kept = settle(workload, bare, apply_delta(bare, variant.delta), target=None, keeps_order=True)
    next_undo = merge_undos(plan.undo, undo_of(bare, kept, template_fields={}, schema=WORKLOAD), WORKLOAD)
    if _claims_replicas(plan.undo):
        next_undo = {**next_undo, "spec": {**next_undo["spec"], "replicas": bare["spec"].get("replicas")}}
    return set_last_render(kept, LastRender(plan.digest, as_annotation(next_undo)))


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
    return _Retracted(retract(workload, _remove_replicas(undo), WORKLOAD, rendered=last_target), undo, last_target)


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
    added = (one for one in plan.sources if one.tokens[:3] == ("spec", "template", "spec"))
    field = next((one.field for one in added if one.tokens[4:] == ((name, 0),)), "entries")
    return RenderError(
        field,
        f"the workload already has a container {name!r} that another webhook or person added; give yours another name",
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
        new = fast.operations_for_new(workload, next_render=plan.last_render, values=plan.values)
        if new is not None:
            return new
    if fast is not None and not creating:
        wanted = plan.last_render
        if last_render is not None and fast.is_settled(workload, last_render, next_render=wanted, values=plan.values):
            return ()
        if last_render is None or last_render.undo_text in ("", plan.undo_text):
            operations = fast.operations_for(workload, next_render=wanted, values=plan.values)
            if operations is not None:
                return operations
    if (problem := shape_problem(workload)) is not None:
        raise RenderError("entries", f"the workload is not valid: {problem}")
    full_plan = plan.full
    rendered = render_with(
        full_plan, workload, last_render=last_render, creating=creating, keeps_template=keeps_template
    )
    return diff(workload, rendered)


def _claims_replicas(undo: JSONObject) -> bool:
    return "replicas" in as_object(undo.get("spec"))


def _restore_replicas(workload: JSONObject, plan: Plan) -> JSONObject:
    """Restore the template's replica count after an override that had claimed it."""
    replicas = plan.create.bare["spec"].get("replicas", plan.template.default_replicas)
    if replicas is None or workload["spec"].get("replicas") == replicas:
        return workload
    return {**workload, "spec": {**workload["spec"], "replicas": replicas}}


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
    numbers = map(plan.values.fill_number, template_replicas(plan.shared.plan))
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


def template_replicas(plan: Plan) -> tuple[int, ...]:
    """Return the numbers of replicas that OpenYurt's controllers may write, with marks."""
    number = plan.create.bare["spec"].get("replicas", plan.template.default_replicas)
    # Without a number, OpenYurt 1.4 writes 0 into an existing workload, and kube-apiserver sets 1 in a new one.
    return (0, 1) if number is None else (number,)


def _remove_replicas(undo: JSONObject) -> JSONObject:
    """Return ``undo`` without the replica count, which always reverts to the template's."""
    spec = as_object(undo.get("spec"))
    if "replicas" not in spec:
        return undo
    kept = {name: step for name, step in spec.items() if name != "replicas"}
    return {**{name: step for name, step in undo.items() if name != "spec"}, **({"spec": kept} if kept else {})}


def _add_location(error: RenderError, overrider: JSONObject | None, *, namespace: str, pool: str) -> RenderError:
    name = overrider["metadata"]["name"] if overrider else "(none)"
    return RenderError(
        f"YurtAppOverrider {namespace}/{name} cannot be rendered for node pool {pool}: {error.field}", error.reason
    )


def _warn_about_ignored(overriders: tuple[JSONObject, ...]) -> tuple[str, ...]:
    if len(overriders) < 2:
        return ()
    names = [overrider["metadata"]["name"] for overrider in overriders]
    return (f"YurtAppOverrider {names[0]} is in effect; {', '.join(names[1:])} for the same subject is ignored",)
