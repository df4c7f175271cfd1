"""What the controller says about an overrider."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple

from app.control.conditions import Finding, conditions
from app.model.json import JSONObject, as_object
from app.overrider.assess import Binding

BOUND: Final = "Bound"
RENDERED: Final = "Rendered"

_MOST_POOLS: Final = 1_000
_MOST_ERRORS: Final = 3


class Result(NamedTuple):
    """How the override of one workload stands."""

    pool: str
    kind: str
    workload: str
    hash: str
    """What it is to carry, ``""`` where no entry applies to its pool."""
    generation: int
    error: str

    @property
    def counts(self) -> bool:
        """Whether the overrider has to do with this workload."""
        return bool(self.hash or self.error)


def bound(overrider: JSONObject, binding: Binding, effective: JSONObject, *, subject: bool) -> Finding:
    """Return whether ``overrider`` is in effect.

    Args:
        overrider: Whose status it is.
        binding: What it is bound to.
        effective: The overrider in effect for the same subject.
        subject: Whether the subject is there.
    """
    name = f"{binding.group_kind.kind} {binding.name}"
    if overrider is not effective:
        other = effective["metadata"]["name"]
        return Finding(BOUND, "False", "Superseded", f"YurtAppOverrider {other} is older and in effect for {name}")
    if not subject:
        return Finding(BOUND, "False", "SubjectNotFound", f"there is no {name} in this namespace")
    return Finding(BOUND, "True", "SubjectFound", f"in effect for {name}")


def rendered(results: Sequence[Result]) -> Finding:
    """Return whether every workload is as the overrider wants it."""
    concerned = [result for result in results if result.counts]
    failed = [result for result in concerned if result.error]
    if not concerned:
        return Finding(RENDERED, "True", "NoWorkloads", "no workload of a pool that an entry selects")
    if not failed:
        return Finding(RENDERED, "True", "AllRendered", f"{len(concerned)} of {len(concerned)} workloads")
    shown = "; ".join(f"{result.workload} in {result.pool}: {result.error}" for result in failed[:_MOST_ERRORS])
    more = f"; and {len(failed) - _MOST_ERRORS} more" if len(failed) > _MOST_ERRORS else ""
    message = f"{len(concerned) - len(failed)} of {len(concerned)} workloads; {shown}{more}"
    return Finding(RENDERED, "False", "NotRendered", message)


def status_of(
    overrider: JSONObject, findings: Sequence[Finding], results: Sequence[Result], *, now: datetime
) -> JSONObject:
    """Return the status to store: equal to the one that is stored if nothing is to be said anew."""
    generation = overrider["metadata"].get("generation") or 0
    concerned = [result for result in results if result.counts]
    kept = sorted(concerned, key=lambda result: (not result.error, result.pool, result.kind, result.workload))
    right = sum(not result.error for result in concerned)
    former = as_object(overrider.get("status")).get("conditions")
    return {
        "observedGeneration": generation,
        "summary": f"{right}/{len(concerned)}",
        "conditions": conditions(findings, former=former, generation=generation, now=now),
        "pools": [_pool(result) for result in kept[:_MOST_POOLS]],
    }


def _pool(result: Result) -> JSONObject:
    made: JSONObject = {"pool": result.pool, "kind": result.kind, "workload": result.workload}
    if result.hash:
        made["hash"] = result.hash
    if result.generation:
        made["observedGeneration"] = result.generation
    if result.error:
        made["error"] = result.error
    return made
