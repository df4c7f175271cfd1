"""Detects whether OpenYurt's controller has written a changed template into a workload.

OpenYurt's controller writes each workload once per revision, with a new revision label in the pod template. fleethook
renders this write at admission. If fleethook touched the workload before, the pods would roll out twice: once for the
template and once for the label.
"""

from collections.abc import Sequence
from typing import NamedTuple

from fleethook.engines.overrider.controller.drift import Drift
from fleethook.engines.overrider.plan.shared_plan import PoolPlan
from fleethook.engines.overrider.render.member_differences import (
    ABSENT,
    Difference,
    find_differences,
    fingerprint,
    is_empty,
)
from fleethook.engines.overrider.render.overlay import matches, overlay
from fleethook.engines.overrider.render.undo import remembered, without_overridden
from fleethook.engines.overrider.schema import check_workload
from fleethook.model.json import JSONObject, as_object
from fleethook.model.merge_keys import WORKLOAD
from fleethook.patch import apply, diff


def has_observed(subject: JSONObject) -> bool:
    """Return whether the subject's controller has observed its spec; True if the status does not report a generation.

    OpenYurt 1.4 reports a generation as observed even if a write of a workload was refused, so this does not prove that
    the workloads are written.
    """
    observed = as_object(subject.get("status")).get("observedGeneration")
    generation = subject["metadata"].get("generation")
    return not isinstance(observed, int) or not isinstance(generation, int) or observed >= generation


class Lag(NamedTuple):
    """The members of its template that a workload lacks."""

    lacks: frozenset[str]
    """The fingerprints of the differences."""
    operations: Sequence[JSONObject]
    """The JSON patch that adds the members."""


def find_lag(workload: JSONObject, plan: PoolPlan, found: Drift) -> Lag | None:
    """Return the members of its template that ``workload`` lacks outside the overrides, None if it lacks none.

    Such a member differs both from the bare template and from the rendered workload. A member that an override sets
    differs from one of the two only. Members that the last render replaced or removed do not count, because the
    workload may hold them for an override that is gone. Defaults and empty values do not count. Fields that Kubernetes
    does not have do not count either, because no owner can write them.

    Args:
        workload: The workload as the apiserver returns it.
        plan: The plan of its node pool.
        found: Its drift from the plan.
    """
    if matches(workload, _select_named(plan.shared.plan.base), plan.values):
        return None  # The usual case. It needs no plan for this node pool alone.
    template = plan.for_update.base
    bare = _lay_over(template, workload)
    undo = memory.undo if (memory := remembered(workload)) else {}
    lacks = _find_leaves(*(without_overridden(one, undo, WORKLOAD) for one in (workload, bare)))
    if lacks and (plan.applies or found.operations):
        lacks &= _find_leaves(workload, apply(workload, found.operations))
    if lacks:
        lacks &= _find_leaves(workload, _lay_over(_without_unknown(template), workload))
    if not lacks:
        return None
    return Lag(frozenset(lacks), found.operations or diff(workload, bare))


def _select_named(template: JSONObject) -> JSONObject:
    metadata = {name: template["metadata"].get(name) or {} for name in ("labels", "annotations")}
    return {"metadata": metadata, "spec": template["spec"]}


def _lay_over(template: JSONObject, workload: JSONObject) -> JSONObject:
    laid: JSONObject = overlay(workload, _select_named(template), WORKLOAD)
    return laid


def _without_unknown(template: JSONObject) -> JSONObject:
    findings = check_workload(template, "StatefulSet" if template["kind"] == "StatefulSet" else "Deployment")
    # From the last to the first, so that no removal changes the index of a later one.
    unknown = sorted((finding.pointer for finding in findings if finding.problem == "unknown"), reverse=True)
    kept: JSONObject = apply(template, [{"op": "remove", "path": pointer} for pointer in unknown])
    return kept


def _find_leaves(workload: JSONObject, wanted: JSONObject) -> set[str]:
    return {fingerprint([one]) for one in find_differences(workload, wanted, leaves=True) if _is_significant(one)}


def _is_significant(difference: Difference) -> bool:
    """Return whether a difference is neither a default nor an empty value that the apiserver dropped."""
    if difference.requested is ABSENT:
        return False
    return not is_empty(difference.requested) or not (difference.stored is ABSENT or is_empty(difference.stored))
