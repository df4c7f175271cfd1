"""Rendering an overrider for every pool it touches, before it is admitted."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from app.model.admission import StatusCause
from app.model.gvk import GroupKind
from app.model.json import JSONObject, as_object
from app.model.openyurt import GROUP, YURT_APP_SET
from app.overrider.binding import subject_of
from app.overrider.plan import Plan, compile_plan
from app.overrider.pools import pools_of_subject
from app.overrider.steps import RenderError
from app.overrider.template import CREATE_ONLY, SubjectError
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


def workload_kinds(subject: JSONObject) -> list[str]:
    """Return which workload kinds the subject has a template for."""
    templates = as_object(as_object(subject.get("spec")).get("workloadTemplate"))
    kinds = {"Deployment": "deploymentTemplate", "StatefulSet": "statefulSetTemplate"}
    return [kind for kind, member in kinds.items() if templates.get(member)]


def rehearse(overrider: JSONObject, *, cluster: str, namespace: str, store: StoreView) -> Findings:
    """Render ``overrider`` for each pool of its subject, and say what fails and what would change nothing.

    The same entry failing alike in many pools is one finding that names the pools.
    """
    subject = find_subject(overrider, cluster=cluster, namespace=namespace, store=store)
    if subject is None:
        kind, name = subject_of(overrider) or ("", "")
        return Findings([], [f"{kind} {namespace}/{name} is not known yet, so nothing could be rendered to check this"])
    pools = pools_of_subject(subject.group_kind, subject.document, cluster=cluster, store=store)
    failures: dict[tuple[str, str], list[str]] = {}
    remarks: dict[str, list[str]] = {}
    for pool in pools:
        for kind in workload_kinds(subject.document):
            _rehearse_pool(overrider, subject, kind=kind, pool=pool, failures=failures, remarks=remarks)
    causes = [
        StatusCause(field, f"{_pools(where)}: {reason}", "FieldValueInvalid")
        for (field, reason), where in failures.items()
    ]
    warnings = [f"{text} ({_pools(where)})" for text, where in remarks.items()]
    return Findings(causes, warnings)


def _pools(names: Sequence[str]) -> str:
    shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    return f"node pool {shown}" if len(names) == 1 else f"node pools {shown}"


def _rehearse_pool(
    overrider: JSONObject,
    subject: Subject,
    *,
    kind: str,
    pool: str,
    failures: dict[tuple[str, str], list[str]],
    remarks: dict[str, list[str]],
) -> None:
    try:
        for remark in _remarks(overrider, subject, kind=kind, pool=pool):
            remarks.setdefault(remark, []).append(pool)
    except RenderError as error:
        failures.setdefault((error.field, error.reason), []).append(pool)
    except SubjectError as error:
        remarks.setdefault(f"not checked: {error}", []).append(pool)


def _remarks(overrider: JSONObject, subject: Subject, *, kind: str, pool: str) -> Iterator[str]:
    plan = compile_plan(subject.group_kind, subject.document, overrider, kind=kind, pool=pool, node_pool=None)
    yield from plan.warnings
    yield from plan.idle
    yield from _unlike_topology(plan, subject.group_kind, kind=kind)
    yield from _only_at_creation(plan)


def _unlike_topology(plan: Plan, group_kind: GroupKind, *, kind: str) -> Iterator[str]:
    topology, claimed = (one["spec"].get("replicas") for one in (plan.bare, plan.rendered))
    if group_kind == YURT_APP_SET and claimed != topology and topology is not None:
        yield (
            f"{plan.source_of(('spec', 'replicas'))}: {claimed} replicas, but spec.topology.pools has {topology}: "
            f"OpenYurt 1.4 then writes the {kind} at each reconcile, which undoes restarts, scales and pauses in that "
            "pool; set the pool's replicas in the topology as well"
        )


def _only_at_creation(plan: Plan) -> Iterator[str]:
    for name in sorted(CREATE_ONLY - {"replicas", "selector"}):
        if plan.bare["spec"].get(name) != plan.rendered["spec"].get(name):
            source = plan.source_of(("spec", name))
            yield f"{source}: /spec/{name} can only be set when a workload is created; those that exist keep theirs"
