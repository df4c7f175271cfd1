"""Objects are converted for webhooks; large answers of conversion webhooks are parsed off the event loop."""

import copy
import json
from typing import Any

import msgspec
import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from fleethook.engines.dispatch.version_conversion import (
    ConversionError,
    NeedsWebhook,
    plan_conversion,
    read_converted_objects,
)
from fleethook.model.formats.names_and_labels import label_key_problem, label_value_problem
from fleethook.model.gvk import GroupVersionKind
from tests.engines.dispatch.builders import WIDGETS, configuration, definition, review, store_of, widget
from tests.engines.dispatch.conftest import Front
from tests.engines.dispatch.webhook_server import Webhooks, allow, apply_response, convert, converting, hook, patch
from tests.watched_calls import watch_calls


@pytest.mark.parametrize("size", [10, 50_000])
async def test_large_conversion_responses_are_parsed_in_a_thread(front: Front, server: Webhooks, size: int) -> None:
    server.answers |= {"/convert": convert(), "/w": allow}
    document = widget(list=list(range(size)))
    with watch_calls(read_converted_objects) as seen:
        found = await front.dispatch(store_of(*converting(server)), review(document), cluster="ws1")
    assert found.response.allowed
    assert server.calls[1].object["spec"] == document["spec"]
    assert seen == {"read_converted_objects": [size == 10]}


async def test_webhooks_get_the_version_of_their_rule(front: Front, server: Webhooks) -> None:
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
    assert apply_response(found, sent) == {**sent, "spec": {"size": 1, "colour": "red"}}


async def test_conversion_webhooks_cannot_change_the_cluster_annotation(front: Front, server: Webhooks) -> None:
    def rename(document: dict[str, Any]) -> dict[str, Any]:
        spec = {"measure" if name == "size" else "size": value for name, value in document["spec"].items()}
        return {
            **document,
            "spec": spec,
            "metadata": document["metadata"] | {"annotations": {"kcp.io/cluster": "evil"}},
        }

    server.answers["/convert"] = convert(rename)
    server.answers["/w"] = patch({"op": "replace", "path": "/spec/measure", "value": 7})
    sent = widget(size=1)
    store = store_of(*converting(server, "mutating"))
    found = await front.dispatch(store, review(sent), cluster="ws1", phase="mutating")
    assert server.paths == ["/convert", "/w", "/convert"]
    assert server.calls[1].object["spec"] == {"measure": 1}
    assert server.calls[1].object["metadata"]["annotations"] == {"kcp.io/cluster": "ws1"}
    assert apply_response(found, sent) == widget(size=7)
    assert set(front.client._pools._pools._entries) == {"ws1"}


async def test_failed_conversions_refuse_the_request_even_with_ignore(front: Front, server: Webhooks) -> None:
    server.answers["/convert"] = lambda _: web.Response(status=503)
    store = store_of(*converting(server, failurePolicy="Ignore"))
    response = (await front.dispatch(store, review(), cluster="ws1")).response
    assert (response.allowed, response.code) == (False, 500)
    assert "conversion webhook for Widget failed" in response.message


V1 = GroupVersionKind("example.org", "v1", "Widget")
V2 = GroupVersionKind("example.org", "v2", "Widget")
CONFIG = {"url": "https://convert.example.org/x", "caBundle": "Q0E="}
METADATA = {
    "name": "a",
    "namespace": "n",
    "uid": "1",
    "generation": 3,
    "labels": {"l": "1"},
    "annotations": {"A/b": "x"},
}


def rule_widget(version: str = "v1", **members: Any) -> dict[str, Any]:
    document = {"apiVersion": f"example.org/{version}", "kind": "Widget", "metadata": METADATA, "spec": {"size": 1}}
    return {**document, **members}


def rule_definition(**conversion: Any) -> dict[str, Any]:
    spec = {"group": "example.org", "versions": [{"name": "v1", "served": True}, {"name": "v2", "served": False}]}
    return {"spec": {**spec, "conversion": conversion} if conversion else spec}


def by_webhook(*versions: Any, **config: Any) -> dict[str, Any]:
    webhook = {"clientConfig": config or CONFIG, "conversionReviewVersions": list(versions)}
    return rule_definition(strategy="Webhook", webhook=webhook)


def test_objects_in_the_target_version_are_returned_unchanged() -> None:
    document = rule_widget()
    assert plan_conversion(document, V1, definition=by_webhook("v1")) is document
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {"replicas": 1}}
    assert plan_conversion(scale, GroupVersionKind("autoscaling", "v1", "Scale"), definition=by_webhook("v1")) is scale
    pod = {"apiVersion": "v1", "kind": "Pod"}
    assert plan_conversion(pod, GroupVersionKind("", "v1", "Pod"), definition=None) is pod


@pytest.mark.parametrize(
    ("accepted", "version"), [(["v1"], "v1"), (["v1beta1", "v1"], "v1beta1"), (["v9", "v1", "v1beta1"], "v1")]
)
def test_the_first_known_review_version_is_used(accepted: list[str], version: str) -> None:
    assert plan_conversion(rule_widget(), V2, definition=by_webhook(*accepted)) == NeedsWebhook(CONFIG, version)


NO_VERSIONS = "conversion webhook for example.org/v1, Kind=Widget: no supported conversion review versions"
NAMELESS = "an object without apiVersion and kind cannot be converted"


@pytest.mark.parametrize(
    ("document", "to", "declared", "text"),
    [
        (rule_widget(), V2._replace(version="v3"), rule_definition(), "request to convert CR to an invalid group/version: example.org/v3"),
        (rule_widget("v3"), V2, rule_definition(), "request to convert CR from an invalid group/version: example.org/v3"),
        (rule_widget(), V2._replace(group="other"), rule_definition(), "request to convert CR to an invalid group/version: other/v2"),
        (rule_widget(), V2._replace(kind="Gadget"), rule_definition(), "example.org/v1, Kind=Widget cannot be converted to example.org/v2, Kind=Gadget: the kinds differ"),
        (rule_widget(), V2, rule_definition(strategy="Other"), "unknown conversion strategy 'Other' for example.org/v1, Kind=Widget"),
        (rule_widget(), V2, rule_definition(strategy="Webhook"), "conversion webhook for example.org/v1, Kind=Widget has no clientConfig"),
        (rule_widget(), V2, by_webhook(), NO_VERSIONS),
        (rule_widget(), V2, by_webhook("v2", None, ["v1"]), NO_VERSIONS),
        ({"kind": "Widget"}, V2, rule_definition(), NAMELESS),
        ({"apiVersion": ["v1"], "kind": "Widget"}, V2, rule_definition(), NAMELESS),
        (
            {"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler"},
            GroupVersionKind("autoscaling", "v2", "HorizontalPodAutoscaler"),
            None,
            "fleethook cannot convert built-in autoscaling/v1, Kind=HorizontalPodAutoscaler to autoscaling/v2, Kind=HorizontalPodAutoscaler: name the requested version in the webhook's rules",
        ),
    ],
)  # fmt: skip
def test_impossible_conversions_name_the_reason(document: Any, to: GroupVersionKind, declared: Any, text: str) -> None:
    with pytest.raises(ConversionError) as error:
        plan_conversion(document, to, definition=declared)
    assert str(error.value) == text


def rule_review(*objects: Any, version: str = "v1", **response: Any) -> dict[str, Any]:
    answer = {"uid": "u", "result": {"status": "Success"}, "convertedObjects": list(objects), **response}
    return {"apiVersion": f"apiextensions.k8s.io/{version}", "kind": "ConversionReview", "response": answer}


def read_converted(answer: Any, *documents: Any, version: str = "v1") -> list[Any]:
    text = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
    return read_converted_objects(text, documents or [rule_widget()], "example.org/v2", uid="u", version=version)


def test_webhooks_change_only_labels_and_annotations_of_metadata() -> None:
    theirs = {**METADATA, "generation": 9, "finalizers": ["x"], "labels": {"l": "2", "m": ""}, "annotations": None}
    made = read_converted(rule_review(rule_widget("v2", metadata=theirs, spec={"length": 1}, status={})))
    kept = {"name": "a", "namespace": "n", "uid": "1", "generation": 3, "labels": {"l": "2", "m": ""}}
    assert made == [
        {"apiVersion": "example.org/v2", "kind": "Widget", "metadata": kept, "spec": {"length": 1}, "status": {}}
    ]


def test_objects_are_returned_in_order_and_originals_are_unchanged() -> None:
    documents = [rule_widget(metadata={"name": name}) for name in "ab"]
    before = copy.deepcopy(documents)
    answer = rule_review(*(rule_widget("v2", metadata={"name": name}) for name in "ab"))
    assert [one["metadata"]["name"] for one in read_converted(answer, *documents)] == ["a", "b"]
    assert documents == before


def test_existing_invalid_labels_may_stay() -> None:
    old = {"name": "a", "labels": {"-bad-": "-"}, "annotations": {"-bad-": "x"}}
    made = read_converted(rule_review(rule_widget("v2", metadata=old)), rule_widget(metadata=old))
    assert made[0]["metadata"] == old


def test_v1beta1_reviews_need_no_uid_and_kind() -> None:
    answer = rule_review(rule_widget("v2"), uid="other") | {"apiVersion": "", "kind": ""}
    assert read_converted(answer, version="v1beta1") == [rule_widget("v2")]
    with pytest.raises(ConversionError, match="expected webhook response of"):
        read_converted(answer)


FAILED = "conversion webhook to example.org/v2 failed: "
INVALID = "conversion webhook to example.org/v2 returned invalid object at index 0: "


def metadata(**members: Any) -> dict[str, Any]:
    return rule_review(rule_widget("v2", metadata={**METADATA, **members}))


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (b"[]", FAILED + "expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got , Kind="),
        (rule_review(version="v1beta1"), FAILED + "expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got apiextensions.k8s.io/v1beta1, Kind=ConversionReview"),
        (rule_review() | {"response": None}, FAILED + "no response provided"),
        (rule_review(uid="other"), FAILED + 'expected response.uid="u", got "other"'),
        (rule_review(uid=None), FAILED + 'expected response.uid="u", got ""'),
        (rule_review(result={"status": "Failure", "message": "no such thing"}), FAILED + "no such thing"),
        (rule_review(result=None), FAILED + "response.result.status was '', not 'Success'"),
        (rule_review(result={"status": ["Success"]}), FAILED + "response.result.status was '['Success']', not 'Success'"),
        (rule_review(), "conversion webhook to example.org/v2 returned 0 objects, expected 1"),
        (rule_review(convertedObjects={"a": 1}), "conversion webhook to example.org/v2 returned 0 objects, expected 1"),
        (rule_review(rule_widget("v2"), rule_widget("v2")), "conversion webhook to example.org/v2 returned 2 objects, expected 1"),
        (rule_review("x"), INVALID + "invalid apiVersion (expected example.org/v2, received none)"),
        (rule_review(rule_widget("v1")), INVALID + "invalid apiVersion (expected example.org/v2, received example.org/v1)"),
        (rule_review(rule_widget("v2", kind="Gadget")), INVALID + "invalid kind (expected Widget, received Gadget)"),
        (rule_review(rule_widget("v2", metadata=None)), INVALID + "metadata is missing or not an object"),
        (metadata(name="b"), INVALID + "must have the same name: a != b"),
        (metadata(namespace=None), INVALID + "must have the same namespace: n != none"),
        (metadata(uid=["1"]), INVALID + "must have the same uid: 1 != ['1']"),
        (metadata(labels=["l"]), INVALID + "metadata.labels is not an object"),
        (metadata(labels={"l": 1}), INVALID + "metadata.labels[l] must be a string"),
        (metadata(labels={"l": "-"}), INVALID + "metadata.labels[l]: " + str(label_value_problem("-"))),
        (metadata(labels={"X/l": "1"}), INVALID + "metadata.labels[X/l]: " + str(label_key_problem("X/l"))),
        (metadata(annotations={"a/b/c": "-"}), INVALID + "metadata.annotations[a/b/c]: " + str(label_key_problem("a/b/c"))),
    ],
)  # fmt: skip
def test_invalid_conversion_responses_name_the_reason(answer: Any, text: str) -> None:
    with pytest.raises(ConversionError) as error:
        read_converted(answer)
    assert str(error.value) == text


@pytest.mark.parametrize("text", [b"", b"{", b"\xff", b'{"a":"\xff"}', b"[" * 100_000])
def test_responses_must_be_json(text: bytes) -> None:
    with pytest.raises(ConversionError) as error:
        read_converted(text)
    assert str(error.value).startswith(f"{FAILED}not a ConversionReview: ")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["", "u", "v1", "Success", "Webhook", "Widget", "x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["name", "labels", "status", "webhook", "strategy", "group", "versions"]), inner, max_size=4),
    max_leaves=8,
)  # fmt: skip


@given(
    value=JSON,
    member=st.sampled_from(["uid", "result", "convertedObjects"]),
    version=st.sampled_from(["v1", "v1beta1"]),
)
def test_responses_of_any_shape_do_not_raise_other_errors(value: Any, member: str, version: str) -> None:
    try:
        made = read_converted(rule_review(rule_widget("v2"), version=version, **{member: value}), version=version)
    except ConversionError:
        return
    assert made == [rule_widget("v2")]


@given(value=JSON, member=st.sampled_from(["apiVersion", "kind", "metadata"]))
def test_objects_of_any_shape_do_not_raise_other_errors(value: Any, member: str) -> None:
    for declared in (rule_definition(), by_webhook("v1")):
        try:
            planned = plan_conversion(rule_widget(**{member: value}), V2, definition=declared)
        except ConversionError:
            continue
        # A random kind may be valid.
        assert planned in (NeedsWebhook(CONFIG, "v1"), rule_widget("v2", **{member: value}))
    try:
        made = read_converted(rule_review(rule_widget("v2", metadata=value)), rule_widget(metadata=value))
    except ConversionError:
        return
    assert msgspec.json.encode(made)


@given(spec=JSON, conversion=JSON)
def test_definitions_of_any_shape_do_not_raise_other_errors(spec: Any, conversion: Any) -> None:
    for declared in ({"spec": spec}, {"spec": rule_definition()["spec"] | {"conversion": conversion}}):
        try:
            planned = plan_conversion(rule_widget(), V2, definition=declared)
        except ConversionError:
            continue
        assert planned == rule_widget("v2")
