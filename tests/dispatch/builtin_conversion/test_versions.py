"""Built-in objects are converted for webhooks whose rules name another version."""

from typing import Any

import pytest

from app.dispatch.hooks import Phase
from app.patch import apply
from tests.dispatch.builders import configuration, review, store_of
from tests.dispatch.conftest import Front
from tests.dispatch.webhook_server import Webhooks, allow, hook, patch

PHASES: tuple[Phase, ...] = ("mutating", "validating")


def rules(group: str, version: str, resource: str) -> list[dict[str, Any]]:
    return [{"apiGroups": [group], "apiVersions": [version], "resources": [resource], "operations": ["*"]}]


def autoscaler(version: str = "v2") -> dict[str, Any]:
    target = {"type": "Utilization", "averageUtilization": 50}
    spec = {"scaleTargetRef": {"kind": "Deployment", "name": "d"}, "minReplicas": 1, "maxReplicas": 3}
    metrics = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    return {
        "apiVersion": f"autoscaling/{version}", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "a", "namespace": "default"}, "spec": {**spec, "metrics": metrics},
        "status": {"desiredReplicas": 0, "currentMetrics": None},
    }  # fmt: skip


async def test_events_are_sent_in_the_version_of_the_rule(front: Front, server: Webhooks) -> None:
    server.answers["/w"] = allow
    condition = {"name": "note", "expression": "object.note == 'it works'"}
    hooks = hook(
        server,
        "/w",
        rules=rules("events.k8s.io", "v1", "events"),
        matchPolicy="Equivalent",
        matchConditions=[condition],
    )
    event = {
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "default"},
        "involvedObject": {"kind": "Pod"}, "message": "it works", "reportingComponent": "", "reportingInstance": "",
    }  # fmt: skip
    store = store_of(configuration("ws1", "validating", hooks))
    assert (await front.dispatch(store, review(event), cluster="ws1")).response.allowed
    (call,) = server.calls
    assert call.review["request"]["kind"] == {"group": "events.k8s.io", "version": "v1", "kind": "Event"}
    assert call.review["request"]["requestKind"] == {"group": "", "version": "v1", "kind": "Event"}
    assert call.object["note"] == "it works"
    assert call.object["regarding"] == {"kind": "Pod"}
    assert not {"message", "involvedObject", "reportingComponent"} & call.object.keys()


async def test_patches_of_another_version_are_converted_back(front: Front, server: Webhooks) -> None:
    server.answers["/w"] = patch({"op": "replace", "path": "/spec/targetCPUUtilizationPercentage", "value": 70})
    hooks = hook(server, "/w", rules=rules("autoscaling", "v1", "horizontalpodautoscalers"), matchPolicy="Equivalent")
    store = store_of(configuration("ws1", "mutating", hooks))
    response = (await front.dispatch(store, review(autoscaler()), cluster="ws1", phase="mutating")).response
    assert server.calls[0].object["spec"]["targetCPUUtilizationPercentage"] == 50
    expected = autoscaler()
    expected["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"] = 70
    assert apply(autoscaler(), response.patch) == expected


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
@pytest.mark.parametrize("phase", PHASES)
async def test_unknown_versions_are_refused_with_a_remedy(
    front: Front, server: Webhooks, phase: Phase, policy: str
) -> None:
    server.answers["/w"] = allow
    named = rules("autoscaling", "v2", "horizontalpodautoscalers")
    hooks = hook(server, "/w", rules=named, matchPolicy="Equivalent", failurePolicy=policy)
    store = store_of(configuration("ws1", phase, hooks))
    response = (await front.dispatch(store, review(autoscaler("v2beta2")), cluster="ws1", phase=phase)).response
    assert (response.allowed, response.code) == (False, 500)
    assert "name the requested version in the webhook's rules" in response.message
    assert server.calls == []
