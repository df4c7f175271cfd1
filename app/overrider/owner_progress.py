"""Whether OpenYurt's controller has written a changed template into a workload.

It writes each workload once per revision, with a new revision label in the pod template. fleethook renders that very
write at admission. If fleethook touched the workload before, the pods would be rolled out twice: once for the template,
once for the label.
"""

from collections.abc import Sequence
from typing import NamedTuple

from app.model.json import JSONObject, as_object
from app.model.merge_keys import WORKLOAD
from app.overrider.differences import ABSENT, Difference, find_differences, fingerprint, is_empty
from app.overrider.drift import Drift
from app.overrider.matching import matches
from app.overrider.overlay import overlay
from app.overrider.shared_plan import PoolPlan
from app.overrider.workload_schema import check_workload
from app.patch import apply, diff


def has_observed(subject: JSONObject) -> bool:
    """Return whether the subject's controller has seen its spec; True where the status does not report that.

    OpenYurt 1.4 reports a generation as observed although a write of a workload was refused, so this is not enough.
    """
    observed = as_object(subject.get("status")).get("observedGeneration")
    generation = subject["metadata"].get("generation")
    return not isinstance(observed, int) or not isinstance(generation, int) or observed >= generation


class Lag(NamedTuple):
    """What a workload lacks of its template."""

    lacks: frozenset[str]
    """Fingerprints of the differences."""
    operations: Sequence[JSONObject]
    """The JSON patch that makes up for them."""


def find_lag(workload: JSONObject, plan: PoolPlan, found: Drift) -> Lag | None:
    """Return what ``workload`` lacks of what its template names outside the overrides, None if it lacks nothing.

    Such a member is one that both the bare template and the rendered workload want to be other than it is. Members
    that an override sets differ in one of the two only. Defaults and empty values do not count, and neither do fields
    that Kubernetes does not have: no owner can write those.

    Args:
        workload: As the apiserver holds it.
        plan: The plan of its pool.
        found: How it compares with what the plan wants.
    """
    if matches(workload, _select_named(plan.shared.plan.base), plan.values):
        return None  # The usual answer, which needs no plan of the pool's own.
    template = plan.for_update.base
    bare = _lay_over(template, workload)
    lacks = _find_leaves(workload, bare)
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
    # From the last to the first, so that no removal moves an element that a later one is about.
    unknown = sorted((finding.pointer for finding in findings if finding.problem == "unknown"), reverse=True)
    kept: JSONObject = apply(template, [{"op": "remove", "path": pointer} for pointer in unknown])
    return kept


def _find_leaves(workload: JSONObject, wanted: JSONObject) -> set[str]:
    return {fingerprint([one]) for one in find_differences(workload, wanted, leaves=True) if _is_significant(one)}


def _is_significant(difference: Difference) -> bool:
    """Return whether a difference cannot be a default or an empty value that the apiserver left out."""
    if difference.requested is ABSENT:
        return False
    return not is_empty(difference.requested) or not (difference.stored is ABSENT or is_empty(difference.stored))
