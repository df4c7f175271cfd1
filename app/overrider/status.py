"""The status of an overrider: whether it is in effect, and how the workloads that it is about stand."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple

from app.control.conditions import Condition, Status, build_conditions
from app.control.slices import Sliced, run_at_once
from app.model.json import JSONObject, as_object
from app.overrider.binding import Binding
from app.overrider.gaps import NO_GAPS, Gaps, describe_orphans, list_names

BOUND: Final = "Bound"
RENDERED: Final = "Rendered"
CONFLICT: Final = "Conflict"

_MAX_POOLS: Final = 1_000
_MAX_NAMED: Final = 3
_SLICE: Final = 1_000


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


def bound(overrider: JSONObject, binding: Binding, effective: JSONObject, *, subject: bool) -> Condition:
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
        return Condition(BOUND, "False", "Superseded", f"YurtAppOverrider {other} is older and in effect for {name}")
    if not subject:
        return Condition(BOUND, "False", "SubjectNotFound", f"there is no {name} in this namespace")
    return Condition(BOUND, "True", "SubjectFound", f"in effect for {name}")


def unrendered(is_bound: Condition, orphans: Sequence[str] = ()) -> Condition:
    """Return the `RENDERED` condition of an overrider that is not in effect: nothing is rendered by it.

    Args:
        is_bound: Why it is not in effect.
        orphans: Workloads that keep what it rendered before.
    """
    if not orphans:
        return Condition(RENDERED, "False", is_bound.reason, is_bound.message)
    return Condition(RENDERED, "False", "OrphanedWorkloads", f"{is_bound.message}; {describe_orphans(orphans)}")


def rendered(results: Sequence[Result], gaps: Gaps = NO_GAPS) -> Condition:
    """Return whether every workload is as the overrider wants it."""
    concerned = [result for result in results if result.counts]
    failed = [result for result in concerned if result.error]
    status, reason = _verdict(concerned, failed, gaps)
    right, wanted = _counts(concerned, gaps)
    counted = f"{right} of {wanted} workloads" if wanted else ""
    parts = [counted, *_failures(failed), *gaps.texts(), *_notes(concerned)]
    text = "; ".join(part for part in parts if part)
    return Condition(RENDERED, status, reason, text or f"no entry selects a node pool of {gaps.subject}")


def _counts(concerned: Sequence[Result], gaps: Gaps) -> tuple[int, int]:
    """Return how many workloads are as they should be, and how many there should be."""
    right = sum(not result.error for result in concerned)
    return right, len(concerned) + gaps.count_lacking({result.pool for result in concerned})


def _verdict(concerned: Sequence[Result], failed: Sequence[Result], gaps: Gaps) -> tuple[Status, str]:
    waiting = [result for result in failed if result.waits]
    lost = [result for result in failed if result.lost]
    verdicts: list[tuple[bool, Status, str]] = [
        (len(failed) > len(waiting) + len(lost), "False", "NotRendered"),
        (bool(lost), "False", "FieldsNotKept"),
        *gaps.verdicts(),
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


def _notes(concerned: Sequence[Result]) -> list[str]:
    pointers = list(dict.fromkeys(pointer for result in concerned for pointer in result.notes))
    return [f"defaults and empty values stored otherwise than requested: {list_names(pointers)}"] if pointers else []


def conflicts(text: str) -> tuple[Condition, ...]:
    """Return the condition for settings of OpenYurt that disturb overriders; none for ``""``."""
    return (Condition(CONFLICT, "True", "OpenYurtInterferes", text),) if text else ()


def status_of(
    overrider: JSONObject,
    findings: Sequence[Condition],
    results: Sequence[Result],
    gaps: Gaps = NO_GAPS,
    *,
    now: datetime,
) -> JSONObject:
    """Return the status to store: equal to the one that is stored if nothing changed."""
    return run_at_once(status_in_slices(overrider, findings, results, gaps, now=now))


def status_in_slices(
    overrider: JSONObject,
    findings: Sequence[Condition],
    results: Sequence[Result],
    gaps: Gaps = NO_GAPS,
    *,
    now: datetime,
) -> Sliced[JSONObject]:
    """Return the status to store, as `status_of` does."""
    generation = overrider["metadata"].get("generation") or 0
    concerned = [result for result in results if result.counts]
    yield
    ranked: list[tuple[bool, str, str, str, int]] = []
    for number, one in enumerate(concerned):
        if number % _SLICE == _SLICE - 1:
            yield
        ranked.append((not one.error, one.pool, one.kind, one.workload, number))
    ranked.sort()
    yield
    kept = [concerned[number] for *_, number in ranked[:_MAX_POOLS]]
    right, wanted = _counts(concerned, gaps)
    yield
    former = as_object(overrider.get("status")).get("conditions")
    return {
        "observedGeneration": generation,
        "summary": f"{right}/{wanted}",
        "conditions": build_conditions(findings, former=former, generation=generation, now=now),
        "pools": [_pool(result) for result in kept],
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
