"""Warns at admission about edits of overriders that replace the pods of many workloads.

A replica that answers reviews stores no workloads (docs/decisions/0005-controller.md), so the warning takes each
workload to be as its overrider rendered it. `fleethook.engines.overrider.rollout.diff_prediction_and_totals` reads the
stored ones.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from fleethook.cluster.store import StoreView
from fleethook.engines.overrider.entries.steps_and_limits import RenderError
from fleethook.engines.overrider.plan.plan_cache import PoolPlan, SubjectPlans
from fleethook.engines.overrider.rollout.diff_prediction_and_totals import Totals, sum_effects
from fleethook.engines.overrider.rollout.workload_effect_and_openyurt_writes import Effect, compare
from fleethook.engines.overrider.rules.missing_pools import known_pools
from fleethook.engines.overrider.rules.subject_template_rules import MAX_TEMPLATE_VALUES
from fleethook.engines.overrider.subject.bound_overriders import effective_overrider, find_binding, overriders_of
from fleethook.engines.overrider.subject.subject_and_pools import Subject, find_subject
from fleethook.engines.overrider.template.pool_template_and_placement import CREATE_ONLY, SubjectError
from fleethook.engines.overrider.template.template_builder import templates_of, workload_kinds
from fleethook.model.admission import AdmissionRequest
from fleethook.model.formats.text import list_names
from fleethook.model.json import JSON, JSONObject, as_object, count_values
from fleethook.model.kcp import cluster_of

WARNING_MINIMUM: Final = 10
"""Edits that roll fewer workloads get no warning."""
# They delete the dependents of a deleted namespace or owner, and read no warnings.
_COLLECTORS: Final = frozenset(
    f"system:serviceaccount:kube-system:{name}" for name in ("namespace-controller", "generic-garbage-collector")
)
# Comparing a value of a template takes 0.4 µs, and compiling it ten times as long. The limit is enough for 5,000 node
# pools with a template of 400 values, and for 500 plans of such a template.
_COMPARED: Final = 2_500_000
_COMPILATION: Final = 10
_MAX_NAMED: Final = 5
_ROLLED: Final = Effect("rolls")


def find_rollout(request: AdmissionRequest, *, store: StoreView, share: float) -> Callable[[], list[str]]:
    """Return the function that predicts the rollout of an edit of an overrider, and returns the warning about it.

    It returns an empty list if there is nothing to warn about. It takes long, and reads nothing that changes.

    Args:
        request: The creation, update or deletion of an overrider. Its objects have metadata.
        store: The other overriders, the subject and the NodePools.
        share: The share of the subject's workloads above which an edit is reported. 1 reports none.
    """
    before: JSON = request.old_object if request.operation != "CREATE" else None
    after: JSON = request.object if request.operation != "DELETE" else None
    changed: JSON = before if after is None else after
    if share >= 1 or (request.operation == "DELETE" and as_object(request.user).get("username") in _COLLECTORS):
        return list
    namespace = request.namespace or str(changed["metadata"].get("namespace") or "")
    edit = read_edit(before, after, namespace=namespace, store=store)
    if edit is None or edit.workloads < WARNING_MINIMUM:
        return list
    return partial(_warn_of_rollout, edit, share)


def _warn_of_rollout(edit: "Edit", share: float) -> list[str]:
    effects = predict_edit(edit)
    if effects.rolls < WARNING_MINIMUM or effects.share <= share:
        return []
    metadata = edit.subject.document["metadata"]
    name = f"{metadata.get('namespace') or 'default'}/{metadata['name']}"
    return [f"{edit.subject.group_kind.kind} {name}: this edit {effects.text}"]


class Edit(NamedTuple):
    """An edit of the effective overrider of a subject, with the objects that the rendering depends on."""

    subject: Subject
    before: JSONObject | None
    after: JSONObject | None
    pools: Sequence[str]
    node_pools: Mapping[str, JSONObject | None]

    @property
    def workloads(self) -> int:
        """The number of workloads of the subject."""
        return len(self.pools) * len(workload_kinds(self.subject.document))


def read_edit(before: JSONObject | None, after: JSONObject | None, *, namespace: str, store: StoreView) -> Edit | None:
    """Return an edit with the objects that it depends on, None if it affects no workload.

    Args:
        before: The overrider before the edit, None if it is created.
        after: The overrider after the edit, None if it is deleted.
        namespace: Its namespace.
        store: The other overriders, the subject and the NodePools.
    """
    document = after if after is not None else before
    binding = None if document is None else find_binding(cluster_of(document), document, namespace=namespace)
    if document is None or binding is None:
        return None
    subject = find_subject(document, cluster=binding.cluster, namespace=namespace, store=store)
    if subject is None or subject.document["metadata"].get("deletionTimestamp"):
        return None
    own_names = {one["metadata"].get("name") for one in (before, after) if one is not None}
    others = [one for one in overriders_of(store, binding) if one["metadata"]["name"] not in own_names]
    effective = [effective_overrider([*others, *([] if one is None else [one])]) for one in (before, after)]
    pools = known_pools(subject, store, overriders=effective)
    return Edit(subject, effective[0], effective[1], pools.names, pools.node_pools)


class EditEffects(NamedTuple):
    """The predicted effect of an edit."""

    totals: Totals
    rolling: tuple[str, ...]
    """The node pools whose workloads roll."""
    uncompared: int
    """The number of workloads that count as rolling because comparing them exceeds the limit."""

    @property
    def rolls(self) -> int:
        """The number of workloads that roll."""
        return self.totals.effects.get("rolls", 0)

    @property
    def share(self) -> float:
        """The share of the subject's workloads that roll."""
        return self.rolls / self.totals.workloads if self.totals.workloads else 0.0

    @property
    def text(self) -> str:
        """The numbers, with some of the node pools."""
        shown = list_names(self.rolling, most=_MAX_NAMED)
        bound = f", of which {self.uncompared} were not compared and may not roll" if self.uncompared else ""
        return f"{self.totals.headline} (node pool{'' if len(self.rolling) == 1 else 's'} {shown}{bound})"


def predict_edit(edit: Edit) -> EditEffects:
    """Return the effect of an edit on the workloads of all node pools."""
    group_kind, document, _ = edit.subject
    before = SubjectPlans(group_kind, document, edit.before)
    after = SubjectPlans(group_kind, document, edit.after)
    size = count_values(templates_of(document), limit=MAX_TEMPLATE_VALUES)
    effects: list[Effect] = []
    rolling: list[str] = []
    uncompared, spent = 0, 0
    for kind, pool in _list_workloads(edit):
        if size > MAX_TEMPLATE_VALUES or spent > _COMPARED:
            uncompared += 1
            effect: Effect | None = _ROLLED
        else:
            compiled = before.compiled + after.compiled
            effect = _predict_workload(before, after, kind=kind, pool=pool, node_pool=edit.node_pools.get(pool))
            spent += size * (1 + _COMPILATION * (before.compiled + after.compiled - compiled))
        if effect is not None:
            effects.append(effect)
            rolling += [pool] if effect.name == "rolls" else []
    return EditEffects(sum_effects(effects), tuple(dict.fromkeys(rolling)), uncompared)


def _list_workloads(edit: Edit) -> Iterator[tuple[str, str]]:
    kinds = workload_kinds(edit.subject.document)
    return ((kind, pool) for pool in edit.pools for kind in kinds)


def _predict_workload(
    before: SubjectPlans, after: SubjectPlans, *, kind: str, pool: str, node_pool: JSONObject | None
) -> Effect | None:
    """Return the effect on one workload, None if it cannot be rendered after the edit: the validation reports it."""
    try:
        requested = after.plan(kind, pool, node_pool)
    except (SubjectError, RenderError):
        return None
    try:
        stored = before.plan(kind, pool, node_pool)
    except (SubjectError, RenderError):
        # The workload is as an earlier overrider rendered it.
        return _ROLLED if requested.applies else Effect("unchanged")
    if stored.digest == requested.digest:
        return Effect("unchanged")
    effect = compare(kind, stored.rendered, _update(stored, requested))
    # The hash of the rendering, an annotation, differs in any case.
    return effect._replace(name="metadata") if effect.name == "unchanged" else effect


def _update(stored: PoolPlan, requested: PoolPlan) -> JSONObject:
    """Return the workload of a plan as an update of the workload of another plan results in it."""
    before, after = (plan.rendered["spec"] for plan in (stored, requested))
    # If entries set the replicas neither before nor after the edit, the edit has no effect on them.
    is_left = requested.leaves_replicas or (
        stored.leaves_replicas and "replicas" not in requested.shared.plan.undo.get("spec", {})
    )
    fixed = CREATE_ONLY if is_left else CREATE_ONLY - {"replicas"}
    kept = {name: before[name] for name in fixed if name in before}
    return {**requested.rendered, "spec": {**{n: v for n, v in after.items() if n not in fixed}, **kept}}
