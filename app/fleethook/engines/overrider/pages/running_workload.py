"""Describes a stored workload for its page: its rollout, its conditions and its last reviews."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, Literal, NamedTuple

from fleethook.console.attention import read_since
from fleethook.console.reviews.summary import ReviewSummary
from fleethook.model.json import JSON, JSONObject, as_object

MAX_CONDITIONS: Final = 10
MAX_REVIEWS: Final = 10
RolloutState = Literal["complete", "in progress", "not observed"]


class Rollout(NamedTuple):
    """The progress of a workload, as ``kubectl rollout status`` reads it.

    Attributes:
        state: ``not observed``: the status is that of an older generation.
        desired: The pods that the spec asks for.
        updated: The pods of the present template.
        available: The available pods; for a StatefulSet without this number, the ready ones.
    """

    state: RolloutState
    desired: int
    updated: int
    available: int


class WorkloadCondition(NamedTuple):
    """A condition of the status; ``since`` is a time in UTC, ``""`` if it is unknown."""

    type: str
    status: str
    reason: str
    message: str
    since: str


class RunningWorkload(NamedTuple):
    """A stored workload.

    Attributes:
        namespace: Its namespace.
        name: Its name.
        uid: Its uid, ``""`` in a manifest.
        created: Its creation in UTC, ``""`` if it is unknown.
        rollout: Its progress, None without a status.
        conditions: The conditions of its status.
    """

    namespace: str
    name: str
    uid: str
    created: str
    rollout: Rollout | None
    conditions: Sequence[WorkloadCondition]


def describe_workload(document: JSONObject) -> RunningWorkload:
    """Return the description of a Deployment or StatefulSet; its fields may have any type."""
    metadata = as_object(document.get("metadata"))
    status = as_object(document.get("status"))
    return RunningWorkload(
        str(metadata.get("namespace") or ""),
        str(metadata.get("name") or ""),
        str(metadata.get("uid") or ""),
        read_since(metadata.get("creationTimestamp")),
        _read_rollout(as_object(document.get("spec")), status, metadata) if status else None,
        [_read_condition(one) for one in islice(_list_objects(status.get("conditions")), MAX_CONDITIONS)],
    )


def select_last_reviews(
    reviews: Sequence[ReviewSummary], kind: str, workloads: Sequence[RunningWorkload]
) -> list[ReviewSummary]:
    """Return the last reviews of some workloads of a kind, the newest first; ``reviews`` begins with the oldest."""
    names = {(one.namespace, one.name) for one in workloads}
    found = (one for one in reversed(reviews) if one.kind == kind and (one.namespace, one.name) in names)
    return list(islice(found, MAX_REVIEWS))


def _read_rollout(spec: Mapping[str, JSON], status: Mapping[str, JSON], metadata: Mapping[str, JSON]) -> Rollout:
    desired = _read_number(spec.get("replicas", 1))
    updated = _read_number(status.get("updatedReplicas"))
    available = _read_number(status.get("availableReplicas", status.get("readyReplicas")))
    if _read_number(status.get("observedGeneration")) < _read_number(metadata.get("generation")):
        return Rollout("not observed", desired, updated, available)
    is_complete = updated == available == desired == _read_number(status.get("replicas"))
    return Rollout("complete" if is_complete else "in progress", desired, updated, available)


def _read_number(value: Any) -> int:
    return value if isinstance(value, int) else 0


def _read_condition(condition: Mapping[str, JSON]) -> WorkloadCondition:
    kind, status, reason, message = (str(condition.get(name) or "") for name in ("type", "status", "reason", "message"))
    return WorkloadCondition(kind, status, reason, message, read_since(condition.get("lastTransitionTime")))


def _list_objects(stored: JSON) -> Iterator[Mapping[str, JSON]]:
    return map(as_object, stored if isinstance(stored, list) else ())
