"""Objects are converted for webhooks; large answers of conversion webhooks are parsed off the event loop."""

import threading
from typing import Any

import pytest
from aiohttp import web

from fleethook.engines.dispatch.convert import converter
from tests.engines.dispatch.builders import WIDGETS, configuration, definition, review, store_of, widget
from tests.engines.dispatch.conftest import Front
from tests.engines.dispatch.webhook_server import Webhooks, allow, apply_response, hook, patch


class Threads:
    """Records the thread in which a function of `fleethook.engines.dispatch.convert.converter` runs."""

    def __init__(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names: list[str] = []
        self._function = getattr(converter, name)
        monkeypatch.setattr(converter, name, self._record)

    def _record(self, *arguments: Any, **rest: Any) -> Any:
        self.names.append(threading.current_thread().name)
        return self._function(*arguments, **rest)

    def are_main(self) -> bool:
        (name,) = set(self.names)
        return name == "MainThread"


@pytest.mark.parametrize("size", [10, 50_000])
async def test_large_conversion_responses_are_parsed_in_a_thread(
    front: Front, server: Webhooks, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    def convert(asked: Any) -> Any:
        request = asked["request"]
        objects = [{**one, "apiVersion": request["desiredAPIVersion"]} for one in request["objects"]]
        response = {"uid": request["uid"], "convertedObjects": objects, "result": {"status": "Success"}}
        return web.json_response({"apiVersion": asked["apiVersion"], "kind": "ConversionReview", "response": response})

    server.answers["/convert"], server.answers["/w"] = convert, allow
    threads = Threads("read_converted_objects", monkeypatch)
    webhook = {"clientConfig": server.client_config("/convert"), "conversionReviewVersions": ["v1"]}
    rules = [{**WIDGETS, "apiVersions": ["v2"]}]
    store = store_of(
        definition("ws1", "widgets.example.org", "v1", "v2", conversion={"strategy": "Webhook", "webhook": webhook}),
        configuration("ws1", "validating", hook(server, "/w", rules=rules)),
    )
    document = widget(list=list(range(size)))
    assert (await front.dispatch(store, review(document), cluster="ws1")).response.allowed
    assert server.calls[1].object["spec"] == document["spec"]
    assert threads.are_main() is (size == 10)


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
    assert apply_response(found, sent) == widget(size=7)
    assert set(front.client._pools._pools._entries) == {"ws1"}


async def test_failed_conversions_refuse_the_request_even_with_ignore(front: Front, server: Webhooks) -> None:
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
