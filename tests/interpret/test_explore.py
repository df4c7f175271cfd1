"""The routes of interpreters: both shapes, all operations, and what is no review."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from app.asgi import Fleethook, create_app
from app.model.karmada import OPERATIONS, Operation
from app.patch import apply
from app.settings import Settings
from tests.asgi_client import Answer, call
from tests.serving import EXAMPLES

DEPLOYMENT = {
    "apiVersion": "apps/v1", "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "shop", "generation": 2, "uid": "u",
                 "annotations": {"resourcetemplate.karmada.io/generation": "4"}},
    "spec": {"template": {"spec": {
        "serviceAccountName": "web", "containers": [{"name": "c", "resources": {"requests": {"cpu": "250m"}}}]}}},
    "status": {"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2},
}  # fmt: skip
ITEMS = [{"clusterName": "m1", "status": {"replicas": 1}}, {"clusterName": "m2", "status": {"replicas": 2}}]


@pytest.fixture
def app() -> Fleethook:
    return create_app(Settings(), log=None)


async def ask(app: Fleethook, path: str, kind: str, request: dict[str, Any], query: bytes = b"") -> Answer:
    review = {"apiVersion": "config.karmada.io/v1alpha1", "kind": kind, "request": {"uid": "u-1", **request}}
    return await call(app, path, json.dumps(review).encode(), query=query)


async def explored(app: Fleethook, operation: str, **request: Any) -> dict[str, Any]:
    answer = await ask(app, "/explore", "ExploreReview", {"operation": operation, "object": DEPLOYMENT, **request})
    assert answer.status == 200
    document = answer.json()
    assert (document["apiVersion"], document["kind"]) == ("config.karmada.io/v1alpha1", "ExploreReview")
    response: dict[str, Any] = document["response"]
    assert response["uid"] == "u-1"
    return response


async def interpreted(app: Fleethook, operation: str, **request: Any) -> dict[str, Any]:
    given = {"operation": operation, "object": DEPLOYMENT, "replicas": 0, **request}
    answer = await ask(app, "/interpret", "ResourceInterpreterContext", given)
    assert answer.status == 200
    response: dict[str, Any] = answer.json()["response"]
    return response


def changed(response: dict[str, Any]) -> Any:
    assert response["patchType"] == "JSONPatch"
    return apply(DEPLOYMENT, json.loads(base64.b64decode(response["patch"])))


async def test_all_eight_operations_of_the_proposal(app: Fleethook) -> None:
    assert await explored(app, "ExploreReplica") == {
        "uid": "u-1", "successful": True, "replicas": 0, "replicaRequirements": {"resourceRequest": {"cpu": "250m"}},
    }  # fmt: skip
    status = (await explored(app, "ExploreStatus"))["status"]
    assert (status["generation"], status["resourceTemplateGeneration"], status["replicas"]) == (2, 4, 2)
    packed = changed(await explored(app, "ExplorePacking"))
    assert "status" not in packed
    assert packed["metadata"].keys() == {"name", "namespace", "annotations"}
    assert changed(await explored(app, "ExploreReplicaRevising", replicas=5))["spec"]["replicas"] == 5
    retained = await explored(app, "ExploreRetaining", observedObject={**DEPLOYMENT, "spec": {"replicas": 9}})
    assert "patch" not in retained
    assert changed(await explored(app, "ExploreStatusAggregating", aggregatedStatus=ITEMS))["status"]["replicas"] == 3
    assert (await explored(app, "ExploreHealthy"))["healthy"] is True
    assert (await explored(app, "ExploreDependencies"))["dependencies"] == [
        {"apiVersion": "v1", "kind": "ServiceAccount", "namespace": "shop", "name": "web"}
    ]


async def test_the_same_in_the_shape_that_was_shipped(app: Fleethook) -> None:
    assert await interpreted(app, "InterpretHealth") == {
        "uid": "u-1", "successful": True, "status": {"code": 200}, "healthy": True,
    }  # fmt: skip
    assert (await interpreted(app, "InterpretStatus"))["rawStatus"]["replicas"] == 2
    failed = await interpreted(app, "InterpretComponent")
    assert (failed["successful"], failed["status"]["code"]) == (False, 404)
    assert (
        'default InterpretComponent interpreter for "apps/v1, Kind=Deployment" not found' in failed["status"]["message"]
    )


@pytest.mark.parametrize("row", OPERATIONS, ids=lambda row: row.proposed)
async def test_each_operation_has_the_same_answer_under_both_names(app: Fleethook, row: Any) -> None:
    given = {"replicas": 3, "observedObject": DEPLOYMENT, "aggregatedStatus": ITEMS}
    proposed = await explored(app, row.proposed, **given)
    shipped = await interpreted(app, row.operation, **given)
    if row.operation is Operation.STATUS:
        shipped["status"] = shipped.pop("rawStatus")
    elif proposed["successful"]:
        assert shipped.pop("status") == {"code": 200}
    else:
        shipped |= shipped.pop("status")
    assert proposed == shipped


async def test_an_object_without_status_has_an_empty_one(app: Fleethook) -> None:
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    assert (await explored(app, "ExploreStatus", object=document))["status"] == {}


async def test_the_proposals_example_hooks(app: Fleethook) -> None:
    review = (EXAMPLES / "interpreter" / "review.json").read_bytes()
    response = (await call(app, "/explore-foo", review)).json()["response"]
    assert json.loads(base64.b64decode(response["patch"])) == [{"op": "replace", "path": "/spec/size", "value": 5}]
    bar = {
        "apiVersion": "bar.example.com/v1alpha1", "kind": "Bar", "metadata": {"name": "b"},
        "spec": {"namespace": "ns", "configMapName": "c", "secretName": "s", "wanted": 2}, "status": {"ready": 1},
    }  # fmt: skip
    for operation, member, expected in (
        ("ExploreHealthy", "healthy", False),
        ("ExploreDependencies", "dependencies", [
            {"apiVersion": "v1", "kind": "ConfigMap", "namespace": "ns", "name": "c"},
            {"apiVersion": "v1", "kind": "Secret", "namespace": "ns", "name": "s"},
        ]),
    ):  # fmt: skip
        answer = await ask(app, "/explore-bar", "ExploreReview", {"operation": operation, "object": bar})
        assert answer.json()["response"][member] == expected
    answer = await ask(app, "/explore-bar", "ExploreReview", {"operation": "ExploreReplica", "object": bar})
    assert answer.json()["response"]["code"] == 404


async def test_explanations_say_which_layer_answered(app: Fleethook) -> None:
    request = {"operation": "ExploreHealthy", "object": DEPLOYMENT}
    answer = (await ask(app, "/explore", "ExploreReview", request, query=b"explain=1")).json()
    assert [step["outcome"] for step in answer["explanation"]] == [*["none"] * 4, "answered"]
    assert (answer["explanation"][-1]["layer"], answer["explanation"][-1]["hook"]) == ("native", "workload")
    for query in (b"", b"explain=0", b"timeout=3s"):
        assert "explanation" not in (await ask(app, "/explore", "ExploreReview", request, query=query)).json()


@pytest.mark.parametrize(
    ("request_fields", "code", "text"),
    [
        ({"operation": "Explore"}, 400, "request.operation 'Explore' is unknown: use one of ExploreComponent, "),
        ({"operation": "ExploreHealthy", "object": None}, 400, "request.object is missing"),
        ({"operation": "ExploreHealthy", "object": []}, 400, "request.object is missing or not an object"),
        ({"operation": "ExploreHealthy", "object": {}}, 400, "request.object has no apiVersion and kind"),
        ({"operation": "ExploreHealthy", "object": {**DEPLOYMENT, "metadata": 7}}, 400, "metadata is not an object"),
        ({"operation": "ExploreHealthy", "kind": {"group": "", "version": "v1", "kind": "Pod"}}, 400, "request.kind is"),
        ({"operation": "ExploreRetaining"}, 400, "request.observedObject is missing"),
        ({"operation": "ExploreReplicaRevising"}, 400, "request.replicas is missing"),
        ({"operation": "ExploreReplicaRevising", "replicas": -1}, 400, "request.replicas is -1"),
        ({"operation": "ExploreReplicaRevising", "replicas": "3"}, 400, "cannot be read: Expected `int | null`"),
        ({"operation": "ExploreStatusAggregating", "aggregatedStatus": [7]}, 400, "cannot be read"),
        ({"operation": "ExploreHealthy", "object": {**DEPLOYMENT, "status": {"replicas": 1, "observedGeneration": "2"}}},
         422, ".status.observedGeneration accessor error: it is of type string, expected integer"),
        ({"operation": "ExploreReplica", "object": {**DEPLOYMENT, "spec": {"replicas": -1}}},
         422, "replicas is -1, expected a replica count from 0 to 2147483647"),
    ],
)  # fmt: skip
async def test_what_cannot_be_answered_is_said_to_its_uid(
    app: Fleethook, request_fields: dict[str, Any], code: int, text: str
) -> None:
    answer = await ask(app, "/explore", "ExploreReview", {"object": DEPLOYMENT, **request_fields})
    response = answer.json()["response"]
    assert (answer.status, response["uid"], response["successful"], response["code"]) == (200, "u-1", False, code)
    assert text in response["message"]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", "not JSON"),
        (b"[]", "not a review"),
        (b'{"apiVersion":"v1","kind":"Pod"}', "not a review"),
        (b'{"apiVersion":"config.karmada.io/v1alpha1","kind":"ExploreReview"}', "no request with a uid"),
        (b'{"apiVersion":"config.karmada.io/v1alpha1","kind":"ExploreReview","request":{"operation":"x"}}', "cannot be answered"),
        (b'{"request":' + b"[" * 100_000, "not JSON"),
    ],
)  # fmt: skip
async def test_what_is_no_review_is_400(app: Fleethook, body: bytes, text: str) -> None:
    answer = await call(app, "/interpret", body)
    assert answer.status == 400
    assert text in answer.json()["message"] or "nested" in answer.json()["message"]


async def test_a_users_interpreter_is_loaded_and_asked(tmp_path: Path) -> None:
    source = str(EXAMPLES / "interpreter" / "database.py")
    app = create_app(Settings(interpreters=[source]), log=None)
    database = {
        "apiVersion": "db.example.com/v1", "kind": "Database", "metadata": {"name": "d", "namespace": "n"},
        "spec": {"members": 3, "credentials": "c"},
    }  # fmt: skip
    assert (await explored(app, "ExploreReplica", object=database))["replicas"] == 3
    response = await explored(app, "ExploreReplicaRevising", object=database, replicas=1)
    assert json.loads(base64.b64decode(response["patch"])) == [{"op": "replace", "path": "/spec/members", "value": 1}]
    broken = await explored(app, "ExploreHealthy", object={**database, "spec": 7})
    assert (broken["successful"], broken["code"]) == (False, 500)
    assert broken["message"].startswith("database.py:21: AttributeError")


async def test_a_log_line_says_who_answered() -> None:
    lines: list[dict[str, Any]] = []
    app = create_app(Settings(), log=lambda line: lines.append(json.loads(line)))
    await explored(app, "ExploreHealthy")
    (line,) = lines
    assert (line["msg"], line["layer"], line["hook"], line["operation"], line["gvk"], line["successful"]) == (
        "interpret", "native", "workload", "InterpretHealth", "apps/v1/Deployment", True,
    )  # fmt: skip
