"""The routes of interpreters: both kinds of reviews, all operations, and bodies that are not reviews."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from fleethook.app import Fleethook, create_app
from fleethook.engines.interpret.review.answer_validation import validate_answer
from fleethook.engines.interpret.review.interpret_endpoint import decode_review, encode_answer, read_question
from fleethook.engines.interpret.webhooks.webhook_layer import build_review, read_response
from fleethook.interpret.interpreter import Answer, Question
from fleethook.model.gvk import GroupVersionKind
from fleethook.model.karmada import OPERATIONS, PATCHING, Operation, operation_named, proposed_name
from fleethook.patch import apply
from fleethook.settings import Settings
from tests.asgi_client import Answer as Response
from tests.asgi_client import call
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


async def ask(app: Fleethook, path: str, kind: str, request: dict[str, Any], query: bytes = b"") -> Response:
    review = {"apiVersion": "config.karmada.io/v1alpha1", "kind": kind, "request": {"uid": "u-1", **request}}
    return await call(app, path, json.dumps(review).encode(), query=query)


async def explore(app: Fleethook, operation: str, **request: Any) -> dict[str, Any]:
    answer = await ask(app, "/explore", "ExploreReview", {"operation": operation, "object": DEPLOYMENT, **request})
    assert answer.status == 200
    document = answer.json()
    assert (document["apiVersion"], document["kind"]) == ("config.karmada.io/v1alpha1", "ExploreReview")
    response: dict[str, Any] = document["response"]
    assert response["uid"] == "u-1"
    return response


async def interpret(app: Fleethook, operation: str, **request: Any) -> dict[str, Any]:
    given = {"operation": operation, "object": DEPLOYMENT, "replicas": 0, **request}
    answer = await ask(app, "/interpret", "ResourceInterpreterContext", given)
    assert answer.status == 200
    response: dict[str, Any] = answer.json()["response"]
    return response


def apply_patch(response: dict[str, Any]) -> Any:
    assert response["patchType"] == "JSONPatch"
    return apply(DEPLOYMENT, json.loads(base64.b64decode(response["patch"])))


async def test_explore_review_supports_all_operations_of_the_proposal(app: Fleethook) -> None:
    assert await explore(app, "ExploreReplica") == {
        "uid": "u-1", "successful": True, "replicas": 0, "replicaRequirements": {"resourceRequest": {"cpu": "250m"}},
    }  # fmt: skip
    status = (await explore(app, "ExploreStatus"))["status"]
    assert (status["generation"], status["resourceTemplateGeneration"], status["replicas"]) == (2, 4, 2)
    packed = apply_patch(await explore(app, "ExplorePacking"))
    assert "status" not in packed
    assert packed["metadata"].keys() == {"name", "namespace", "annotations"}
    assert apply_patch(await explore(app, "ExploreReplicaRevising", replicas=5))["spec"]["replicas"] == 5
    retained = await explore(app, "ExploreRetaining", observedObject={**DEPLOYMENT, "spec": {"replicas": 9}})
    assert "patch" not in retained
    assert (
        apply_patch(await explore(app, "ExploreStatusAggregating", aggregatedStatus=ITEMS))["status"]["replicas"] == 3
    )
    assert (await explore(app, "ExploreHealthy"))["healthy"] is True
    assert (await explore(app, "ExploreDependencies"))["dependencies"] == [
        {"apiVersion": "v1", "kind": "ServiceAccount", "namespace": "shop", "name": "web"}
    ]


async def test_interpreter_context_has_the_shipped_members(app: Fleethook) -> None:
    assert await interpret(app, "InterpretHealth") == {
        "uid": "u-1", "successful": True, "status": {"code": 200}, "healthy": True,
    }  # fmt: skip
    assert (await interpret(app, "InterpretStatus"))["rawStatus"]["replicas"] == 2
    failed = await interpret(app, "InterpretComponent")
    assert (failed["successful"], failed["status"]["code"]) == (False, 404)
    assert (
        'default InterpretComponent interpreter for "apps/v1, Kind=Deployment" not found' in failed["status"]["message"]
    )


@pytest.mark.parametrize("row", OPERATIONS, ids=lambda row: row.proposed)
async def test_each_operation_has_the_same_answer_under_both_names(app: Fleethook, row: Any) -> None:
    given = {"replicas": 3, "observedObject": DEPLOYMENT, "aggregatedStatus": ITEMS}
    proposed = await explore(app, row.proposed, **given)
    shipped = await interpret(app, row.operation, **given)
    if row.operation is Operation.STATUS:
        shipped["status"] = shipped.pop("rawStatus")
    elif proposed["successful"]:
        assert shipped.pop("status") == {"code": 200}
    else:
        shipped |= shipped.pop("status")
    assert proposed == shipped


async def test_object_without_status_has_an_empty_status(app: Fleethook) -> None:
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    assert (await explore(app, "ExploreStatus", object=document))["status"] == {}


async def test_example_hooks_of_the_proposal_answer(app: Fleethook) -> None:
    review = (EXAMPLES / "testdata" / "review-interpreter.json").read_bytes()
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
    assert (answer["explanation"][-1]["layer"], answer["explanation"][-1]["hook"]) == ("native", "deployment")
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
async def test_malformed_request_is_answered_to_its_uid(
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
async def test_body_that_is_not_a_review_is_400(app: Fleethook, body: bytes, text: str) -> None:
    answer = await call(app, "/interpret", body)
    assert answer.status == 400
    assert text in answer.json()["message"] or "nested" in answer.json()["message"]


async def test_python_interpreter_of_a_user_answers(tmp_path: Path) -> None:
    source = str(EXAMPLES / "interpreter" / "database.py")
    app = create_app(Settings(interpreters=[source]), log=None)
    database = {
        "apiVersion": "db.example.com/v1", "kind": "Database", "metadata": {"name": "d", "namespace": "n"},
        "spec": {"members": 3, "credentials": "c"},
    }  # fmt: skip
    assert (await explore(app, "ExploreReplica", object=database))["replicas"] == 3
    response = await explore(app, "ExploreReplicaRevising", object=database, replicas=1)
    assert json.loads(base64.b64decode(response["patch"])) == [{"op": "replace", "path": "/spec/members", "value": 1}]
    broken = await explore(app, "ExploreHealthy", object={**database, "spec": 7})
    assert (broken["successful"], broken["code"]) == (False, 500)
    assert broken["message"].startswith("database.py:21: AttributeError")


async def test_log_line_names_layer_and_hook() -> None:
    lines: list[dict[str, Any]] = []
    app = create_app(Settings(), log=lambda line: lines.append(json.loads(line)))
    await explore(app, "ExploreHealthy")
    (line,) = lines
    assert (line["msg"], line["layer"], line["hook"], line["operation"], line["gvk"], line["successful"]) == (
        "interpret", "native", "deployment", "InterpretHealth", "apps/v1/Deployment", True,
    )  # fmt: skip


KIND = GroupVersionKind("foo.example.com", "v1", "Foo")
FOO = {
    "apiVersion": "foo.example.com/v1",
    "kind": "Foo",
    "metadata": {"name": "a", "namespace": "n"},
    "spec": {"size": 1},
}
CHANGED = {**FOO, "spec": {"size": 2, "list": [1, None, {}]}}
ITEM = {"clusterName": "m", "status": {"a": None, "b": [], "c": 2**53 + 1}, "applied": True, "health": "Healthy"}

QUESTIONS = {
    Operation.RETAIN: Question(Operation.RETAIN, KIND, FOO, observed=CHANGED),
    Operation.REVISE_REPLICA: Question(Operation.REVISE_REPLICA, KIND, FOO, replicas=3),
    Operation.AGGREGATE_STATUS: Question(Operation.AGGREGATE_STATUS, KIND, FOO, items=[ITEM]),
}
ANSWERS: dict[Operation, dict[str, Any]] = {
    Operation.REPLICA: {"replicas": 0, "requirements": {"resourceRequest": {"cpu": "1"}}},
    Operation.COMPONENT: {"components": [{"name": "c", "replicas": 2}]},
    Operation.STATUS: {"status": {"phase": "x", "none": None, "empty": {}}},
    Operation.HEALTH: {"healthy": False},
    Operation.DEPENDENCY: {"dependencies": [{"apiVersion": "v1", "kind": "Secret", "namespace": "n", "name": "s"}]},
}


@pytest.mark.parametrize("proposed", [True, False], ids=["proposed", "shipped"])
@pytest.mark.parametrize("operation", Operation)
def test_question_and_answer_survive_encoding_and_decoding(operation: Operation, proposed: bool) -> None:
    question = QUESTIONS.get(operation, Question(operation, KIND, FOO))
    body = json.dumps(build_review(question, uid="u-1", proposed=proposed)).encode()
    asked = decode_review(body)
    read = read_question(asked)
    assert read == question
    answer = Answer(**({"object": CHANGED} if operation in PATCHING else ANSWERS[operation]))
    text = encode_answer(asked, read, answer, None)
    assert validate_answer(question, read_response(text, question, uid="u-1", proposed=proposed)) == answer


@pytest.mark.parametrize("operation", Operation)
def test_operation_names_are_mapped_both_ways(operation: Operation) -> None:
    assert operation_named(proposed_name(operation)) is operation
    assert operation_named(operation.value) is operation
