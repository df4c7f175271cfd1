"""Describes a stored workload for its page: its rollout, its conditions, its field managers and its Events.

The Events of a Deployment include those of its ReplicaSets, which create its pods.
"""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, Literal, NamedTuple

from starlette.requests import Request

from fleethook.cluster.api_errors import APIError, UnreachableError
from fleethook.console.attention import read_since
from fleethook.console.rendering import find_context
from fleethook.console.reviews.summary import ReviewSummary
from fleethook.console.users.local_access import LOCAL_USER, AccessError
from fleethook.console.users.permissions import require_kind
from fleethook.engines.overrider.pages.fleet import CellKey
from fleethook.model.gvk import GroupKind
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


EVENT: Final = GroupKind("", "Event")
MAX_SHOWN: Final = 10
"""The shown Events of a workload."""
MAX_LISTED: Final = 200
"""The Events of one list. Recorders count repeated Events, and kube-apiserver removes an Event after an hour."""
SECONDS: Final = 2.0
"""The time that a page waits for the Events of a workload."""
NO_CLUSTER: Final = "This console reads files. Only an apiserver has Events."
LATE: Final = f"The apiserver has not listed the Events within {SECONDS:.0f} s. Reload the page to ask again."
# A ReplicaSet has the name of its Deployment and a hash in these letters (apimachinery, pkg/util/rand: alphanums).
_HASH: Final = "-[bcdfghjklmnpqrstvwxz2456789]{1,10}"
_FORBIDDEN: Final = 403

Get = Callable[..., Awaitable[JSON]]
"""Sends a request to the apiserver as `Connection.json` does."""


class WorkloadEvent(NamedTuple):
    """An Event.

    Attributes:
        type: ``Normal`` or ``Warning``.
        reason: Its reason, such as ``FailedCreate``.
        message: Its message.
        about: Kind and name of the ReplicaSet, ``""`` for the workload.
        times: How often it occurred.
        last: Its last time in UTC, ``""`` if it is unknown.
    """

    type: str
    reason: str
    message: str
    about: str
    times: int
    last: str


class FoundEvents(NamedTuple):
    """The Events of a workload.

    Attributes:
        events: The last `MAX_SHOWN`, the newest one first.
        total: The number of all listed ones.
        is_complete: Whether the apiserver has no more than the listed ones.
        problem: Why there are none, in a sentence; ``""`` if they were listed.
    """

    events: Sequence[WorkloadEvent] = ()
    total: int = 0
    is_complete: bool = True
    problem: str = ""


async def find_events(request: Request, key: CellKey, running: Sequence[RunningWorkload]) -> list[FoundEvents]:
    """Return the Events of the stored workloads of a cell, as far as the user of the request may get them."""
    context, user = find_context(request), getattr(request.state, "user", LOCAL_USER)
    cluster = context.cluster
    if cluster is None:
        return [FoundEvents(problem=NO_CLUSTER)] * len(running)
    try:
        for namespace in {one.namespace for one in running}:
            await require_kind(context.authorizer, user, EVENT, namespace=namespace)
    except AccessError as error:
        return [FoundEvents(problem=f"The Events are not shown: {error}.")] * len(running)
    scope = cluster.source.scope(key.subject.cluster)
    return await asyncio.gather(*(list_events(cluster.connection.json, scope, key.kind, one) for one in running))


async def list_events(
    get: Get, scope: str, kind: str, workload: RunningWorkload, *, seconds: float = SECONDS
) -> FoundEvents:
    """Return the Events of a workload; a failure is a sentence.

    Args:
        get: Asks the apiserver.
        scope: The path prefix of the logical cluster.
        kind: ``Deployment`` or ``StatefulSet``.
        workload: The workload.
        seconds: The time limit.
    """
    path = f"{scope}/api/v1/namespaces/{workload.namespace}/events"
    selectors = [f"involvedObject.uid={workload.uid}"]
    if kind == "Deployment":
        selectors.append("involvedObject.kind=ReplicaSet")
    queries = [{"fieldSelector": one, "limit": str(MAX_LISTED)} for one in selectors]
    try:
        async with asyncio.timeout(seconds):
            answers = await asyncio.gather(*(get("GET", path, query=one, timeout=seconds) for one in queries))
    except TimeoutError:
        return FoundEvents(problem=LATE)
    except APIError as error:
        remedy = " The console needs the right to list events." if error.code == _FORBIDDEN else ""
        return FoundEvents(problem=f"The apiserver does not list the Events: {error.message}.{remedy}")
    except (UnreachableError, ValueError) as error:
        return FoundEvents(problem=f"The Events cannot be listed: {error}.")
    return select_events(map(as_object, answers), workload)


def select_events(answers: Iterable[Mapping[str, JSON]], workload: RunningWorkload) -> FoundEvents:
    """Return the Events of a workload and of its ReplicaSets in some EventLists; their fields may have any type."""
    lists = list(answers)
    replica_set = re.compile(re.escape(workload.name) + _HASH)
    items = [one for each in lists for one in _list_objects(each.get("items"))]
    found = [one for one in items if _concerns(as_object(one.get("involvedObject")), workload.uid, replica_set)]
    events = sorted(map(_read_event, found), key=lambda one: one.last, reverse=True)
    is_complete = not any(as_object(one.get("metadata")).get("continue") for one in lists)
    return FoundEvents(events[:MAX_SHOWN], len(events), is_complete)


def _concerns(about: Mapping[str, JSON], uid: str, replica_set: re.Pattern[str]) -> bool:
    if about.get("kind") == "ReplicaSet":
        return replica_set.fullmatch(str(about.get("name"))) is not None
    return about.get("uid") == uid


def _read_event(event: Mapping[str, JSON]) -> WorkloadEvent:
    """Return an Event. Those of ``events.k8s.io`` have a series in place of a count."""
    about, series = as_object(event.get("involvedObject")), as_object(event.get("series"))
    dates = (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    times: Any = series.get("count") or event.get("count")
    return WorkloadEvent(
        str(event.get("type") or ""),
        str(event.get("reason") or ""),
        str(event.get("message") or ""),
        f"ReplicaSet {about.get('name')}" if about.get("kind") == "ReplicaSet" else "",
        times if isinstance(times, int) else 1,
        next(filter(None, map(read_since, dates)), ""),
    )
