"""Renders a workload: selects the plan of its pool, and takes the JSON patch of this plan."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

from fleethook.cluster.store import StoreView
from fleethook.engines.overrider.entries.steps_and_limits import RenderError
from fleethook.engines.overrider.plan.plan_cache import PlanCache, PoolPlan
from fleethook.engines.overrider.plan.plan_compilation_and_sharing import LongCompilation
from fleethook.engines.overrider.render.undo_and_annotations import LastRender
from fleethook.engines.overrider.render.workload_patch_and_name_conflicts import compute_patch, has_template
from fleethook.engines.overrider.subject.owner_and_overrider import (
    Binding,
    Owner,
    describe_other_version,
    overriders_of,
    warn_about_ignored,
)
from fleethook.engines.overrider.subject.subject_and_pools import (
    decode_tweaks,
    has_no_daemon_controller,
    list_selections,
)
from fleethook.engines.overrider.template.pool_template_and_placement import SubjectError, shape_problem
from fleethook.model.json import JSONObject, as_object
from fleethook.model.kcp import cluster_of
from fleethook.model.openyurt import POOL_NAME_LABEL, YURT_APP_DAEMON


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
    kept_tweaks = "" if last_render is None else last_render.tweaks
    try:
        plan = plans.find(
            owner.group_kind,
            subject,
            overrider,
            kind=kind,
            pool=pool,
            cluster=cluster,
            store=store,
            kept_tweaks=kept_tweaks,
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
