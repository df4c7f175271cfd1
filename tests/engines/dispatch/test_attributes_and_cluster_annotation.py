"""The annotation of the objects names the logical cluster, and webhooks get it."""

from typing import Any

import pytest

from fleethook.engines.dispatch.attributes_and_cluster_annotation import find_annotated_cluster
from fleethook.engines.dispatch.errors_and_deadline import StatusError
from tests.engines.dispatch.builders import configuration, request_of, review, store_of, widget
from tests.engines.dispatch.conftest import Front
from tests.engines.dispatch.review.test_all_clusters_endpoint import of
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


def refuse(made: dict[str, Any]) -> str:
    with pytest.raises(StatusError) as caught:
        find_annotated_cluster(request_of(made))
    assert (caught.value.status.code, caught.value.status.reason) == (400, "BadRequest")
    return str(caught.value)


@pytest.mark.parametrize(("before", "after"), [("ws2", "ws3"), ("ws2", None), (None, "ws3")])
def test_updates_cannot_move_an_object_to_another_cluster(before: str | None, after: str | None) -> None:
    text = refuse(review(of(after), old=of(before), operation="UPDATE"))
    assert text == (
        f"request.object is in logical cluster {after or ''!r} and request.oldObject in {before or ''!r} (annotation "
        "kcp.io/cluster): an update cannot move an object; do not change the annotation"
    )


@pytest.mark.parametrize(
    ("made", "member"),
    [
        (review(of(None)), "object"),
        (review(of("")), "object"),
        (review(of(None), old=of(None), operation="UPDATE"), "object"),
        (review(None, old=of(None), operation="DELETE"), "oldObject"),
    ],
)
def test_objects_without_the_annotation_are_refused(made: dict[str, Any], member: str) -> None:
    assert refuse(made) == (
        f"request.{member} has no annotation kcp.io/cluster, so the logical cluster is unknown: have the control "
        "plane set it when it creates objects, or exclude the object's namespace by the namespaceSelector of the "
        "webhook configuration"
    )


def test_deletions_without_old_object_are_refused() -> None:
    made = review(of("ws3"), operation="DELETE")
    made["request"]["object"] = None
    assert refuse(made).startswith("the review has no request.oldObject, so the logical cluster is unknown")


@pytest.mark.parametrize("name", ["root:ws3", "*", "Upper", "a/b"])
def test_annotations_must_be_names_not_paths(name: str) -> None:
    text = refuse(review(of(name)))
    assert text.startswith(
        f"request.object has the annotation kcp.io/cluster: {name!r}, which is not a logical cluster name"
    )
    assert text.endswith("annotate objects with names, not with paths")


def test_bodies_that_are_not_stored_are_refused() -> None:
    options = {"apiVersion": "v1", "kind": "PodExecOptions", "metadata": of("ws3")["metadata"]}
    assert refuse(review(options, operation="CONNECT")) == (
        "a CONNECT review carries no stored object, so the logical cluster is unknown: leave CONNECT out of the "
        "rules, or send such reviews to /clusters/NAME/{mutate,validate}"
    )
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": of("ws3")["metadata"]}
    resource = {"group": "", "version": "v1", "resource": "pods"}
    assert refuse(review(eviction, resource=resource, subResource="eviction")) == (
        "the body of a CREATE of pods/eviction is not stored, so the logical cluster is unknown: leave "
        "pods/eviction out of the rules, or send such reviews to /clusters/NAME/{mutate,validate}"
    )
