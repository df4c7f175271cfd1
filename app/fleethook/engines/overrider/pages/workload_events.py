"""Lists the Events of a stored workload, and those of a Deployment's ReplicaSets, which create its pods."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from starlette.requests import Request

from fleethook.cluster.api_errors import APIError, UnreachableError
from fleethook.console.attention import read_since
from fleethook.console.rendering import find_context
from fleethook.console.users.local_access import LOCAL_USER, AccessError
from fleethook.console.users.permissions import require_kind
from fleethook.engines.overrider.pages.fleet import CellKey
from fleethook.engines.overrider.pages.running_workload import RunningWorkload
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSON, as_object

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
    items = [as_object(one) for each in lists for one in _list_items(each)]
    found = [one for one in items if _concerns(as_object(one.get("involvedObject")), workload.uid, replica_set)]
    events = sorted(map(_read_event, found), key=lambda one: one.last, reverse=True)
    is_complete = not any(as_object(one.get("metadata")).get("continue") for one in lists)
    return FoundEvents(events[:MAX_SHOWN], len(events), is_complete)


def _list_items(answer: Mapping[str, JSON]) -> list[JSON]:
    items = answer.get("items")
    return items if isinstance(items, list) else []


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
