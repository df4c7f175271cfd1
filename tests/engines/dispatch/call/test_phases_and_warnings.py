"""The mutating phase: order, reinvocation, patches and time."""

import asyncio
import base64
from typing import Any

import pytest
from aiohttp import web

from fleethook.engines.dispatch.call.phases_and_warnings import MAX_CALLS, limit_warnings
from fleethook.engines.dispatch.webhooks.webhook_defaults_and_compilation import Phase
from tests.engines.dispatch.builders import (
    binding,
    configuration,
    definition,
    export,
    in_cluster,
    review,
    store_of,
    widget,
)
from tests.engines.dispatch.conftest import Front
from tests.engines.dispatch.webhook_server import Webhooks, allow, apply_response, hook, label, patch

SIZED = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "size": {"type": "integer", "default": 3},
                "parts": {"type": "array", "items": {"properties": {"color": {"type": "string", "default": "white"}}}},
                "by": {"additionalProperties": {"type": "object", "properties": {"n": {"default": 1}}}},
            },
        },
    },
}


def sized(kind: str) -> list[dict[str, Any]]:
    """Return the definition of a widget with defaults: in the cluster, or by an APIBinding."""
    if kind == "definition":
        versions = [{"name": "v1", "served": True, "schema": {"openAPIV3Schema": SIZED}}]
        return [definition("ws1", "widgets.example.org", versions=versions)]
    spec = {"group": "example.org", "names": {"plural": "widgets", "kind": "Widget"}, "scope": "Namespaced"}
    spec["versions"] = [{"name": "v1", "served": True, "schema": SIZED}]
    schema = in_cluster("ws1", "apis.kcp.io/v1alpha1", "APIResourceSchema", "v1.widgets.example.org", spec=spec)
    return [binding("ws1", "ws1", "widgets.example.org"), export("ws1", "widgets.example.org"), schema]


@pytest.mark.parametrize("kind", ["definition", "APIResourceSchema"])
async def test_the_next_webhook_gets_the_defaults_of_a_patch(front: Front, server: Webhooks, kind: str) -> None:
    made = {"size": None, "parts": [{}, {"color": "red"}], "by": {"a": {}}, "unknown": 1}
    server.answers["/first"] = patch({"op": "add", "path": "/spec", "value": made})
    server.answers["/second"] = allow
    white = {"name": "white", "expression": "object.spec.parts[0].color == 'white' && object.spec.size == 3"}
    hooks = (hook(server, "/first"), hook(server, "/second", "2.example.org", matchConditions=[white]))
    store = store_of(configuration("ws1", "mutating", *hooks), *sized(kind))
    found = await front.dispatch(store, review(), cluster="ws1", phase="mutating")
    spec = {"size": 3, "parts": [{"color": "white"}, {"color": "red"}], "by": {"a": {"n": 1}}, "unknown": 1}
    assert server.calls[1].object["spec"] == spec
    assert apply_response(found, widget())["spec"] == spec


async def test_the_next_webhook_gets_the_defaults_of_a_built_in_kind(front: Front, server: Webhooks) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": []}}
    added = {"name": "b", "image": "b:1", "ofANewerKubernetes": True, "tty": False}
    server.answers["/first"] = patch({"op": "add", "path": "/spec/containers/-", "value": added})
    server.answers["/second"] = allow
    pulled = {"name": "a", "expression": "object.spec.containers[0].imagePullPolicy == 'IfNotPresent'"}
    pods = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}
    hooks = (
        hook(server, "/first", rules=[pods]),
        hook(server, "/second", "2.example.org", rules=[pods], matchConditions=[pulled]),
    )
    store = store_of(configuration("ws1", "mutating", *hooks))
    found = await front.dispatch(store, review(pod), cluster="ws1", phase="mutating")
    assert server.calls[1].object["spec"]["restartPolicy"] == "Always"
    container = apply_response(found, pod)["spec"]["containers"][0]
    assert (container["terminationMessagePolicy"], container | added) == ("File", container)


async def test_defaults_that_are_too_large_refuse_the_request(front: Front, server: Webhooks) -> None:
    items = {"properties": {"text": {"type": "string", "default": "x" * 100_000}}}
    schema = {"openAPIV3Schema": {"properties": {"spec": {"properties": {"parts": {"items": items}}}}}}
    versions = [{"name": "v1", "served": True, "schema": schema}]
    server.answers["/w"] = patch({"op": "add", "path": "/spec", "value": {"parts": [{}] * 1000}})
    hooks = configuration("ws1", "mutating", hook(server, "/w", failurePolicy="Ignore"))
    store = store_of(hooks, definition("ws1", "widgets.example.org", versions=versions))
    response = (await front.dispatch(store, review(), cluster="ws1", phase="mutating")).response
    assert (response.code, response.message) == (
        500,
        "Internal error occurred: the object has more than 3145728 bytes with its defaults",
    )


@pytest.mark.parametrize("kind", ["JSONPatch", "MergePatch"])
async def test_patches_of_deletions_are_refused(front: Front, server: Webhooks, kind: str) -> None:
    server.answers["/w"] = patch({"op": "add", "path": "/x", "value": 1}, patchType=kind)
    store = store_of(configuration("ws1", "mutating", hook(server, "/w", failurePolicy="Ignore")))
    made = review(None, old=widget(), operation="DELETE")
    response = (await front.dispatch(store, made, cluster="ws1", phase="mutating")).response
    text = 'admission webhook "w.example.org" attempted to modify the object, which is not supported for this operation'
    assert (response.code, response.message) == (500, f"Internal error occurred: {text}")


async def test_patches_of_secrets_are_not_audited(front: Front, server: Webhooks) -> None:
    server.answers["/w"] = patch({"op": "add", "path": "/data", "value": {"password": "aHVudGVyMg=="}})
    rules = [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["secrets"], "operations": ["*"]}]
    store = store_of(configuration("ws1", "mutating", hook(server, "/w", rules=rules)))
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default"}}
    found = await front.dispatch(store, review(secret), cluster="ws1", phase="mutating")
    assert apply_response(found, secret)["data"] == {"password": "aHVudGVyMg=="}
    assert base64.b64decode("aHVudGVyMg==").decode() not in str(found.response.audit_annotations)
    assert list(found.response.audit_annotations) == ["mutation.webhook.admission.k8s.io/round_0_index_0"]


async def test_conditions_see_the_changes_of_earlier_webhooks(front: Front, server: Webhooks) -> None:
    server.answers["/grow"] = patch({"op": "replace", "path": "/spec/size", "value": 99})
    server.answers["/large"] = label("large")
    conditions = [{"name": "large", "expression": "object.spec.size > 10"}]
    some = [{"name": "some", "expression": "object.spec.size > 0"}]
    store = store_of(
        configuration(
            "ws1", "mutating", hook(server, "/grow", "grow.example.org", matchConditions=some),
            hook(server, "/large", "large.example.org", matchConditions=conditions),
        )
    )  # fmt: skip
    await front.dispatch(store, review(widget(size=1)), cluster="ws1", phase="mutating")
    assert server.paths == ["/grow", "/large"]


async def test_failed_webhooks_are_reinvoked_as_well(front: Front, server: Webhooks) -> None:
    server.answers["/down"] = lambda _: web.Response(status=500)
    server.answers["/w"] = label("seen")
    down = hook(server, "/down", "down.example.org", failurePolicy="Ignore", reinvocationPolicy="IfNeeded")
    store = store_of(configuration("ws1", "mutating", down, hook(server, "/w")))
    await front.dispatch(store, review(), cluster="ws1", phase="mutating")
    assert server.paths == ["/down", "/w", "/down"]


async def test_webhooks_are_called_by_configuration_name_then_as_declared(front: Front, server: Webhooks) -> None:
    for path in ("/a1", "/a2", "/b"):
        server.answers[path] = allow
    store = store_of(
        configuration("ws1", "mutating", hook(server, "/b"), name="b"),
        configuration("ws1", "mutating", hook(server, "/a1"), hook(server, "/a2"), name="a"),
    )
    await front.dispatch(store, review(), cluster="ws1", phase="mutating")
    assert server.paths == ["/a1", "/a2", "/b"]


async def test_warnings_and_audit_annotations_of_denials_are_returned(front: Front, server: Webhooks) -> None:
    server.answers["/1"] = lambda _: {"allowed": True, "warnings": ["one", "both"], "auditAnnotations": {"k": "v"}}
    server.answers["/2"] = lambda _: {
        "allowed": False,
        "warnings": ["both", "two"],
        "auditAnnotations": {"bad key": "v"},
    }
    hooks = (hook(server, "/1", "1.example.org"), hook(server, "/2", "2.example.org"))
    store = store_of(configuration("ws1", "validating", *hooks))
    response = (await front.dispatch(store, review(), cluster="ws1")).response
    assert response.warnings == ("one", "both", "two")
    assert response.audit_annotations == {"1.example.org/k": "v"}


async def test_no_webhook_is_called_after_the_deadline(front: Front, server: Webhooks) -> None:
    store = store_of(configuration("ws1", "validating", hook(server, "/w", failurePolicy="Ignore")))
    response = (await front.dispatch(store, review(), cluster="ws1", seconds=0)).response
    assert (response.allowed, response.code, response.reason) == (False, 504, "Timeout")
    assert server.calls == []


async def test_all_denials_are_reported_in_the_order_of_the_webhooks(front: Front, server: Webhooks) -> None:
    """The last webhook answers first."""
    done = asyncio.Event()

    async def slow(_: Any) -> Any:
        await done.wait()
        return {"allowed": False, "status": {"message": "slow", "code": 422, "reason": "Invalid"}}

    def quick(_: Any) -> Any:
        done.set()
        return {"allowed": False, "status": {"message": "quick", "code": 409, "reason": "Conflict"}}

    server.answers.update({"/slow": slow, "/quick": quick, "/fine": allow})
    store = store_of(
        configuration(
            "ws1", "validating", hook(server, "/slow", "slow.example.org"), hook(server, "/fine", "fine.example.org"),
            hook(server, "/quick", "quick.example.org"),
        )
    )  # fmt: skip
    response = (await front.dispatch(store, review(), cluster="ws1")).response
    assert (response.code, response.reason) == (422, "Invalid")
    assert response.message == 'admission webhook "slow.example.org" denied the request: slow'
    (cause,) = response.status.details.causes
    assert cause.message == 'admission webhook "quick.example.org" denied the request: quick'
    assert cause.reason == "Conflict"
    assert len(server.calls) == 3


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
@pytest.mark.parametrize("phase", ["mutating", "validating"])
async def test_too_many_webhooks_refuse_the_request(front: Front, server: Webhooks, phase: Phase, policy: str) -> None:
    server.answers["/w"] = allow
    for count, allowed in ((MAX_CALLS, True), (MAX_CALLS + 1, False)):
        server.calls.clear()
        hooks = [hook(server, "/w", f"w{number}.example.org", failurePolicy=policy) for number in range(count)]
        store = store_of(configuration("ws2", phase, *hooks))
        response = (await front.dispatch(store, review(), cluster="ws2", phase=phase)).response
        assert response.allowed is allowed
    assert (response.code, response.message) == (
        403,
        f'widgets.example.org "b" is forbidden: it matches more than {MAX_CALLS} webhooks, the limit of one request',
    )
    assert len(server.calls) == (0 if phase == "validating" else MAX_CALLS)


async def test_reinvocations_count_as_calls(front: Front, server: Webhooks) -> None:
    server.answers.update({"/first": label("seen"), "/second": label("changed"), "/w": allow})
    hooks = (
        hook(server, "/first", "first.example.org", reinvocationPolicy="IfNeeded"),
        hook(server, "/second", "second.example.org"),
    )
    for others, allowed in ((MAX_CALLS - 3, True), (MAX_CALLS - 2, False)):
        further = (hook(server, "/w", f"w{number}.example.org") for number in range(others))
        store = store_of(configuration("ws2", "mutating", *hooks, *further))
        found = await front.dispatch(store, review(), cluster="ws2", phase="mutating")
        assert found.response.allowed is allowed


def test_empty_warnings_and_control_characters_are_dropped() -> None:
    assert limit_warnings(["", "a\nb\x00c\x7f", "\ud800"]) == ("abc",)


def test_4096_characters_are_returned_in_full() -> None:
    given = [f"{number:04}" + "x" * 1020 for number in range(4)]
    assert limit_warnings(given) == tuple(given)


def test_longer_warnings_are_truncated_to_256_characters() -> None:
    given = [f"{number:04}" + "x" * 1021 for number in range(40)]
    found = limit_warnings(given)
    assert found == tuple(text[:256] for text in given[:16])
    assert sum(map(len, found)) == 4096


def test_equal_truncated_warnings_are_returned_once() -> None:
    assert len(limit_warnings(["x" * 3000 + "1", "x" * 3000 + "2"])) == 1
