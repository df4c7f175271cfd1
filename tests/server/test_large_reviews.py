"""Work on large reviews, and checks, run in threads; only reads of the store run on the event loop."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fleethook.app import Fleethook, create_app
from fleethook.cluster.registration import paths
from fleethook.engines.interpret.interpreter_chain import Chain, PythonLayer
from fleethook.engines.interpret.lua.lua_machine import Machine
from fleethook.engines.interpret.lua.script_layer_and_runner import Runner
from fleethook.engines.interpret.native.native_kinds import NativeLayer
from fleethook.engines.interpret.review.interpret_endpoint import InterpretEndpoint, encode_answer, read_question
from fleethook.engines.overrider.render.workload_render_and_name_conflicts import render_selected, select_plan
from fleethook.engines.overrider.rules import trial_render
from fleethook.engines.overrider.rules.schema_and_binding_rules import (
    check_fit,
    check_overrider,
    check_rules,
    pools_to_check,
)
from fleethook.engines.overrider.rules.trial_render import dry_run_overrider
from fleethook.engines.overrider.subject.bound_overriders import overriders_of
from fleethook.engines.overrider.subject.subject_and_pools import find_subject
from fleethook.interpret.interpreter import interpreter
from fleethook.model.admission import MAX_NAME, AdmissionRequest, Response, allowed
from fleethook.server.metrics import Metrics
from fleethook.server.reviews.admission_endpoint import AdmissionEndpoint
from fleethook.server.reviews.review_codec import decode_review, encode_response
from fleethook.server.reviews.review_endpoint import MAX_ON_LOOP
from fleethook.settings import Settings
from tests.asgi_client import call
from tests.builders import entry, image, overrider, pool, workload, yurt_app_set
from tests.engines.dispatch.builders import configuration, definition, webhook, widget
from tests.engines.dispatch.builders import review as asked
from tests.engines.dispatch.webhook_server import deny, webhooks
from tests.watched_calls import on_loop, watch_calls

SIZES = {"small": 0, "large": MAX_ON_LOOP}


def review(document: dict[str, Any], size: int, **request: Any) -> bytes:
    """Return a review of an object with an annotation of ``size`` bytes."""
    metadata = {**document["metadata"], "annotations": {"a": "a" * size}}
    group, _, version = document["apiVersion"].rpartition("/")
    body = {
        "uid": "u-1", "operation": "CREATE", "namespace": "default",
        "kind": {"group": group, "version": version, "kind": document["kind"]},
        "object": {**document, "metadata": metadata}, **request,
    }  # fmt: skip
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": body}).encode()


def endpoint(handler: Any, **rest: Any) -> AdmissionEndpoint:
    return AdmissionEndpoint("/r", handler, metrics=Metrics(), body_limit=1 << 20, log=None, **rest)


@pytest.mark.parametrize("size", SIZES)
async def test_a_handler_that_reads_only_the_review_runs_in_a_thread(size: str) -> None:
    seen = []

    def handler(_: AdmissionRequest) -> Response:
        seen.append(on_loop())
        return allowed()

    answer = await call(endpoint(handler, pure=True), "/r", review(workload(), SIZES[size]))
    assert answer.json()["response"] == {"uid": "u-1", "allowed": True}
    assert seen == [size == "small"]


@pytest.mark.parametrize("size", SIZES)
async def test_functions_of_a_handler_run_in_a_thread(size: str) -> None:
    seen = []

    def prepare() -> None:
        seen.append(on_loop())

    def answer() -> Response:
        seen.append(on_loop())
        return allowed()

    def handler(_: AdmissionRequest) -> Any:
        seen.append(on_loop())
        return prepare if len(seen) == 1 else answer

    response = await call(endpoint(handler), "/r", review(workload(), SIZES[size]))
    assert response.json()["response"]["allowed"]
    assert seen == [True, False, True, False]


async def test_a_large_review_that_fails_is_answered() -> None:
    def broken() -> Response:
        raise RecursionError

    response = (await call(endpoint(lambda _: broken), "/r", review(workload(), MAX_ON_LOOP))).json()["response"]
    assert not response["allowed"]
    assert response["status"]["message"] == "the object under review is nested too deep"


RULE = overrider(entry("*", items=[image("nginx", "nginx:2.0")]))


def served(*documents: dict[str, Any]) -> Fleethook:
    app = create_app(Settings(), log=None)
    for document in documents:
        app.store.put(document)
    return app


@pytest.mark.parametrize("size", SIZES)
async def test_a_large_workload_is_rendered_in_a_thread(size: str) -> None:
    with watch_calls(select_plan, render_selected) as seen:
        answer = await call(served(yurt_app_set(), RULE), paths.MUTATE_DEPLOYMENT, review(workload(), SIZES[size]))
    assert answer.json()["response"]["patch"]
    assert seen == {"select_plan": [True], "render_selected": [size == "small"]}


@pytest.mark.parametrize("size", SIZES)
async def test_an_overrider_is_checked_in_a_thread(size: str) -> None:
    with watch_calls(find_subject, check_rules, dry_run_overrider) as seen:
        answer = await call(served(yurt_app_set()), paths.VALIDATE_OVERRIDER, review(RULE, SIZES[size]))
    assert answer.json()["response"]["allowed"]
    assert {name: set(found) for name, found in seen.items()} == {
        "find_subject": {True}, "check_rules": {False}, "dry_run_overrider": {False},
    }  # fmt: skip


@pytest.mark.parametrize("size", SIZES)
async def test_an_edit_of_a_subject_is_checked_in_a_thread(size: str) -> None:
    old = yurt_app_set()
    edited = {**old, "spec": {**old["spec"], "revisionHistoryLimit": 3}}
    body = review(edited, SIZES[size], operation="UPDATE", oldObject=old)
    with watch_calls(overriders_of, pools_to_check, check_fit) as seen:
        answer = await call(served(old, RULE), paths.VALIDATE_APP_SET, body)
    assert answer.json()["response"]["allowed"]
    assert {name: set(found) for name, found in seen.items()} == {
        "overriders_of": {True}, "pools_to_check": {False}, "check_fit": {False},
    }  # fmt: skip


@pytest.mark.parametrize("limit", ["_MAX_RENDERED", "MAX_TEMPLATE_VALUES", "MAX_SHARED_VALUES"])
def test_a_subject_with_too_many_values_is_not_rendered(monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    monkeypatch.setattr(trial_render, limit, 0)
    subject = yurt_app_set(pools=[pool("a", patch={"spec": {"paused": True}}), pool("b")])
    answer = check_overrider(RULE, cluster="", namespace="default", store=served(subject).store)
    assert [one.code for one in answer] == ["not-checked"]
    assert answer[0].message.startswith("not checked: the templates have more than")


@pytest.mark.parametrize("size", SIZES)
async def test_scripts_are_compiled_in_a_thread(size: str) -> None:
    script = f"function GetReplicas(o) return 1, nil end -- {'x' * SIZES[size]}"
    customizations = {"replicaResource": {"luaScript": script}}
    document = {
        "apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterCustomization", "metadata": {"name": "a"},
        "spec": {"target": {"apiVersion": "example.org/v1", "kind": "Foo"}, "customizations": customizations},
    }  # fmt: skip
    with watch_calls(Runner.try_at_once) as seen:
        answer = await call(served(), paths.VALIDATE_CUSTOMIZATION, review(document, 0))
    assert answer.json()["response"]["allowed"], answer.body
    assert seen == {"try_at_once": [False]}
    taken = {**document, "metadata": {"name": "b"}}
    answer = await call(served(taken), paths.VALIDATE_CUSTOMIZATION, review(document, 0))
    assert "conflicting with" in answer.json()["response"]["status"]["message"]


def question(kind: str, operation: str, size: int, **request: Any) -> bytes:
    document = {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "a", "annotations": {"a": "a" * size}}}
    asked = {"uid": "u-1", "operation": operation, "object": {**document, "spec": {"replicas": 3}}, **request}
    review = {"apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterContext", "request": asked}
    return json.dumps(review).encode()


@pytest.mark.parametrize("size", SIZES)
async def test_large_questions_are_answered_in_a_thread(size: str) -> None:
    made = interpreter("apps/v1", "Foo")

    @made.replicas
    def replicas(document: dict[str, Any]) -> int:
        return int(document["spec"]["replicas"])

    chain = Chain([PythonLayer([made]), NativeLayer()])
    asked = InterpretEndpoint("/i", chain, metrics=Metrics(), body_limit=1 << 20, log=None)
    with watch_calls(replicas, read_question, encode_answer) as seen:
        for kind in ("Foo", "Deployment"):
            answer = await call(asked, "/i", question(kind, "InterpretReplica", SIZES[size]))
            assert answer.json()["response"]["replicas"] == 3
    here = size == "small"
    assert seen == {"replicas": [here], "read_question": [here, here], "encode_answer": [here, here]}


@pytest.mark.parametrize("size", SIZES)
async def test_scripts_on_large_objects_run_on_their_threads(size: str) -> None:
    body = question("StatefulSet", "InterpretHealth", SIZES[size]).replace(b"apps/v1", b"apps.kruise.io/v1beta1")
    with watch_calls(Machine.call) as seen:
        answer = await call(create_app(Settings(), log=None), paths.INTERPRET, body)
    assert answer.json()["response"]["status"] == {"code": 200}, answer.body
    assert seen == {"call": [size == "small"]}


@pytest.mark.parametrize("member", ["uid", "name", "namespace", "subResource", "kind", "resource"])
async def test_a_name_with_too_many_characters_is_refused(member: str) -> None:
    long = "a" * (MAX_NAME + 1)
    value: Any = {member: long} if member in ("kind", "resource") else long
    answer = await call(served(), paths.MUTATE_DEPLOYMENT, review(workload(), 0, **{member: value}))
    if member == "uid":
        assert (answer.status, long in answer.body.decode()) == (400, False)
        return
    response = answer.json()["response"]
    assert not response["allowed"]
    assert f"of length <= {MAX_NAME}" in response["status"]["message"]


async def test_long_names_are_cut_in_a_log_line() -> None:
    lines: list[bytes] = []
    app = create_app(Settings(), log=lines.append)
    document = {**workload(), "metadata": {"generateName": "a" * 100_000, "labels": []}}
    await call(app, paths.MUTATE_DEPLOYMENT, review(document, 0))
    assert len(lines) == 1
    assert len(lines[0]) < 4096


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("path", [paths.MUTATE_DEPLOYMENT, "/clusters/ws1/validate"])
async def test_large_reviews_are_decoded_and_answers_encoded_in_a_thread(path: str, size: str) -> None:
    with watch_calls(decode_review, encode_response) as seen:
        answer = await call(served(), path, review(workload(), SIZES[size]))
    assert answer.json()["response"]["uid"] == "u-1"
    assert seen == {"decode_review": [size == "small"], "encode_response": [size == "small"]}


@pytest.mark.parametrize("size", SIZES)
async def test_large_reviews_are_encoded_for_webhooks_in_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: str
) -> None:
    seen, encode = [], msgspec.json.encode

    def noted(value: Any, **named: Any) -> bytes:
        if isinstance(value, dict) and value.get("kind") == "AdmissionReview":
            seen.append(on_loop())
        return encode(value, **named)

    monkeypatch.setattr(msgspec.json, "encode", noted)
    async with webhooks(tmp_path) as server:
        server.answers["/w"] = deny("no")
        hook = webhook(clientConfig=server.client_config("/w"))
        app = served(configuration("ws1", "validating", hook), definition("ws1", "widgets.example.org", "v1"))
        made = asked(widget(text="a" * 10 * SIZES[size]))
        async with app.router.lifespan_context(app):
            answer = await call(app, "/clusters/ws1/validate", json.dumps(made).encode())
    assert "no" in answer.json()["response"]["status"]["message"]
    assert len(server.calls) == 1
    assert seen == [size == "small"]
