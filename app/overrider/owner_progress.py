"""Whether OpenYurt's controller has written a changed template into a workload.

It writes each workload once per revision, with a new revision label in the pod template. fleethook renders that very
write at admission. If fleethook touched the workload before, the pods would be rolled out twice: once for the template,
once for the label.
"""

from app.model.json import JSONObject, as_object
from app.model.merge_keys import WORKLOAD
from app.overrider.assess import Assessment
from app.overrider.differences import ABSENT, Difference, find_differences, fingerprint, is_empty
from app.overrider.overlay import overlay
from app.overrider.plans import PoolPlan
from app.patch import apply


def has_observed(subject: JSONObject) -> bool:
    """Return whether the subject's controller has seen its spec; True where the status does not report that.

    OpenYurt 1.4 reports a generation as observed although a write of a workload was refused, so this is not enough.
    """
    observed = as_object(subject.get("status")).get("observedGeneration")
    generation = subject["metadata"].get("generation")
    return not isinstance(observed, int) or not isinstance(generation, int) or observed >= generation


def lags_behind(workload: JSONObject, plan: PoolPlan, found: Assessment) -> bool:
    """Return whether ``workload`` lacks what its template names outside the overrides.

    Such a member is one that both the bare template and the rendered workload want to be other than it is. Members
    that an override sets differ in one of the two only, and defaults and empty values do not count.

    Args:
        workload: As the apiserver holds it.
        plan: The plan of its pool.
        found: How it compares with what the plan wants.
    """
    template = plan.full.base
    metadata = {name: template["metadata"].get(name) or {} for name in ("labels", "annotations")}
    bare = overlay(workload, {"metadata": metadata, "spec": template["spec"]}, WORKLOAD)
    if bare is workload:
        return False
    missing = _leaves(workload, bare)
    if plan.applies or found.operations:
        missing &= _leaves(workload, apply(workload, found.operations))
    return bool(missing)


def _leaves(workload: JSONObject, wanted: JSONObject) -> set[str]:
    return {fingerprint([one]) for one in find_differences(workload, wanted, leaves=True) if _counts(one)}


def _counts(difference: Difference) -> bool:
    """Return whether a difference cannot be a default or an empty value that the apiserver left out."""
    if difference.requested is ABSENT:
        return False
    return not is_empty(difference.requested) or not (difference.stored is ABSENT or is_empty(difference.stored))
