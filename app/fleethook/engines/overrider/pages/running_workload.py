"""Describes a stored workload for its page: its rollout, its conditions, and the field managers that changed it."""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, Literal, NamedTuple

from fleethook.console.attention import read_since
from fleethook.console.reviews.summary import ReviewSummary
from fleethook.model.json import JSON, JSONObject, as_object

MAX_FIELDS: Final = 12
"""The shown fields of a manager."""
MAX_MANAGERS: Final = 20
MAX_CONDITIONS: Final = 10
MAX_REVIEWS: Final = 10
_MAX_DEPTH: Final = 12
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


class FieldManager(NamedTuple):
    """A manager that owns fields outside of the status.

    Attributes:
        name: The name of the manager.
        operation: ``Apply`` or ``Update``.
        since: The time of its last change in UTC, ``""`` if it is unknown.
        fields: The first `MAX_FIELDS` fields that it owns.
        total: The number of all.
    """

    name: str
    operation: str
    since: str
    fields: Sequence[str]
    total: int


class RunningWorkload(NamedTuple):
    """A stored workload.

    Attributes:
        namespace: Its namespace.
        name: Its name.
        uid: Its uid, ``""`` in a manifest.
        created: Its creation in UTC, ``""`` if it is unknown.
        rollout: Its progress, None without a status.
        conditions: The conditions of its status.
        managers: Its field managers, the last one first.
    """

    namespace: str
    name: str
    uid: str
    created: str
    rollout: Rollout | None
    conditions: Sequence[WorkloadCondition]
    managers: Sequence[FieldManager]


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
        _list_managers(metadata.get("managedFields")),
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


def _list_managers(stored: JSON) -> list[FieldManager]:
    # Controllers write the status all the time. It shows no decision of a person.
    entries = [one for one in _list_objects(stored) if not one.get("subresource")]
    found = [manager for one in entries if (manager := _read_manager(one)).total]
    return sorted(found, key=lambda one: one.since, reverse=True)[:MAX_MANAGERS]


def _read_manager(entry: Mapping[str, JSON]) -> FieldManager:
    owned = [path for path in _list_fields(entry.get("fieldsV1"), "", 0) if path.partition("/")[0] != "status"]
    return FieldManager(
        str(entry.get("manager") or "unknown"),
        str(entry.get("operation") or ""),
        read_since(entry.get("time")),
        owned[:MAX_FIELDS],
        len(owned),
    )


def _list_fields(stored: JSON, path: str, depth: int) -> Iterator[str]:
    """Yield the paths of owned fields, such as ``spec/template/spec/containers/[name=web]/image``.

    The format is that of structured-merge-diff v4 (fieldpath/serialize-pe.go): ``f:`` a member, ``k:`` the keys of
    a list element, ``v:`` a value of a set, ``i:`` an index, and ``.`` the object itself.
    """
    members = {key: value for key, value in as_object(stored).items() if key != "."}
    if path and (not members or depth >= _MAX_DEPTH):
        yield path
        return
    for key, value in members.items():
        name = _name_member(key)
        yield from _list_fields(value, f"{path}/{name}" if path else name, depth + 1)


def _name_member(key: str) -> str:
    kind, _, text = key.partition(":")
    if kind != "k":
        return text if kind == "f" else f"[{text}]"
    try:
        keys = as_object(json.loads(text))
    except ValueError:
        return f"[{text}]"
    return f"[{','.join(f'{name}={value}' for name, value in keys.items())}]"


def _list_objects(stored: JSON) -> Iterator[Mapping[str, JSON]]:
    return map(as_object, stored if isinstance(stored, list) else ())
