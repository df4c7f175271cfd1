"""Rendering an overrider for every pool it touches, before it is admitted."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from app.model.admission import StatusCause
from app.model.gvk import GroupKind
from app.model.json import JSON, JSONObject
from app.model.openyurt import GROUP, NODE_POOL, YURT_APP_SET
from app.overrider.binding import subject_of
from app.overrider.plan import Plan
from app.overrider.plans import PoolPlan, SubjectPlans
from app.overrider.pool_mark import POOL_MARK, REPLICAS_MARK
from app.overrider.pool_template import CREATE_ONLY, SubjectError
from app.overrider.pools import pools_of_subject
from app.overrider.steps import REPLICAS, RenderError, Step
from app.overrider.subject_parts import is_v1beta1, workload_kinds
from app.store import StoreView


class Findings(NamedTuple):
    """What a rehearsal found."""

    causes: list[StatusCause]
    warnings: list[str]


class Subject(NamedTuple):
    """The subject of an overrider, as stored."""

    group_kind: GroupKind
    document: JSONObject
    cluster: str


def find_subject(overrider: JSONObject, *, cluster: str, namespace: str, store: StoreView) -> Subject | None:
    """Return the subject that ``overrider`` is bound to, or None if it is not in the store."""
    kind, name = subject_of(overrider) or ("", "")
    group_kind = GroupKind(GROUP, kind)
    document = store.get(cluster, group_kind, namespace, name)
    return None if document is None else Subject(group_kind, document, cluster)


def rehearse(overrider: JSONObject, *, cluster: str, namespace: str, store: StoreView) -> Findings:
    """Render ``overrider`` for each pool of its subject, and say what fails and what would change nothing.

    The same entry failing alike in many pools is one finding that names the pools. Pools that differ by name and
    replicas share a plan, so that a subject with thousands of them does not hold the server for seconds.
    """
    subject = find_subject(overrider, cluster=cluster, namespace=namespace, store=store)
    if subject is None:
        kind, name = subject_of(overrider) or ("", "")
        return Findings([], [f"{kind} {namespace}/{name} is not known yet, so nothing could be rendered to check this"])
    plans = SubjectPlans(subject.group_kind, subject.document, overrider)
    pools = pools_of_subject(subject.group_kind, subject.document, cluster=cluster, store=store)
    node_pools = _node_pools(subject, pools, store)
    failures: dict[tuple[str, str], list[str]] = {}
    remarks: dict[str, list[str]] = {}
    known: dict[tuple[int, int | None], list[str]] = {}
    for pool in pools:
        for kind in workload_kinds(subject.document):
            try:
                plan = plans.plan(kind, pool, node_pools.get(pool))
            except RenderError as error:
                failures.setdefault((error.field, error.reason), []).append(pool)
                continue
            except SubjectError as error:
                remarks.setdefault(f"not checked: {error}", []).append(pool)
                continue
            group = (id(plan.shared), plan.replicas)
            if group not in known:
                known[group] = list(_remarks(plan, subject.group_kind, kind=kind))
            for remark in known[group]:
                remarks.setdefault(remark.replace(POOL_MARK, pool), []).append(pool)
    causes = [
        StatusCause(field, f"{_pools(where)}: {reason}", "FieldValueInvalid")
        for (field, reason), where in failures.items()
    ]
    return Findings(causes, [f"{text} ({_pools(where)})" for text, where in remarks.items()])


def _node_pools(subject: Subject, pools: Sequence[str], store: StoreView) -> dict[str, JSONObject | None]:
    """Return the NodePools by whose labels a YurtAppSet v1beta1 chooses tweaks; taints are no question of an entry."""
    if not is_v1beta1(subject.document):
        return {}
    return {pool: store.get(subject.cluster, NODE_POOL, "", pool) for pool in pools}


def _pools(names: Sequence[str]) -> str:
    shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    return f"node pool {shown}" if len(names) == 1 else f"node pools {shown}"


def _remarks(plan: PoolPlan, group_kind: GroupKind, *, kind: str) -> Iterator[str]:
    """Yield what to say about a plan; a text may have the mark in place of the pool's name."""
    shared = plan.shared.plan
    yield from shared.warnings
    before = shared.bare["spec"].get("replicas")
    topology = plan.replicas if before == REPLICAS_MARK else before
    counting = [step for step in shared.steps if step.path == REPLICAS]
    yield from _idle(shared, counting, topology)
    # Only v1alpha1 has a topology, and only OpenYurt 1.4 compares replicas.
    if counting and group_kind == YURT_APP_SET and topology is not None and not shared.of_v1beta1:
        yield from _unlike_topology(shared, topology, kind=kind)
    yield from _only_at_creation(shared)


def _idle(shared: Plan, counting: Sequence[Step], topology: JSON) -> Iterator[str]:
    """Yield what to say about steps that change nothing; those of replicas depend on the pool's own."""
    texts = {f"{step.field}: {step.idle}": step for step in counting}
    yield from (text for text in shared.idle if text not in texts)
    counted: JSONObject = {"spec": {} if topology is None else {"replicas": topology}}
    for text, step in texts.items():
        after = step.run(counted)
        if after == counted:
            yield text
        counted = after


def _unlike_topology(shared: Plan, topology: int, *, kind: str) -> Iterator[str]:
    claimed = shared.rendered["spec"].get("replicas")
    if claimed != topology:
        number = "no" if claimed is None else claimed
        yield (
            f"{shared.source_of(('spec', 'replicas'))}: {number} replicas, but spec.topology.pools has {topology}: "
            f"OpenYurt 1.4 then writes the {kind} at each reconcile, which undoes restarts, scales and pauses in that "
            "pool; set the pool's replicas in the topology as well"
        )


def _only_at_creation(plan: Plan) -> Iterator[str]:
    for name in sorted(CREATE_ONLY - {"replicas", "selector"}):
        if plan.bare["spec"].get(name) != plan.rendered["spec"].get(name):
            source = plan.source_of(("spec", name))
            yield f"{source}: /spec/{name} can only be set when a workload is created; those that exist keep theirs"
