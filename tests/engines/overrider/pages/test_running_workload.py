"""A stored workload is described as kubectl describes it, and a damaged one without an error.

Its page lists its Events, or says in a sentence why it does not.
"""

import asyncio
import html
import re
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast
from unittest import mock
from unittest.mock import AsyncMock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleethook.cluster.api_errors import APIError, UnreachableError
from fleethook.cluster.store import Store
from fleethook.console.context import ConsoleContext
from fleethook.console.process import console_indexes, create_console
from fleethook.engines.overrider.pages.overriders import PAGE
from fleethook.engines.overrider.pages.running_workload import (
    LATE,
    MAX_FIELDS,
    MAX_LISTED,
    MAX_SHOWN,
    FieldManager,
    FoundEvents,
    Rollout,
    WorkloadCondition,
    WorkloadEvent,
    describe_workload,
    list_events,
    select_events,
)
from tests.builders import NEW_IMAGE, workload, yurt_app_set
from tests.cluster.object_server import ObjectServer
from tests.console.users.test_permissions import Restricted
from tests.console.visits import HOSTS, visit

SINCE = "2026-11-25T21:37:00Z"


def running(status: dict[str, Any], *, generation: int = 2, replicas: int = 3) -> dict[str, Any]:
    document = workload(pool="hangzhou")
    document["metadata"] |= {"generation": generation, "creationTimestamp": SINCE}
    document["spec"]["replicas"] = replicas
    return {**document, "status": status}


@pytest.mark.parametrize(
    ("observed", "counts", "expected"),
    [
        (2, (3, 3, 3), Rollout("complete", 3, 3, 3)),
        (2, (4, 1, 3), Rollout("in progress", 3, 1, 3)),
        (2, (4, 3, 3), Rollout("in progress", 3, 3, 3)),
        (1, (3, 3, 3), Rollout("not observed", 3, 3, 3)),
    ],
)
def test_a_rollout_is_read_from_the_status(observed: int, counts: tuple[int, int, int], expected: Rollout) -> None:
    names = ("replicas", "updatedReplicas", "availableReplicas")
    status = {"observedGeneration": observed, **dict(zip(names, counts, strict=True))}
    assert describe_workload(running(status)).rollout == expected


def test_without_a_status_the_rollout_is_unknown() -> None:
    shown = describe_workload(running({}))
    assert (shown.name, shown.namespace, shown.created, shown.rollout) == (
        "demo-hangzhou-x", "default", "2026-11-25 21:37", None,
    )  # fmt: skip


def test_conditions_have_their_reason_and_time() -> None:
    stored = {"type": "Progressing", "status": "False", "reason": "R", "message": "m", "lastTransitionTime": SINCE}
    assert describe_workload(running({"conditions": [stored]})).conditions == [
        WorkloadCondition("Progressing", "False", "R", "m", "2026-11-25 21:37")
    ]


def manage(name: str, time: str, fields: dict[str, Any], **further: str) -> dict[str, Any]:
    return {"manager": name, "operation": "Update", "time": time, "fieldsV1": fields, **further}


def test_field_managers_are_listed_with_their_fields_the_last_one_first() -> None:
    document = running({})
    image = {"f:containers": {'k:{"name":"web"}': {".": {}, "f:image": {}}}}
    document["metadata"]["managedFields"] = [
        manage("yurt-manager", "2026-11-24T10:00:00Z", {"f:spec": {"f:replicas": {}, "f:template": {"f:spec": image}}}),
        manage("kubectl-edit", SINCE, {"f:metadata": {"f:finalizers": {'v:"a"': {}}}}),
        manage("kube-controller-manager", SINCE, {"f:status": {"f:replicas": {}}}, subresource="status"),
        manage("old-client", SINCE, {"f:status": {"f:replicas": {}}}),
    ]
    assert describe_workload(document).managers == [
        FieldManager("kubectl-edit", "Update", "2026-11-25 21:37", ['metadata/finalizers/["a"]'], 1),
        FieldManager(
            "yurt-manager",
            "Update",
            "2026-11-24 10:00",
            ["spec/replicas", "spec/template/spec/containers/[name=web]/image"],
            2,
        ),
    ]


def test_many_fields_are_counted() -> None:
    document = running({})
    fields = {"f:spec": {f"f:{number}": {} for number in range(50)}}
    document["metadata"]["managedFields"] = [manage("m", SINCE, fields)]
    (shown,) = describe_workload(document).managers
    assert (len(shown.fields), shown.total) == (MAX_FIELDS, 50)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(metadata=ANYTHING, status=ANYTHING, spec=ANYTHING, fields=ANYTHING)
def test_documents_with_fields_of_any_type_are_described(metadata: Any, status: Any, spec: Any, fields: Any) -> None:
    describe_workload({"metadata": metadata, "status": status, "spec": spec})
    managed = [{"manager": fields, "time": fields, "fieldsV1": fields}, fields]
    describe_workload({"metadata": {"managedFields": managed}, "status": {"conditions": [fields]}})


EVENTS = "/api/v1/namespaces/default/events"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
POOL = "namespace=default&name=demo&subject=YurtAppSet&pool=hangzhou&kind=Deployment"
RUNNING = {**workload(), "metadata": {**workload()["metadata"], "uid": "u"}}
SHOWN = describe_workload(RUNNING)
NAME = SHOWN.name


def event(name: str, about: dict[str, str], **fields: Any) -> dict[str, Any]:
    involved = {"namespace": "default", **about}
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Event", "metadata": metadata, "involvedObject": involved, **fields}


OF_WORKLOAD = event(
    "a", {"kind": "Deployment", "name": NAME, "uid": "u"}, type="Normal", reason="ScalingReplicaSet",
    message="Scaled up", count=3, lastTimestamp="2026-01-01T12:00:00Z",
)  # fmt: skip
OF_REPLICA_SET = event(
    "b", {"kind": "ReplicaSet", "name": f"{NAME}-7d4b9c5f6", "uid": "r"}, type="Warning", reason="FailedCreate",
    message="exceeded quota", series={"count": 7, "lastObservedTime": "2026-01-01T12:05:00.000000Z"},
)  # fmt: skip
OTHERS = (
    event("c", {"kind": "ReplicaSet", "name": f"{NAME}-other-7d4b9c5f6", "uid": "s"}, reason="Other"),
    event("d", {"kind": "Deployment", "name": NAME, "uid": "former"}, reason="Former"),
)
FOUND = [
    WorkloadEvent("Warning", "FailedCreate", "exceeded quota", f"ReplicaSet {NAME}-7d4b9c5f6", 7, "2026-01-01 12:05"),
    WorkloadEvent("Normal", "ScalingReplicaSet", "Scaled up", "", 3, "2026-01-01 12:00"),
]


def store_events(*events: dict[str, Any]) -> ObjectServer:
    server = ObjectServer()
    server.store(f"{DEPLOYMENTS}/{NAME}", RUNNING)
    for one in events:
        server.store(f"{EVENTS}/{one['metadata']['name']}", one)
    return server


async def test_the_events_of_a_deployment_and_its_replica_sets_are_listed_the_newest_first() -> None:
    server = store_events(OF_WORKLOAD, OF_REPLICA_SET, *OTHERS)
    assert await list_events(server.json, "", "Deployment", SHOWN) == FoundEvents(FOUND, 2)


async def test_a_stateful_set_creates_its_pods_itself() -> None:
    server = store_events(OF_WORKLOAD, OF_REPLICA_SET)
    assert await list_events(server.json, "", "StatefulSet", SHOWN) == FoundEvents(FOUND[1:], 1)
    assert server.requests == [("GET", EVENTS)]


async def test_each_list_has_a_selector_a_limit_and_a_time_limit() -> None:
    get = AsyncMock(return_value={})
    assert await list_events(get, "/clusters/root:a", "Deployment", SHOWN, seconds=3.0) == FoundEvents([])
    selectors = ["involvedObject.uid=u", "involvedObject.kind=ReplicaSet"]
    assert get.await_args_list == [
        mock.call(
            "GET",
            f"/clusters/root:a{EVENTS}",
            query={"fieldSelector": one, "limit": str(MAX_LISTED)},
            timeout=3.0,
        )
        for one in selectors
    ]


async def test_more_events_than_the_limit_are_counted_as_far_as_they_are_known() -> None:
    about = {"kind": "Deployment", "name": NAME, "uid": "u"}
    server = store_events(*(event(f"e{number:03}", about, reason="R") for number in range(MAX_LISTED + 1)))
    found = await list_events(server.json, "", "StatefulSet", SHOWN)
    assert (len(found.events), found.total, found.is_complete) == (MAX_SHOWN, MAX_LISTED, False)


@pytest.mark.parametrize(
    ("failure", "problem"),
    [
        (
            APIError(403, "Forbidden", "events is forbidden"),
            "The apiserver does not list the Events: events is forbidden. The console needs the right to list events.",
        ),
        (APIError(500, "", "broken"), "The apiserver does not list the Events: broken."),
        (UnreachableError("connection refused"), "The Events cannot be listed: connection refused."),
    ],
)
async def test_a_failure_is_a_sentence(failure: Exception, problem: str) -> None:
    server = store_events(OF_WORKLOAD)
    server.error = failure
    assert await list_events(server.json, "", "Deployment", SHOWN) == FoundEvents(problem=problem)


async def test_a_page_does_not_wait_for_an_apiserver_that_does_not_answer() -> None:
    async def hang(*_: Any, **__: Any) -> None:
        await asyncio.Event().wait()

    assert await list_events(hang, "", "Deployment", SHOWN, seconds=0.01) == FoundEvents(problem=LATE)


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"items": None},
        {"items": [None, 5, {}, {"involvedObject": None}, {"involvedObject": []}]},
        {"items": {}, "metadata": 5},
    ],
)
def test_answers_of_any_shape_have_no_events(answer: Any) -> None:
    assert select_events([answer], SHOWN) == FoundEvents([])


def test_an_event_with_fields_of_any_type_is_shown() -> None:
    about = {"kind": "Deployment", "uid": "u"}
    damaged: dict[str, Any] = {
        "involvedObject": about,
        "reason": None,
        "count": "5",
        "series": [],
        "lastTimestamp": None,
    }
    dated = {**damaged, "eventTime": "2026-01-01T12:00:00.5Z"}
    assert select_events([{"items": [damaged, dated]}], SHOWN).events == [
        WorkloadEvent("", "", "", "", 1, "2026-01-01 12:00"),
        WorkloadEvent("", "", "", "", 1, ""),
    ]


async def open_page(server: ObjectServer, *, x_user: str = "", **fields: Any) -> str:
    store = Store(console_indexes())
    for one in (yurt_app_set(), NEW_IMAGE, RUNNING):
        store.put(one)
    source = SimpleNamespace(scope=lambda _cluster: "", parts=lambda: ())
    cluster = cast("Any", SimpleNamespace(source=source, connection=server))
    app = create_console(ConsoleContext(store, cluster=cluster, **fields), hosts=HOSTS)
    answer = await visit(app, "/overriders/pool", query=POOL, x_user=x_user)
    assert answer.status == 200
    return " ".join(html.unescape(re.sub(r"<[^>]*>", "", answer.body.decode())).split())


async def test_the_page_of_a_workload_shows_its_events() -> None:
    now = datetime(2026, 1, 1, 14, 5, tzinfo=UTC)
    page = await open_page(store_events(OF_WORKLOAD, OF_REPLICA_SET), clock=lambda: now)
    failed = "exceeded quota 2026-01-01 12:05 UTC (2 h ago), 7 times"
    assert f"FailedCreate of ReplicaSet {NAME}-7d4b9c5f6: {failed}" in page
    assert "ScalingReplicaSet: Scaled up 2026-01-01 12:00 UTC (2 h ago), 3 times" in page


async def test_a_workload_that_the_console_may_not_read_is_no_missing_one() -> None:
    server = store_events()
    server.error = APIError(403, "Forbidden", "deployments is forbidden")
    page = await open_page(server)
    assert f"Deployment {NAME} is stored, but the console cannot read it" in page
    assert "No workload of this node pool is stored" not in page


async def test_a_user_without_the_right_for_events_sees_the_rest_of_the_page() -> None:
    page = await open_page(store_events(OF_WORKLOAD), authorizer=Restricted(*PAGE.section.kinds), x_user="jane")
    assert "The Events are not shown: user 'jane' may not get Event in namespace default" in page
    assert "Scaled up" not in page
