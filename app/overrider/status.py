"""The status of an overrider: whether it is in effect, and how the workloads that it is about stand."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple

from app.control.conditions import Finding, Status, conditions
from app.model.json import JSONObject, as_object
from app.overrider.assess import Binding

BOUND: Final = "Bound"
RENDERED: Final = "Rendered"
CONFLICT: Final = "Conflict"

_MAX_POOLS: Final = 1_000
_MAX_NAMED: Final = 3


class Result(NamedTuple):
    """How the override of one workload stands."""

    pool: str
    kind: str
    workload: str
    hash: str
    """What it is to carry, ``""`` where no entry applies to its pool."""
    generation: int
    error: str
    """What is wrong, ``""`` if nothing is."""
    waits: bool = False
    """Whether the error is only that the owner's controller has to write first."""
    lost: bool = False
    """Whether the error is that the apiserver did not keep what was requested."""
    notes: tuple[str, ...] = ()
    """Pointers of empty values and defaults that are not stored as they were requested."""

    @property
    def counts(self) -> bool:
        """Whether the overrider has to do with this workload."""
        return bool(self.hash or self.error)


class Gaps(NamedTuple):
    """The pools that the entries select and that have no workload to render."""

    missing: tuple[str, ...] = ()
    """Pools without a workload."""
    overdue: bool = False
    """Whether the owner's controller had time enough to create them."""
    other_version: tuple[str, ...] = ()
    """Pools whose workloads are owned in an API version to which overriders do not apply."""


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


def unrendered(is_bound: Finding) -> Finding:
    """Return the `RENDERED` condition of an overrider that is not in effect: nothing is rendered by it."""
    return Finding(RENDERED, "False", is_bound.reason, is_bound.message)


def rendered(results: Sequence[Result], gaps: Gaps = Gaps()) -> Finding:  # noqa: B008 - immutable
    """Return whether every workload is as the overrider wants it."""
    concerned = [result for result in results if result.counts]
    failed = [result for result in concerned if result.error]
    status, reason = _verdict(concerned, failed, gaps)
    right = len(concerned) - len(failed)
    counted = f"{right} of {len(concerned)} workloads" if concerned else ""
    parts = [counted, *_failures(failed), *_gap_texts(gaps), *_notes(concerned)]
    text = "; ".join(part for part in parts if part)
    return Finding(RENDERED, status, reason, text or "no entry selects a node pool of the subject")


def _verdict(concerned: Sequence[Result], failed: Sequence[Result], gaps: Gaps) -> tuple[Status, str]:
    waiting = [result for result in failed if result.waits]
    lost = [result for result in failed if result.lost]
    verdicts: list[tuple[bool, Status, str]] = [
        (len(failed) > len(waiting) + len(lost), "False", "NotRendered"),
        (bool(lost), "False", "FieldsNotKept"),
        (bool(gaps.other_version), "False", "OwnedByOtherVersion"),
        (bool(gaps.missing) and gaps.overdue, "False", "WorkloadsMissing"),
        (bool(waiting), "Unknown", "WaitingForOwner"),
        (bool(gaps.missing), "Unknown", "WorkloadsMissing"),
        (bool(concerned), "True", "AllRendered"),
    ]
    return next(((status, reason) for applies, status, reason in verdicts if applies), ("True", "NoWorkloads"))


def _failures(failed: Sequence[Result]) -> list[str]:
    # Those that only wait say nothing about what is wrong, and may be many.
    first = sorted(failed, key=lambda result: result.waits)[:_MAX_NAMED]
    shown = [f"{result.workload} in {result.pool}: {result.error}" for result in first]
    return [*shown, f"and {len(failed) - _MAX_NAMED} more"] if len(failed) > _MAX_NAMED else shown


def _gap_texts(gaps: Gaps) -> list[str]:
    texts = []
    if gaps.missing:
        texts.append(f"no workload in node pool {_named(gaps.missing)}")
    if gaps.other_version:
        pools = _named(gaps.other_version)
        texts.append(
            f"the workloads in node pool {pools} have an owner reference of an API version other than v1alpha1, to "
            "which overriders do not apply (OpenYurt 1.5 and later: use workloadTweaks)"
        )
    return texts


def _notes(concerned: Sequence[Result]) -> list[str]:
    pointers = list(dict.fromkeys(pointer for result in concerned for pointer in result.notes))
    return [f"defaults and empty values stored otherwise than requested: {_named(pointers)}"] if pointers else []


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    return ", ".join(names[:_MAX_NAMED]) + more


def conflicts(text: str) -> tuple[Finding, ...]:
    """Return the condition for settings of OpenYurt that disturb overriders; none for ``""``."""
    return (Finding(CONFLICT, "True", "OpenYurtInterferes", text),) if text else ()


def status_of(
    overrider: JSONObject, findings: Sequence[Finding], results: Sequence[Result], *, now: datetime
) -> JSONObject:
    """Return the status to store: equal to the one that is stored if nothing changed."""
    generation = overrider["metadata"].get("generation") or 0
    concerned = [result for result in results if result.counts]
    kept = sorted(concerned, key=lambda result: (not result.error, result.pool, result.kind, result.workload))
    right = sum(not result.error for result in concerned)
    former = as_object(overrider.get("status")).get("conditions")
    return {
        "observedGeneration": generation,
        "summary": f"{right}/{len(concerned)}",
        "conditions": conditions(findings, former=former, generation=generation, now=now),
        "pools": [_pool(result) for result in kept[:_MAX_POOLS]],
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
