"""The nearest miss of a request names the fields to change."""

from typing import Any

import pytest

from tests.engines.dispatch.builders import configuration, review, store_of, widget
from tests.engines.dispatch.conftest import Front
from tests.engines.dispatch.webhook_server import Webhooks, allow, apply_response, hook, patch


async def test_both_objects_of_an_update_and_the_old_object_of_a_deletion_are_annotated(
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


async def test_options_of_connect_are_not_annotated(front: Front, server: Webhooks) -> None:
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
async def test_the_cluster_annotation_stays_as_the_client_sent_it(
    front: Front, server: Webhooks, operations: Any, annotations: Any
) -> None:
    server.answers["/w"] = patch(*operations)
    store = store_of(configuration("ws3", "mutating", hook(server, "/w")))
    sent = widget()
    if annotations is not None:
        sent["metadata"]["annotations"] = annotations
    found = await front.dispatch(store, review(sent), cluster="ws3", phase="mutating")
    assert server.calls[0].object["metadata"]["annotations"] == {"kcp.io/cluster": "ws3"}
    assert apply_response(found, sent) == sent
    told = "kcp.io/cluster of the object names spoofed; webhooks get ws3, where it is"
    assert found.response.warnings == ((told,) if annotations == {"kcp.io/cluster": "spoofed"} else ())


async def test_objects_without_metadata_are_annotated_and_returned_without_metadata(
    front: Front, server: Webhooks
) -> None:
    server.answers["/w"] = patch({"op": "add", "path": "/spec/seen", "value": True})
    store = store_of(configuration("ws1", "mutating", hook(server, "/w")))
    made = review(widget())
    sent = {name: value for name, value in made["request"]["object"].items() if name != "metadata"}
    made["request"]["object"] = sent
    found = await front.dispatch(store, made, cluster="ws1", phase="mutating")
    assert server.calls[0].object["metadata"] == {"annotations": {"kcp.io/cluster": "ws1"}}
    assert apply_response(found, sent) == {**sent, "spec": {"seen": True}}
