"""Random reviews, well-formed and malformed: each gets an answer, without a 5xx or an unhandled exception."""

import json
import logging
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from fleethook.app import Fleethook, create_app
from fleethook.engines.interpret.native.native_kinds import NATIVE
from fleethook.model.gvk import GroupVersionKind
from fleethook.model.karmada import OPERATIONS, ConventionsMode
from fleethook.settings import Settings
from tests.asgi_client import call
from tests.hypothesis_profiles import examples

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**40), 2**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
)
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)

# Members that interpreters read, with values of correct and wrong types.
NAMES = (
    "replicas", "template", "spec", "status", "metadata", "containers", "initContainers", "volumes", "env", "envFrom", "resources",
    "requests", "limits", "cpu", "memory", "nodeSelector", "tolerations", "affinity", "nodeAffinity", "labels", "annotations",
    "generation", "observedGeneration", "conditions", "loadBalancer", "ingress", "ports", "phase", "secrets", "name", "namespace",
    "type", "clusterIP", "clusterIPs", "nodePort", "port", "selector", "matchLabels", "parallelism", "completions", "tls", "secretName",
    "volumeClaimTemplates", "claimRef", "volumeName", "disruptedPods", "active", "startTime", "containerStatuses", "data", "configMap",
    "projected", "sources", "jobTemplate", "overhead", "restartPolicy", "resourcetemplate.karmada.io/generation",
    "resourcetemplate.karmada.io/retain-replicas", "currentHealthy", "desiredHealthy", "volumeMounts", "imagePullSecrets",
    "paused", "updateStrategy", "rollingUpdate", "partition", "updatedReplicas", "availableReplicas",
)  # fmt: skip
bent = st.recursive(
    scalars
    | st.sampled_from(
        ["100m", "1Gi", "true", "True", "Failed", "Complete", "OnDelete", "LoadBalancer", "Running", "1"]
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=5),
    max_leaves=25,
)
members = st.dictionaries(st.sampled_from(("spec", "status", "metadata", "secrets", "data", "type")), bent, max_size=4)
WIDGET = GroupVersionKind("example.com", "v1", "Widget")
natives = st.sampled_from(sorted(NATIVE))
kinds = natives | st.just(WIDGET)


WIDGETS = {
    "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com", "names": {"kind": "Widget", "plural": "widgets"}, "scope": "Namespaced",
        "versions": [{"name": "v1", "served": True, "subresources": {"scale": {"specReplicasPath": ".spec.replicas"}}}],
    },
}  # fmt: skip


@st.composite
def documents(draw: st.DrawFn) -> Any:
    if draw(st.integers(0, 9)) == 0:
        return draw(anything)
    kind = draw(kinds)
    return {**draw(members), "apiVersion": kind.api_version, "kind": kind.kind}


items = st.lists(
    st.fixed_dictionaries({"clusterName": st.text(max_size=4)}, optional={"status": bent, "applied": st.booleans()})
    | anything,
    max_size=3,
)
operations = st.sampled_from([name for row in OPERATIONS for name in (row.proposed, row.operation.value)]) | st.text(
    max_size=5
)


@st.composite
def reviews(draw: st.DrawFn) -> Any:
    document = draw(documents())
    request = {
        "uid": draw(st.sampled_from(["u-1", "u-1", "u-1", "", None, 7])),
        "operation": draw(operations),
        "object": document,
    }
    if draw(st.booleans()):
        request["observedObject"] = draw(documents())
    if draw(st.booleans()):
        request["replicas"] = draw(st.integers(-5, 2**33) | anything)
    if draw(st.booleans()):
        request["aggregatedStatus"] = draw(items | anything)
    kind = draw(st.sampled_from(["ExploreReview", "ResourceInterpreterContext", "Pod"]))
    return {"apiVersion": "config.karmada.io/v1alpha1", "kind": kind, "request": request}


@pytest.fixture(scope="module")
def app() -> Fleethook:
    app = create_app(Settings(interpret_conventions=ConventionsMode.ALL), log=None)
    app.store.put(WIDGETS)
    return app


def _ask_replicas(api_version: str, kind: str, replicas: int) -> dict[str, Any]:
    document = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}, "spec": {"replicas": replicas}}
    request = {"uid": "u-1", "operation": "ExploreReplica", "object": document}
    return {"apiVersion": "config.karmada.io/v1alpha1", "kind": "ExploreReview", "request": request}


@pytest.mark.parametrize("path", ["/explore", "/interpret"])
@settings(max_examples=examples(300), suppress_health_check=list(HealthCheck))
@example(review=_ask_replicas("example.com/v1", "Widget", -1))
@example(review=_ask_replicas("apps.kruise.io/v1alpha1", "CloneSet", 2**31))
@given(review=reviews())
async def test_any_review_is_answered(app: Fleethook, caplog: pytest.LogCaptureFixture, path: str, review: Any) -> None:
    caplog.clear()
    answer = await call(app, path, json.dumps(review).encode())
    uid = review["request"]["uid"]
    usable = review["kind"] != "Pod" and isinstance(uid, str) and uid
    assert answer.status == (200 if usable else 400), answer.body
    if usable:
        response = answer.json()["response"]
        assert response["uid"] == "u-1"
        if not response["successful"]:
            reason = response if review["kind"] == "ExploreReview" else response["status"]
            assert reason["message"]
            assert reason["code"] in (400, 404, 422), (reason, review)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
