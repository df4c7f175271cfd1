"""Hooks of configurations, called over TLS: a real server answers correctly, wrongly, late and never."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from aiohttp import web

from fleethook.app import Fleethook, create_app
from fleethook.cluster.store import Store
from fleethook.engines.interpret.interpreter_chain import IgnoredError
from fleethook.engines.interpret.webhooks.interpreter_webhooks_and_registration import INDEXES
from fleethook.engines.interpret.webhooks.webhook_layer import RecordedWebhookLayer
from fleethook.interpret.interpreter import InterpretError
from fleethook.model.karmada import Operation
from fleethook.outbound.calls_and_retries import HookClient
from fleethook.recordings.recording_format import RecordedCall
from fleethook.recordings.replay.review_replay import ReviewCalls, current_calls, find_current
from fleethook.settings import Settings
from tests.asgi_client import call
from tests.hook_server import Hook, run_hook

FOO = {
    "apiVersion": "foo.example.com/v1alpha1", "kind": "Foo",
    "metadata": {"name": "a", "namespace": "default"}, "spec": {"size": 1},
}  # fmt: skip


def make_configuration(hook: Hook, name: str = "foo.example.com", **webhook: Any) -> dict[str, Any]:
    rule = {
        "operations": ["*"], "apiGroups": ["foo.example.com"], "apiVersions": ["*"], "resources": ["foos"],
        "scope": "Namespaced", **webhook.pop("rule", {}),
    }  # fmt: skip
    made = {
        "name": name, "rules": [rule], "exploreReviewVersions": ["v1alpha1"], "timeoutSeconds": 25,
        "clientConfig": {"url": f"https://127.0.0.1:{hook.port}/hook", "caBundle": hook.ca_bundle}, **webhook,
    }  # fmt: skip
    return {
        "apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceExploringWebhookConfiguration",
        "metadata": {"name": f"config-{name}"}, "webhooks": [made],
    }  # fmt: skip


@pytest.fixture
async def hook(tmp_path: Path) -> AsyncIterator[Hook]:
    async with run_hook(tmp_path) as running:
        yield running


@pytest.fixture
async def app(hook: Hook) -> AsyncIterator[Fleethook]:
    made = create_app(Settings(), log=None)
    made.store.put(make_configuration(hook))
    async with made.router.lifespan_context(made):
        yield made


async def explore(app: Fleethook, operation: str, document: Any = None, **request: Any) -> dict[str, Any]:
    review = {
        "apiVersion": "config.karmada.io/v1alpha1", "kind": "ExploreReview",
        "request": {"uid": "u-1", "operation": operation, "name": "a", "object": document or FOO, **request},
    }  # fmt: skip
    answer = (await call(app, "/explore", json.dumps(review).encode())).json()
    response: dict[str, Any] = answer["response"]
    assert response["uid"] == "u-1"
    return response


@pytest.mark.parametrize("is_resolved", [True, False])
async def test_a_service_is_called_at_the_address_of_the_setting(hook: Hook, *, is_resolved: bool) -> None:
    service = {"service": {"name": "hook", "namespace": "ns", "path": "/hook"}, "caBundle": hook.ca_bundle}
    resolve = [f"hook.ns.svc:443:127.0.0.1:{hook.port}"] if is_resolved else []
    made = create_app(Settings(resolve=resolve), log=None)
    made.store.put(make_configuration(hook, clientConfig=service))
    async with made.router.lifespan_context(made):
        answer = await explore(made, "ExploreHealthy")
    assert (answer["successful"], len(hook.reviews)) == (is_resolved, is_resolved)


async def test_hook_gets_an_explore_review_and_its_timeout(app: Fleethook, hook: Hook) -> None:
    assert (await explore(app, "ExploreHealthy"))["healthy"] is True
    (review,) = hook.reviews
    assert (review["apiVersion"], review["kind"]) == ("config.karmada.io/v1alpha1", "ExploreReview")
    request = review["request"]
    assert request.pop("uid")
    assert request == {
        "kind": {"group": "foo.example.com", "version": "v1alpha1", "kind": "Foo"},
        "name": "a", "namespace": "default", "operation": "ExploreHealthy", "object": FOO,
    }  # fmt: skip
    assert hook.queries == ["timeout=25s"]


async def test_shipped_configuration_gets_an_interpreter_context(app: Fleethook, hook: Hook) -> None:
    configuration = make_configuration(hook, "a.example.com")
    (webhook,) = configuration["webhooks"]
    webhook["interpreterContextVersions"] = webhook.pop("exploreReviewVersions")
    (rule,) = webhook["rules"]
    rule["kinds"] = ["Foo"]
    configuration["kind"] = "ResourceInterpreterWebhookConfiguration"
    app.store.put(configuration)
    hook.answer = hook.respond(rawStatus={"phase": "x"})
    assert (await explore(app, "ExploreStatus"))["status"] == {"phase": "x"}
    (review,) = hook.reviews
    assert review["kind"] == "ResourceInterpreterContext"
    assert (review["request"]["operation"], review["request"]["replicas"]) == ("InterpretStatus", 0)


async def test_patch_of_a_hook_is_answered_as_a_minimal_patch(app: Fleethook, hook: Hook) -> None:
    operations = [
        {"op": "test", "path": "/spec/size", "value": 1},
        {"op": "replace", "path": "/spec", "value": {"size": 7}},
    ]
    hook.answer = hook.patch(*operations)
    response = await explore(app, "ExploreRetaining", observedObject=FOO)
    assert json.loads(base64.b64decode(response["patch"])) == [{"op": "replace", "path": "/spec/size", "value": 7}]
    assert hook.reviews[0]["request"]["observedObject"] == FOO


@pytest.mark.parametrize(
    ("operation", "response", "text"),
    [
        ("ExploreHealthy", {"uid": "other"}, 'expected response.uid "'),
        ("ExploreHealthy", {}, "webhook returned nil response.healthy"),
        ("ExploreHealthy", {"healthy": "yes"}, "healthy is string, expected true or false"),
        ("ExploreStatus", {}, "webhook returned nill response.status"),
        ("ExploreReplica", {"replicas": -1}, "replicas is -1, expected a replica count from 0 to 2147483647"),
        (
            "ExploreReplica",
            {"replicas": "many"},
            "config-foo.example.com/foo.example.com: replicas is string, expected an integer",
        ),
        ("ExploreReplica", {"replicas": 1, "replicaRequirements": []}, "requirements is array, expected an object"),
        ("ExploreDependencies", {"dependencies": [{"kind": "Foo", "name": "t"}]}, "missing required apiVersion"),
        ("ExploreRetaining", {"patch": "W10="}, "webhook returned nil response.patchType"),
        ("ExploreRetaining", {"patch": "W10=", "patchType": "Merge"}, 'invalid response.patchType of "Merge"'),
        ("ExploreRetaining", {"patch": "%%%", "patchType": "JSONPatch"}, "not a base64-encoded JSON Patch"),
        ("ExploreRetaining", {"patch": "e30=", "patchType": "JSONPatch"}, "a JSON Patch is an array of operations"),
        ("ExploreHealthy", {"successful": False, "code": 403, "message": "no"}, "get status code: 403, msg: no"),
    ],
)
async def test_invalid_response_fails_with_the_reason(
    app: Fleethook, hook: Hook, operation: str, response: dict[str, Any], text: str
) -> None:
    hook.answer = hook.respond(**response)
    found = await explore(app, operation, observedObject=FOO)
    assert (found["successful"], found["code"]) == (False, 500)
    assert text in found["message"]


async def garbage(_: web.Request) -> web.StreamResponse:
    return web.Response(text="<html>not what you wanted</html>")


async def broken(_: web.Request) -> web.StreamResponse:
    return web.Response(status=503, text="overloaded")


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (garbage, "the body is not JSON"),
        (broken, "failed to call webhook: the server is currently unable to handle the request"),
    ],
)
async def test_misbehaving_hook_fails_only_its_own_review(app: Fleethook, hook: Hook, answer: Any, text: str) -> None:
    good, hook.answer = hook.answer, answer
    found = await explore(app, "ExploreHealthy")
    assert found["message"].startswith('failed calling webhook "config-foo.example.com/foo.example.com": ')
    assert text in found["message"]
    hook.answer = good
    assert (await explore(app, "ExploreHealthy"))["healthy"] is True


async def test_hanging_hook_is_abandoned_at_its_timeout(app: Fleethook, hook: Hook) -> None:
    forever = asyncio.Event()

    async def hang(_: web.Request) -> web.StreamResponse:
        await forever.wait()
        return web.Response()

    hook.answer = hang
    app.store.put(make_configuration(hook, timeoutSeconds=1))
    others = asyncio.create_task(explore(app, "ExploreHealthy"))
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}}
    assert (await explore(app, "ExploreHealthy", deployment))["healthy"] is True, "other reviews do not wait"
    found = await others
    forever.set()
    assert found["message"].endswith('/hook?timeout=1s": context deadline exceeded')


async def test_failure_policy_ignore_asks_the_next_layer(app: Fleethook, hook: Hook) -> None:
    hook.answer = broken
    app.store.put(make_configuration(hook, failurePolicy="Ignore"))
    status = {**FOO, "status": {"phase": "x"}}
    review = {
        "apiVersion": "config.karmada.io/v1alpha1", "kind": "ExploreReview",
        "request": {"uid": "u-1", "operation": "ExploreStatus", "name": "a", "object": status},
    }  # fmt: skip
    answer = (await call(app, "/explore", json.dumps(review).encode(), query=b"explain=1")).json()
    assert answer["response"]["status"] == {"phase": "x"}
    assert [(step["layer"], step["outcome"]) for step in answer["explanation"]] == [
        ("lua", "none"), ("webhook", "ignored"), ("python", "none"), ("bundle", "none"), ("native", "answered"),
    ]  # fmt: skip
    assert "unable to handle the request" in answer["explanation"][1]["detail"]


async def test_hook_is_called_again_after_errors(app: Fleethook, hook: Hook) -> None:
    """A single object can make a hook fail, so an error must not stop calls for other objects."""
    healthy, hook.answer = hook.answer, broken
    for _ in range(6):
        assert "unable to handle the request" in (await explore(app, "ExploreHealthy"))["message"]
    assert len(hook.reviews) == 6
    hook.answer = healthy
    assert "message" not in (await explore(app, "ExploreHealthy"))


async def test_only_the_first_matching_hook_by_name_is_called(app: Fleethook, hook: Hook) -> None:
    app.store.put(make_configuration(hook, "a.example.com", timeoutSeconds=7))
    await explore(app, "ExploreHealthy")
    assert hook.queries == ["timeout=7s"]


async def test_resource_name_and_scope_come_from_the_crd(app: Fleethook, hook: Hook) -> None:
    app.store.put(
        {
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "feet.foo.example.com"},
            "spec": {"group": "foo.example.com", "scope": "Cluster", "names": {"kind": "Foo", "plural": "feet"}},
        }
    )  # fmt: skip
    await explore(app, "ExploreHealthy")
    assert hook.reviews == []
    app.store.put(make_configuration(hook, rule={"resources": ["feet"], "scope": "Cluster"}))
    assert (await explore(app, "ExploreHealthy"))["healthy"] is True


async def test_calls_are_counted_by_hook_and_outcome(app: Fleethook, hook: Hook) -> None:
    await explore(app, "ExploreHealthy")
    hook.answer = broken
    await explore(app, "ExploreHealthy")
    text = (await call(app, "/metrics", method="GET")).body.decode()
    for outcome in ("answered", "failed"):
        labels = f'hook="config-foo.example.com/foo.example.com",outcome="{outcome}"'
        assert f"fleethook_hook_call_duration_seconds_count{{{labels}}} 1.0" in text


HOOK: Any = SimpleNamespace(uid="hooks/health")
QUESTION: Any = SimpleNamespace(operation=Operation.HEALTH)
KEY = f"{Operation.HEALTH.value}/hooks/health"


async def ask(**members: Any) -> Any:
    layer = RecordedWebhookLayer(Store(INDEXES), HookClient(allow_private=False), observe=lambda *_: None)
    calls = [RecordedCall(kind="webhook", name="health", key=KEY, cluster="", configuration="hooks", **members)]
    current_calls.set(ReviewCalls(calls if members else ()))
    return await layer._ask(HOOK, QUESTION)


def raw(value: Any) -> msgspec.Raw:
    return msgspec.Raw(json.dumps(value).encode())


async def test_a_webhook_answers_as_recorded() -> None:
    assert (await ask(answer=raw({"healthy": True}))).healthy is True
    assert find_current().missing == {}


@pytest.mark.parametrize(
    ("members", "error", "code"),
    [
        ({"error": "gone", "failure": {"ignored": True}}, IgnoredError, None),
        ({"error": "gone", "failure": {"code": 404}}, InterpretError, 404),
        ({"error": "gone"}, InterpretError, 500),
    ],
)
async def test_a_webhook_fails_as_recorded(members: dict[str, Any], error: type[Exception], code: int | None) -> None:
    with pytest.raises(error, match="gone") as raised:
        await ask(**members)
    assert getattr(raised.value, "code", None) == code


@pytest.mark.parametrize("members", [{}, {"answer": raw({"unknown": 1})}])
async def test_a_call_without_a_usable_answer_is_missing(members: dict[str, Any]) -> None:
    with pytest.raises(InterpretError, match="was not recorded"):
        await ask(**members)
    assert [str(one) for one in cast("ReviewCalls", find_current()).missing] == ["webhook hooks/health"]
