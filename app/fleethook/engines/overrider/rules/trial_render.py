"""Renders an overrider for every pool that it affects: the findings that need its subject."""

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

from fleethook.engines.overrider.entries.steps_and_limits import (
    REPLICAS,
    Remark,
    RenderError,
    Step,
    warn_about_unknown_containers,
)
from fleethook.engines.overrider.plan.plan_and_digest import Plan
from fleethook.engines.overrider.plan.plan_cache import PoolPlan, SubjectPlans
from fleethook.engines.overrider.plan.plan_compilation_and_sharing import SharedPlan
from fleethook.engines.overrider.rules.subject_template_rules import MAX_TEMPLATE_VALUES
from fleethook.engines.overrider.rules.tweak_and_topology_rules import compare_with_topology
from fleethook.engines.overrider.subject.subject_and_pools import Subject
from fleethook.engines.overrider.template.pool_template_and_placement import CREATE_ONLY, SubjectError
from fleethook.engines.overrider.template.template_builder import templates_of, workload_kinds
from fleethook.model.admission import StatusCause
from fleethook.model.formats.text import list_names
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSON, JSONObject, as_object, count_values
from fleethook.model.openyurt import YURT_APP_SET
from fleethook.workload_schema.pool_value_marks import REPLICAS_MARK


class DryRun(NamedTuple):
    """The errors and warnings of a dry run."""

    causes: list[StatusCause]
    warnings: list[Remark]


_MAX_NAMED: Final = 5
# Limits the memory of a check if every pool of a subject needs a plan of its own: 200 plans.
_MAX_WEIGHT: Final = 10_000
# Values of templates that one check renders, some 1.5 seconds: enough for 1,000 node pools with a plan each of a
# template of 400 values. The webhook has five seconds.
_MAX_RENDERED: Final = 700_000
# A plan takes as long as so many values of a template, beside those of its own template.
_PLAN_VALUES: Final = 300
# Members of the spec that list node pools. Rendering a pool reads only the element of that pool.
_POOL_MEMBERS: Final = ("topology", "pools")
MAX_SHARED_VALUES: Final = 200_000
"""Values of the spec of a subject without its list of node pools: 5,000 tweaks of a YurtAppSet v1beta1 have 100,000."""
_TOO_LARGE: Final = Remark(
    "not-checked",
    f"not checked: the templates have more than {MAX_TEMPLATE_VALUES} values, or too many over all node pools with "
    f"entries of their own, or the spec has more than {MAX_SHARED_VALUES}",
)


class _Collected(NamedTuple):
    failures: dict[tuple[str, str], list[str]]
    """Names of pools by field and reason."""
    remarks: dict[Remark, list[str]]
    """Names of pools by remark."""


def dry_run_overrider(
    overrider: JSONObject, subject: Subject, pools: Sequence[str], *, node_pools: Mapping[str, JSONObject | None]
) -> DryRun:
    """Render ``overrider`` for each pool of its subject, and return failures and steps without effect.

    An entry that fails for the same reason in many pools is one finding that names the pools. Pools that differ only by
    name and replicas share a plan. The function reads nothing that can change, so it may run in a thread.

    Args:
        overrider: An overrider that `check_overrider` accepts.
        subject: Its subject.
        pools: The node pools of the subject.
        node_pools: The NodePools whose labels select tweaks of a YurtAppSet v1beta1. Taints do not matter to entries.
    """
    plans = SubjectPlans(subject.group_kind, subject.document, overrider)
    found = _Collected({}, {})
    known: _Known = WeakKeyDictionary()
    kinds = workload_kinds(subject.document)
    size, is_too_large = _count_templates(subject.document)
    for pool in pools:
        for kind in kinds:
            if is_too_large or plans.compiled * (size + _PLAN_VALUES) > _MAX_RENDERED:
                found.remarks.setdefault(_TOO_LARGE, []).append(pool)
                continue
            try:
                plan = plans.plan(kind, pool, node_pools.get(pool))
            except RenderError as error:
                found.failures.setdefault((error.field, error.reason), []).append(pool)
            except SubjectError as error:
                found.remarks.setdefault(Remark("not-checked", f"not checked: {error}"), []).append(pool)
            else:
                for remark in _cache_remarks(plan, subject.group_kind, kind=kind, known=known):
                    found.remarks.setdefault(remark._replace(text=plan.values.fill_text(remark.text)), []).append(pool)
            if plans.weight > _MAX_WEIGHT:
                plans.clear()
    causes = [
        StatusCause(field, f"{_join_pools(where)}: {reason}", "FieldValueInvalid")
        for (field, reason), where in found.failures.items()
    ]
    remarks = [one._replace(text=f"{one.text} ({_join_pools(where)})") for one, where in found.remarks.items()]
    return DryRun(causes, remarks)


def _count_templates(subject: JSONObject) -> tuple[int, bool]:
    """Return the number of values in a subject's templates, and whether templates or spec exceed their limit."""
    size = count_values(templates_of(subject), limit=MAX_TEMPLATE_VALUES)
    shared = {name: value for name, value in as_object(subject.get("spec")).items() if name not in _POOL_MEMBERS}
    return size, size > MAX_TEMPLATE_VALUES or count_values(shared, limit=MAX_SHARED_VALUES) > MAX_SHARED_VALUES


_Known = MutableMapping[SharedPlan, dict[int | None, list[Remark]]]
"""Remarks by plan, and by the replicas of the pool."""


def _cache_remarks(plan: PoolPlan, group_kind: GroupKind, *, kind: str, known: _Known) -> list[Remark]:
    by_replicas = known.setdefault(plan.shared, {})
    if plan.values.replicas not in by_replicas:
        by_replicas[plan.values.replicas] = list(_find_remarks(plan, group_kind, kind=kind))
    return by_replicas[plan.values.replicas]


def _join_pools(names: Sequence[str]) -> str:
    return f"node pool{'' if len(names) == 1 else 's'} {list_names(names, most=_MAX_NAMED)}"


def _find_remarks(plan: PoolPlan, group_kind: GroupKind, *, kind: str) -> Iterator[Remark]:
    """Yield the remarks about a plan, with the mark in place of the pool's name."""
    shared = plan.shared.plan
    unknown = frozenset(warn_about_unknown_containers(shared.create.bare, shared.steps))
    yield from (Remark("unknown-container" if text in unknown else "dropped", text) for text in shared.warnings)
    before = shared.create.bare["spec"].get("replicas")
    topology = plan.values.replicas if before == REPLICAS_MARK else before
    counting = [step for step in shared.steps if step.path == REPLICAS]
    yield from _find_idle_steps(plan, counting, topology)
    # Only v1alpha1 has a topology, and only the controller of OpenYurt 1.4 compares its replicas.
    if counting and group_kind == YURT_APP_SET and topology is not None and not shared.of_v1beta1:
        yield from compare_with_topology(plan, topology, kind=kind)
    yield from (Remark("creation-only", text) for text in _find_immutable_changes(shared))


def _find_idle_steps(plan: PoolPlan, counting: Sequence[Step], topology: JSON) -> Iterator[Remark]:
    """Yield remarks about steps that change nothing; steps of replicas depend on the pool's own count."""
    known = {step.no_effect_remark: step for step in counting if step.no_effect}
    yield from (one for one in plan.shared.plan.remarks if one not in known)
    counted: JSONObject = {"spec": {} if topology is None else {"replicas": topology}}
    for remark, step in known.items():
        after: JSONObject = plan.values.fill(step.run(counted))
        if after == counted:
            yield remark._replace(text=plan.values.fill_numbers(remark.text))
        counted = after


def _find_immutable_changes(plan: Plan) -> Iterator[str]:
    for name in sorted(CREATE_ONLY - {"replicas", "selector"}):
        if plan.create.bare["spec"].get(name) != plan.create.rendered["spec"].get(name):
            source = plan.source_of(("spec", name))
            yield f"{source}: /spec/{name} can only be set at creation; existing workloads keep their value"
