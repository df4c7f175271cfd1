"""Builds the status of an overrider: its conditions, and the state of each workload."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple

from fleethook.cluster.conditions import Condition, Status, build_conditions
from fleethook.engines.overrider.subject.binding import Binding
from fleethook.engines.overrider.subject.unreached_workloads import NO_GAPS, Gaps, describe_orphans, list_names
from fleethook.model.json import JSONObject, as_object
from fleethook.work.slices import Sliced, run_at_once

BOUND: Final = "Bound"
RENDERED: Final = "Rendered"
CONFLICT: Final = "Conflict"

_MAX_POOLS: Final = 1_000
_MAX_NAMED_FAILURES: Final = 3
_SLICE: Final = 1_000


class Result(NamedTuple):
    """The state of one workload."""

    pool: str
    kind: str
    workload: str
    hash: str
    """The expected value of ``fleethook.io/rendered``, ``""`` if no entry applies to the pool."""
    generation: int
    error: str
    """The error, ``""`` if the workload is rendered."""
    waits: bool = False
    """Whether the only error is that the owner's controller must write first."""
    lost: bool = False
    """Whether the error is that the apiserver did not store the requested values."""
    notes: tuple[str, ...] = ()
    """Pointers of empty values and defaults that the apiserver stored in another form."""

    @property
    def counts(self) -> bool:
        """Whether the overrider applies to this workload, or an error is to be reported."""
        return bool(self.hash or self.error)


def bound(overrider: JSONObject, binding: Binding, effective: JSONObject, *, subject: bool) -> Condition:
    """Return the condition `BOUND`: whether ``overrider`` is in effect.

    Args:
        overrider: The overrider of the status.
        binding: Its subject.
        effective: The overrider in effect for the same subject.
        subject: Whether the subject exists.
    """
    name = f"{binding.group_kind.kind} {binding.name}"
    if overrider is not effective:
        other = effective["metadata"]["name"]
        return Condition(BOUND, "False", "Superseded", f"YurtAppOverrider {other} is older and in effect for {name}")
    if not subject:
        return Condition(BOUND, "False", "SubjectNotFound", f"there is no {name} in this namespace")
    return Condition(BOUND, "True", "SubjectFound", f"in effect for {name}")


def unrendered(is_bound: Condition, orphans: Sequence[str] = ()) -> Condition:
    """Return the condition `RENDERED` of an overrider that is not in effect.

    Args:
        is_bound: The condition `BOUND`, with the reason.
        orphans: Workloads that keep earlier overrides.
    """
    if not orphans:
        return Condition(RENDERED, "False", is_bound.reason, is_bound.message)
    return Condition(RENDERED, "False", "OrphanedWorkloads", f"{is_bound.message}; {describe_orphans(orphans)}")


def rendered(results: Sequence[Result], gaps: Gaps = NO_GAPS) -> Condition:
    """Return the condition `RENDERED`: whether every workload matches the overrider."""
    concerned = [result for result in results if result.counts]
    failed = [result for result in concerned if result.error]
    status, reason = _judge(concerned, failed, gaps)
    right, wanted = _count_workloads(concerned, gaps)
    counted = f"{right} of {wanted} workloads" if wanted else ""
    parts = [counted, *_describe_failures(failed), *gaps.texts(), *_describe_notes(concerned)]
    text = "; ".join(part for part in parts if part)
    return Condition(RENDERED, status, reason, text or f"no entry selects a node pool of {gaps.subject}")


def _count_workloads(concerned: Sequence[Result], gaps: Gaps) -> tuple[int, int]:
    """Return the number of rendered workloads, and of workloads that should exist."""
    right = sum(not result.error for result in concerned)
    return right, len(concerned) + gaps.count_lacking({result.pool for result in concerned})


def _judge(concerned: Sequence[Result], failed: Sequence[Result], gaps: Gaps) -> tuple[Status, str]:
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


def _describe_failures(failed: Sequence[Result]) -> list[str]:
    # Waiting workloads may be many, and need no action, so they come last.
    first = sorted(failed, key=lambda result: result.waits)[:_MAX_NAMED_FAILURES]
    shown = [f"{result.workload} in {result.pool}: {result.error}" for result in first]
    return [*shown, f"and {len(failed) - _MAX_NAMED_FAILURES} more"] if len(failed) > _MAX_NAMED_FAILURES else shown


def _describe_notes(concerned: Sequence[Result]) -> list[str]:
    pointers = list(dict.fromkeys(pointer for result in concerned for pointer in result.notes))
    return [f"defaults and empty values stored otherwise than requested: {list_names(pointers)}"] if pointers else []


def conflicts(text: str) -> tuple[Condition, ...]:
    """Return the condition `CONFLICT` for a text about OpenYurt's settings; no condition for ``""``."""
    return (Condition(CONFLICT, "True", "OpenYurtInterferes", text),) if text else ()


def status_of(
    overrider: JSONObject,
    findings: Sequence[Condition],
    results: Sequence[Result],
    gaps: Gaps = NO_GAPS,
    *,
    now: datetime,
) -> JSONObject:
    """Return the status to store, which equals the stored one if nothing changed."""
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
    right, wanted = _count_workloads(concerned, gaps)
    yield
    former = as_object(overrider.get("status")).get("conditions")
    return {
        "observedGeneration": generation,
        "summary": f"{right}/{wanted}",
        "conditions": build_conditions(findings, former=former, generation=generation, now=now),
        "pools": [_build_pool(result) for result in kept],
    }


def _build_pool(result: Result) -> JSONObject:
    made: JSONObject = {"pool": result.pool, "kind": result.kind, "workload": result.workload}
    if result.hash:
        made["hash"] = result.hash
    if result.generation:
        made["observedGeneration"] = result.generation
    if result.error:
        made["error"] = result.error
    return made
