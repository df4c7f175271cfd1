"""Ordinary questions to interpreters: each operation of each kind that is built in, and one of each script of the bundle."""

import json
from collections.abc import Iterator
from typing import Any

import yaml

from benchmarks.engines.worst_documents import Base
from benchmarks.harness import ROOT
from benchmarks.reviews import deployment, explore_review
from fleethook.cluster.registration import paths
from fleethook.engines.interpret.interpreter_fixtures import read_fixtures
from fleethook.engines.interpret.native.native_kinds import NATIVE
from fleethook.fixture_format import FixtureError, is_fixture
from fleethook.interpret.interpreter import Question
from fleethook.model.karmada import (
    API_VERSION,
    EXPLORE_REVIEW,
    INTERPRETER_CONTEXT,
    OPERATIONS,
    Operation,
    proposed_name,
)

BUNDLE = ROOT / "app" / "fleethook" / "engines" / "interpret" / "bundle"
UID = "0d5f7a38-71ad-4d2d-a4b0-5b1c8e0f3a11"


def questions() -> Iterator[Base]:
    """Yield a review for each route, kind and operation."""
    yield from _native()
    yield from _scripts()
    yield from _explore_reviews()


def _native() -> Iterator[Base]:
    for kind, operations in NATIVE.items():
        document = _full(kind.kind, f"{kind.group}/{kind.version}".lstrip("/"))
        for operation in sorted({*operations, Operation.STATUS, Operation.PRUNE}):
            items = [{"clusterName": "m1", "status": document["status"], "applied": True, "health": "Healthy"}]
            question = {
                "uid": UID, "kind": {"group": kind.group, "version": kind.version, "kind": kind.kind}, "name": "demo",
                "namespace": "default", "operation": operation.value, "object": document, "observedObject": document,
                "replicas": 2, "aggregatedStatus": items,
            }  # fmt: skip
            yield _interpreter(f"{kind.kind} {operation.value}", question)


_COUNTS = (
    "replicas", "readyReplicas", "updatedReplicas", "availableReplicas", "currentReplicas", "fullyLabeledReplicas",
    "desiredNumberScheduled", "numberReady", "currentHealthy", "desiredHealthy", "succeeded", "failed", "observedGeneration",
)  # fmt: skip
_TIME = "2024-01-01T00:00:00Z"


def _full(kind: str, api_version: str) -> dict[str, Any]:
    """Return an object that has the members of all of Kubernetes' kinds that interpreters read."""
    template = deployment()["spec"]["template"]
    template["spec"]["containers"] = template["spec"]["containers"][:1]
    return {
        "apiVersion": api_version, "kind": kind, "data": {"a": "Yg=="}, "secrets": [{"name": "a"}], "status": _status(),
        "spec": template["spec"] if kind == "Pod" else _spec(template),
        "metadata": {
            "name": "demo", "namespace": "default", "labels": {"a": "b"}, "annotations": {"a": "b"}, "finalizers": ["a"],
        },
    }  # fmt: skip


def _spec(template: dict[str, Any]) -> dict[str, Any]:
    return {
        "replicas": 2, "parallelism": 2, "completions": 2, "template": template, "selector": {"matchLabels": {"a": "b"}},
        "jobTemplate": {"spec": {"template": template}}, "clusterIP": "10.0.0.1", "type": "LoadBalancer",
        "ports": [{"name": "a", "port": 1, "nodePort": 30000}], "tls": [{"secretName": "a"}], "volumeName": "v",
        "rules": [{"host": "a", "http": {"paths": [{"path": "/", "backend": {"service": {"name": "a"}}}]}}],
        "volumeClaimTemplates": [{"metadata": {"name": "a"}}],
    }  # fmt: skip


def _status() -> dict[str, Any]:
    condition = {"type": "Complete", "status": "True", "reason": "a", "message": "b", "lastTransitionTime": _TIME}
    balancer = {"ingress": [{"ip": "1.2.3.4", "hostname": "a", "ports": [{"port": 1, "protocol": "TCP"}]}]}
    return {
        **dict.fromkeys(_COUNTS, 2), "conditions": [condition], "loadBalancer": balancer, "phase": "Running",
        "disruptedPods": {"a": _TIME}, "containerStatuses": [{"name": "a", "restartCount": 1}],
        "active": [{"name": "a", "namespace": "b"}], "startTime": _TIME, "capacity": {"storage": "1Gi"},
    }  # fmt: skip


def _scripts() -> Iterator[Base]:
    seen: set[tuple[str, str]] = set()
    for path in sorted(BUNDLE.rglob("testdata/*.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            if not is_fixture(document):
                continue
            try:
                found = [one.question for one in read_fixtures(document)]
            except FixtureError:
                continue
            for question in found:
                key = (question.kind.kind, question.operation.value)
                if key not in seen:
                    seen.add(key)
                    yield _interpreter(" ".join(key), _build_request(question))


def _build_request(question: Question) -> dict[str, Any]:
    meta: Any = question.object.get("metadata", {})
    return {
        "uid": UID, "kind": question.kind._asdict(), "name": meta.get("name", "demo"), "namespace": meta.get("namespace", ""),
        "operation": question.operation.value, "object": question.object, "observedObject": question.observed,
        "replicas": question.replicas, "aggregatedStatus": None if question.items is None else list(question.items),
    }  # fmt: skip


def _interpreter(name: str, request: dict[str, Any]) -> Base:
    review = {"apiVersion": API_VERSION, "kind": INTERPRETER_CONTEXT, "request": request}
    return Base(paths.INTERPRET, name, review)


def _explore_reviews() -> Iterator[Base]:
    for row in OPERATIONS:
        if row.operation is not Operation.COMPONENT:
            yield Base(paths.EXPLORE, row.proposed, json.loads(explore_review(row.proposed)))
    samples = {
        paths.EXPLORE_FOO: ("foo.example.com", "Foo", (Operation.RETAIN, Operation.HEALTH)),
        paths.EXPLORE_BAR: ("bar.example.com", "Bar", (Operation.DEPENDENCY, Operation.HEALTH)),
    }
    spec = {"size": 1, "configMapName": "a", "secretName": "b", "namespace": "c", "wanted": 1}
    for route, (group, kind, operations) in samples.items():
        document = {
            "apiVersion": f"{group}/v1alpha1", "kind": kind, "metadata": {"name": "demo", "namespace": "default"},
            "spec": spec, "status": {"phase": "Ready", "ready": 1},
        }  # fmt: skip
        for operation in operations:
            request = {
                "uid": UID, "kind": {"group": group, "version": "v1alpha1", "kind": kind}, "name": "demo",
                "namespace": "default", "operation": proposed_name(operation), "object": document, "observedObject": document,
            }  # fmt: skip
            yield Base(route, operation.value, {"apiVersion": API_VERSION, "kind": EXPLORE_REVIEW, "request": request})
