"""Whole dispatches, against webhooks that answer over TLS."""

import asyncio
from typing import Any

import pytest
from aiohttp import web

from tests.dispatch.builders import (
    WIDGETS,
    binding,
    configuration,
    definition,
    export,
    namespace,
    review,
    store_of,
    widget,
)
from tests.dispatch.conftest import Front
from tests.dispatch.webhook_server import Webhooks, allow, deny, hook, mutated, patch

BOUND = (binding("ws3", "ws1", "widgets.example.org"), export("ws1", "widgets.example.org"))


async def test_a_bound_object_goes_to_the_owner_and_says_where_it_is(front: Front, server: Webhooks) -> None:
    server.answers["/theirs"] = deny("too large", code=403, reason="Forbidden")
    server.answers["/mine"] = allow
    store = store_of(
        *BOUND,
        configuration("ws1", "validating", hook(server, "/theirs")),
        configuration("ws3", "validating", hook(server, "/mine")),
    )
    found = await front.dispatch(store, review(widget(size=42)), cluster="ws3")
    assert server.paths == ["/theirs"]
    assert server.calls[0].object["metadata"]["annotations"] == {"kcp.io/cluster": "ws3"}
    response = found.response
    assert (response.allowed, response.code, response.reason) == (False, 403, "Forbidden")
    assert response.message == 'admission webhook "w.example.org" denied the request: too large'


async def test_a_local_object_goes_to_the_local_webhooks(front: Front, server: Webhooks) -> None:
    server.answers["/mine"] = allow
    store = store_of(
        definition("ws2", "widgets.example.org", "v1"),
        configuration("ws1", "validating", hook(server, "/theirs")),
        configuration("ws2", "validating", hook(server, "/mine")),
    )
    assert (await front.dispatch(store, review(), cluster="ws2")).response.allowed
    assert server.paths == ["/mine"]
    assert server.calls[0].object["metadata"]["annotations"] == {"kcp.io/cluster": "ws2"}


async def test_both_objects_of_an_update_say_where_they_are_and_that_of_a_deletion(
    front: Front, server: Webhooks
) -> None:
    server.answers["/w"] = allow
    store = store_of(configuration("ws1", "validating", hook(server, "/w")))
    await front.dispatch(store, review(widget(size=2), old=widget(size=1), operation="UPDATE"), cluster="ws1")
    await front.dispatch(store, review(None, old=widget(), operation="DELETE"), cluster="ws1")
    update, deletion = (call.review["request"] for call in server.calls)
    for document in (update["object"], update["oldObject"], deletion["oldObject"]):
        assert document["metadata"]["annotations"] == {"kcp.io/cluster": "ws1"}
    assert deletion["object"] is None


async def test_the_options_of_a_connection_are_left_as_they_are(front: Front, server: Webhooks) -> None:
    server.answers["/w"] = allow
    rules = [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods/exec"], "operations": ["CONNECT"]}]
    store = store_of(configuration("ws1", "validating", hook(server, "/w", rules=rules)))
    options = {"apiVersion": "v1", "kind": "PodExecOptions", "metadata": {}, "command": ["sh"]}
    made = review(
        options, operation="CONNECT", resource={"group": "", "version": "v1", "resource": "pods"}, subResource="exec",
        name="p", namespace="default",
    )  # fmt: skip
    assert (await front.dispatch(store, made, cluster="ws1")).response.allowed
    assert server.calls[0].object == options


async def test_the_chain_is_one_patch_without_the_clusters_annotation(front: Front, server: Webhooks) -> None:
    server.answers["/1"] = patch({"op": "add", "path": "/metadata/labels", "value": {"a": "1"}})
    server.answers["/2"] = patch(
        {"op": "add", "path": "/metadata/labels/b", "value": "2"},
        {"op": "add", "path": "/metadata/annotations/note", "value": "n"},
        {"op": "remove", "path": "/spec/size"},
    )
    store = store_of(
        *BOUND,
        configuration("ws1", "mutating", hook(server, "/1", "1.example.org"), hook(server, "/2", "2.example.org")),
    )
    sent = widget(size=42, colour="red")
    found = await front.dispatch(store, review(sent), cluster="ws3", phase="mutating")
    assert server.calls[1].object["metadata"]["labels"] == {"a": "1"}
    result = mutated(found, sent)
    metadata = {"name": "b", "namespace": "default", "labels": {"a": "1", "b": "2"}, "annotations": {"note": "n"}}
    assert result == {**sent, "metadata": metadata, "spec": {"colour": "red"}}


@pytest.mark.parametrize(
    "operations",
    [
        pytest.param([{"op": "remove", "path": "/metadata/annotations/kcp.io~1cluster"}], id="removed"),
        pytest.param([{"op": "remove", "path": "/metadata/annotations"}], id="all removed"),
        pytest.param(
            [{"op": "replace", "path": "/metadata/annotations/kcp.io~1cluster", "value": "evil"}], id="replaced"
        ),
    ],
)
@pytest.mark.parametrize("annotations", [None, {}, {"kcp.io/cluster": "ws3"}, {"kcp.io/cluster": "spoofed"}])
async def test_the_clusters_annotation_stays_as_the_client_sent_it_whatever_a_webhook_does(
    front: Front, server: Webhooks, operations: Any, annotations: Any
) -> None:
    server.answers["/w"] = patch(*operations)
    store = store_of(configuration("ws3", "mutating", hook(server, "/w")))
    sent = widget()
    if annotations is not None:
        sent["metadata"]["annotations"] = annotations
    found = await front.dispatch(store, review(sent), cluster="ws3", phase="mutating")
    assert server.calls[0].object["metadata"]["annotations"] == {"kcp.io/cluster": "ws3"}
    assert mutated(found, sent) == sent
    told = "kcp.io/cluster of the object names spoofed; webhooks get ws3, where it is"
    assert found.response.warnings == ((told,) if annotations == {"kcp.io/cluster": "spoofed"} else ())


async def test_webhooks_of_configurations_are_asked_by_name_and_then_as_declared(
    front: Front, server: Webhooks
) -> None:
    for path in ("/a1", "/a2", "/b"):
        server.answers[path] = allow
    store = store_of(
        configuration("ws1", "mutating", hook(server, "/b"), name="b"),
        configuration("ws1", "mutating", hook(server, "/a1"), hook(server, "/a2"), name="a"),
    )
    await front.dispatch(store, review(), cluster="ws1", phase="mutating")
    assert server.paths == ["/a1", "/a2", "/b"]


async def test_every_denial_is_told_in_the_order_of_the_webhooks(front: Front, server: Webhooks) -> None:
    """The last declared answers first."""
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


async def test_as_kcp_one_denial_is_told(front: Front, server: Webhooks) -> None:
    server.answers["/w"] = deny("no")
    hooks = (hook(server, "/w", "1.example.org"), hook(server, "/w", "2.example.org"))
    store = store_of(configuration("ws1", "validating", *hooks))
    response = (await front.dispatch(store, review(), cluster="ws1", as_kcp=True)).response
    assert response.status.details is None


@pytest.mark.parametrize("as_kcp", [False, True])
async def test_where_nobody_can_tell_the_owner_the_request_is_refused_unless_as_kcp(
    front: Front, server: Webhooks, as_kcp: Any
) -> None:
    store = store_of(binding("ws3", "", "widgets.example.org"), configuration("ws3", "validating", hook(server, "/w")))
    response = (await front.dispatch(store, review(), cluster="ws3", as_kcp=as_kcp)).response
    assert response.allowed is as_kcp
    assert server.calls == []
    if not as_kcp:
        problem = "APIBinding widgets of ws3 does not name the cluster of its APIExport (apiExportClusterName)"
        assert (response.code, response.reason) == (403, "Forbidden")
        assert response.message == f'widgets.example.org "b" is forbidden: {problem}'


async def test_configurations_themselves_are_never_sent_to_webhooks(front: Front, server: Webhooks) -> None:
    rules = [{"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"], "operations": ["*"]}]
    store = store_of(configuration("ws1", "validating", hook(server, "/w", rules=rules)))
    made = review(configuration("ws1", "validating", name="new"))
    assert (await front.dispatch(store, made, cluster="ws1")).response.allowed
    assert server.calls == []


async def test_namespace_labels_are_those_of_the_consumer(front: Front, server: Webhooks) -> None:
    server.answers["/w"] = allow
    selecting = hook(server, "/w", namespaceSelector={"matchLabels": {"tier": "gold"}})
    store = store_of(
        *BOUND,
        configuration("ws1", "validating", selecting),
        namespace("ws3", tier="gold"),
        namespace("ws1", tier="tin"),
    )
    await front.dispatch(store, review(), cluster="ws3")
    await front.dispatch(store, review(), cluster="ws1")
    assert [call.object["metadata"]["annotations"]["kcp.io/cluster"] for call in server.calls] == ["ws3"]


async def test_a_namespace_that_is_not_there_refuses_the_request(front: Front, server: Webhooks) -> None:
    selecting = hook(server, "/w", namespaceSelector={"matchLabels": {"tier": "gold"}})
    store = store_of(configuration("ws1", "validating", selecting))
    response = (await front.dispatch(store, review(), cluster="ws1")).response
    assert (response.allowed, response.code, response.message) == (
        False,
        404,
        'namespaces "default" not found in logical cluster ws1',
    )


async def test_a_namespace_that_is_not_there_is_no_matter_to_webhooks_of_other_resources(
    front: Front, server: Webhooks
) -> None:
    rules = [{**WIDGETS, "resources": ["gadgets"]}]
    selecting = hook(server, "/w", rules=rules, namespaceSelector={"matchLabels": {"tier": "gold"}})
    store = store_of(configuration("ws1", "validating", selecting))
    assert (await front.dispatch(store, review(), cluster="ws1")).response.allowed


async def test_a_webhook_gets_the_version_that_its_rule_names(front: Front, server: Webhooks) -> None:
    server.answers["/w"] = patch({"op": "add", "path": "/spec/colour", "value": "red"})
    rules = [{**WIDGETS, "apiVersions": ["v1beta1"]}]
    store = store_of(
        definition("ws1", "widgets.example.org", "v1", "v1beta1"),
        configuration("ws1", "mutating", hook(server, "/w", rules=rules)),
    )
    sent = widget(size=1)
    found = await front.dispatch(store, review(sent), cluster="ws1", phase="mutating")
    request = server.calls[0].review["request"]
    assert request["kind"] == {"group": "example.org", "version": "v1beta1", "kind": "Widget"}
    assert request["resource"] == {"group": "example.org", "version": "v1beta1", "resource": "widgets"}
    assert request["requestKind"]["version"] == request["requestResource"]["version"] == "v1"
    assert request["object"]["apiVersion"] == "example.org/v1beta1"
    assert mutated(found, sent) == {**sent, "spec": {"size": 1, "colour": "red"}}


async def test_a_conversion_webhook_is_asked_for_the_version_and_cannot_change_the_cluster(
    front: Front, server: Webhooks
) -> None:
    def convert(asked: Any) -> Any:
        request = asked["request"]
        objects = []
        for document in request["objects"]:
            renamed = {"measure" if name == "size" else "size": value for name, value in document["spec"].items()}
            metadata = {**document["metadata"], "annotations": {"kcp.io/cluster": "evil"}}
            objects.append(
                {**document, "apiVersion": request["desiredAPIVersion"], "spec": renamed, "metadata": metadata}
            )
        return web.json_response(
            {
                "apiVersion": asked["apiVersion"], "kind": "ConversionReview",
                "response": {"uid": request["uid"], "convertedObjects": objects, "result": {"status": "Success"}},
            }
        )  # fmt: skip

    server.answers["/convert"] = convert
    server.answers["/w"] = patch({"op": "replace", "path": "/spec/measure", "value": 7})
    conversion = {
        "strategy": "Webhook",
        "webhook": {"clientConfig": server.client_config("/convert"), "conversionReviewVersions": ["v1"]},
    }
    store = store_of(
        definition("ws1", "widgets.example.org", "v1", "v2", conversion=conversion),
        configuration("ws1", "mutating", hook(server, "/w", rules=[{**WIDGETS, "apiVersions": ["v2"]}])),
    )
    sent = widget(size=1)
    found = await front.dispatch(store, review(sent), cluster="ws1", phase="mutating")
    assert server.paths == ["/convert", "/w", "/convert"]
    assert server.calls[1].object["spec"] == {"measure": 1}
    assert server.calls[1].object["metadata"]["annotations"] == {"kcp.io/cluster": "ws1"}
    assert mutated(found, sent) == widget(size=7)
    assert set(front.client._pools._kept._entries) == {"ws1"}


async def test_a_conversion_that_fails_refuses_the_request_even_if_the_webhook_fails_open(
    front: Front, server: Webhooks
) -> None:
    server.answers["/convert"] = lambda _: web.Response(status=503)
    conversion = {
        "strategy": "Webhook",
        "webhook": {"clientConfig": server.client_config("/convert"), "conversionReviewVersions": ["v1"]},
    }
    rules = [{**WIDGETS, "apiVersions": ["v2"]}]
    store = store_of(
        definition("ws1", "widgets.example.org", "v1", "v2", conversion=conversion),
        configuration("ws1", "validating", hook(server, "/w", rules=rules, failurePolicy="Ignore")),
    )
    response = (await front.dispatch(store, review(), cluster="ws1")).response
    assert (response.allowed, response.code) == (False, 500)
    assert "conversion webhook for Widget failed" in response.message


async def test_conditions_decide_before_a_webhook_is_asked(front: Front, server: Webhooks) -> None:
    server.answers["/w"] = allow
    conditions = [{"name": "large", "expression": "object.spec.size > 10"}]
    store = store_of(configuration("ws1", "validating", hook(server, "/w", matchConditions=conditions)))
    await front.dispatch(store, review(widget(size=10)), cluster="ws1")
    assert server.calls == []
    await front.dispatch(store, review(widget(size=11)), cluster="ws1")
    assert server.paths == ["/w"]


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
async def test_an_error_of_a_condition_is_up_to_the_failure_policy(front: Front, server: Webhooks, policy: Any) -> None:
    conditions = [{"name": "large", "expression": "object.spec.missing > 10"}]
    hooks = hook(server, "/w", matchConditions=conditions, failurePolicy=policy)
    store = store_of(configuration("ws1", "validating", hooks))
    response = (await front.dispatch(store, review(), cluster="ws1")).response
    assert response.allowed is (policy == "Ignore")
    assert server.calls == []
    if policy == "Fail":
        assert response.code == 403
        expected = "widgets.example.org \"b\" is forbidden: expression 'object.spec.missing > 10' resulted in error:"
        assert response.message.startswith(expected)


async def test_without_an_authorizer_a_condition_that_asks_one_has_no_answer(front: Front, server: Webhooks) -> None:
    conditions = [{"name": "may", "expression": "authorizer.path('/x').check('get').allowed()"}]
    store = store_of(configuration("ws1", "validating", hook(server, "/w", matchConditions=conditions)))
    response = (await front.dispatch(store, review(), cluster="ws1")).response
    assert (response.allowed, response.code) == (False, 403)
    assert "no such attribute(s): authorizer" in response.message


async def test_a_service_cannot_be_called_for_a_logical_cluster(front: Front, server: Webhooks) -> None:
    service = {"service": {"name": "hook", "namespace": "default", "path": "/w"}}
    store = store_of(configuration("ws1", "validating", hook(server, "/w", clientConfig=service)))
    response = (await front.dispatch(store, review(), cluster="ws1")).response
    assert response.code == 500
    assert response.message == (
        'Internal error occurred: failed calling webhook "w.example.org": could not get REST client: '
        "clientConfig.service cannot be resolved for the logical cluster ws1: give a url"
    )


async def test_what_a_review_was_converted_from_is_passed_on(front: Front, server: Webhooks) -> None:
    server.answers["/w"] = allow
    store = store_of(configuration("ws1", "validating", hook(server, "/w")))
    made = review(
        requestKind={"group": "example.org", "version": "v9", "kind": "Widget"},
        requestResource={"group": "example.org", "version": "v9", "resource": "widgets"},
    )
    await front.dispatch(store, made, cluster="ws1")
    request = server.calls[0].review["request"]
    assert (request["kind"]["version"], request["requestKind"]["version"]) == ("v1", "v9")
    assert request["requestResource"]["version"] == "v9"


async def test_an_object_without_metadata_says_where_it_is_and_goes_back_without(
    front: Front, server: Webhooks
) -> None:
    server.answers["/w"] = patch({"op": "add", "path": "/spec/seen", "value": True})
    store = store_of(configuration("ws1", "mutating", hook(server, "/w")))
    made = review(widget())
    sent = {name: value for name, value in made["request"]["object"].items() if name != "metadata"}
    made["request"]["object"] = sent
    found = await front.dispatch(store, made, cluster="ws1", phase="mutating")
    assert server.calls[0].object["metadata"] == {"annotations": {"kcp.io/cluster": "ws1"}}
    assert mutated(found, sent) == {**sent, "spec": {"seen": True}}
