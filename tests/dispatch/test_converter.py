"""Large objects in other versions: converted off the event loop, and as small ones are."""

import threading
from typing import Any

import pytest
from aiohttp import web

from app.dispatch import converter
from tests.dispatch.builders import WIDGETS, configuration, definition, review, store_of, widget
from tests.dispatch.conftest import Front
from tests.dispatch.webhook_server import Webhooks, allow, hook

_METRICS = "autoscaling.alpha.kubernetes.io/metrics"


class Threads:
    """Notes the thread that a function of `app.dispatch.converter` runs in."""

    def __init__(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names: list[str] = []
        self._function = getattr(converter, name)
        monkeypatch.setattr(converter, name, self._noting)

    def _noting(self, *arguments: Any, **rest: Any) -> Any:
        self.names.append(threading.current_thread().name)
        return self._function(*arguments, **rest)

    def are_main(self) -> bool:
        (name,) = set(self.names)
        return name == "MainThread"


def autoscaler(metrics: int, text: str = "") -> dict[str, Any]:
    target = {"type": "Value", "value": "1"}
    spec = {"scaleTargetRef": {"kind": "Deployment", "name": "d"}, "minReplicas": 1, "maxReplicas": 3}
    external = [
        {"type": "External", "external": {"metric": {"name": f"m{number}"}, "target": target}}
        for number in range(metrics)
    ]
    return {
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "a", "namespace": "default", "annotations": {"text": text}},
        "spec": {**spec, "metrics": external}, "status": {"desiredReplicas": 0, "currentMetrics": None},
    }  # fmt: skip


@pytest.mark.parametrize(("metrics", "text"), [(3, ""), (3_000, ""), (3, "x" * 100_000)])
async def test_a_large_built_in_object_is_converted_in_a_thread(
    front: Front, server: Webhooks, monkeypatch: pytest.MonkeyPatch, metrics: int, text: str
) -> None:
    server.answers["/w"] = allow
    rule = {
        "apiGroups": ["autoscaling"], "apiVersions": ["v1"], "resources": ["horizontalpodautoscalers"],
        "operations": ["*"],
    }  # fmt: skip
    threads = Threads("plan_conversion", monkeypatch)
    store = store_of(configuration("ws1", "validating", hook(server, "/w", rules=[rule], matchPolicy="Equivalent")))
    assert (await front.dispatch(store, review(autoscaler(metrics, text)), cluster="ws1")).response.allowed
    (call,) = server.calls
    assert call.object["apiVersion"] == "autoscaling/v1"
    assert call.object["metadata"]["annotations"][_METRICS].count('"m2"') == 1
    assert threads.are_main() is (metrics == 3 and not text)


@pytest.mark.parametrize("size", [10, 50_000])
async def test_a_large_answer_of_a_conversion_webhook_is_read_in_a_thread(
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
