"""Ordinary reviews of every route, of the examples and of the bundle's fixtures."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from app.interpret.fixtures import FixtureError, fixtures, is_fixture
from app.interpret.native import NATIVE
from app.interpret.question import Question
from app.model.karmada import Operation
from app.registration import paths
from benchmarks.engines.worst import Base
from benchmarks.harness import ROOT
from benchmarks.reviews import _pod_template

EXAMPLES = ROOT / "examples"
BUNDLE = ROOT / "app" / "interpret" / "bundle"
UID = "0d5f7a38-71ad-4d2d-a4b0-5b1c8e0f3a11"
OWNED = (paths.MUTATE_DEPLOYMENT, paths.MUTATE_STATEFULSET)


def bases() -> list[Base]:
    """Return an ordinary review for each route and kind of document."""
    return [*_overriders(), *_configurations(), *_clusters(), *_native(), *_scripts()]


def _load(path: Path) -> list[Any]:
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


def admission(document: Any, *, old: Any = None, resource: str = "") -> dict[str, Any]:
    """Return an AdmissionReview of an object: a CREATE, or an UPDATE if it was another one before."""
    group, _, version = document["apiVersion"].rpartition("/")
    kind = {"group": group, "version": version, "kind": document["kind"]}
    meta = document["metadata"]
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": UID, "kind": kind, "requestKind": kind, "name": meta["name"],
            "namespace": meta.get("namespace", "default"), "operation": "CREATE" if old is None else "UPDATE",
            "resource": {"group": group, "version": version, "resource": resource or f"{document['kind'].lower()}s"},
            "userInfo": {"username": "somebody", "groups": ["people"]},
            "object": document, "oldObject": old, "dryRun": False,
            "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"},
        },
    }  # fmt: skip


def _overriders() -> Iterator[Base]:
    story = json.loads((EXAMPLES / "yurtappoverrider" / "story-2" / "review.json").read_text())
    workload = story["request"]["object"]
    template = _pod_template()
    template["metadata"]["labels"] |= workload["spec"]["template"]["metadata"]["labels"]
    full = {**workload, "spec": {**workload["spec"], "template": template}}
    for route in OWNED:
        yield Base(route, "created", {**story, "request": {**story["request"], "object": full}})
        updated = {**story["request"], "operation": "UPDATE", "object": full, "oldObject": full}
        yield Base(route, "updated", {**story, "request": updated})
    for number in range(1, 6):
        directory = EXAMPLES / "yurtappoverrider" / f"story-{number}"
        for overrider in _load(directory / "overrider.yaml"):
            for route in (paths.MUTATE_OVERRIDER, paths.VALIDATE_OVERRIDER):
                yield Base(route, f"story {number}", admission(overrider))
            yield Base(paths.VALIDATE_OVERRIDER, f"edit of story {number}", admission(overrider, old=overrider))
        for subject in [one for path in sorted(directory.glob("yurtapp*.yaml")) for one in _load(path)]:
            route = paths.VALIDATE_APP_DAEMON if subject["kind"] == "YurtAppDaemon" else paths.VALIDATE_APP_SET
            yield Base(route, f"story {number}", admission(subject, old=subject))
    yield Base(paths.VALIDATE_APP_SET_V1BETA1, "tweaks", admission(_app_set(), old=_app_set()))


def _app_set() -> dict[str, Any]:
    labels = {"app": "demo"}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": _pod_template()}
    patch = {"path": "/spec/template/spec/containers/0/image", "operation": "replace", "value": "nginx:1.25"}
    tweak = {
        "pools": ["hangzhou"],
        "tweaks": {"replicas": 2, "containerImages": [{"name": "a", "targetImage": "b"}], "patches": [patch]},
    }
    deployment = {"metadata": {"labels": labels}, "spec": spec}
    return {
        "apiVersion": "apps.openyurt.io/v1beta1", "kind": "YurtAppSet", "metadata": {"name": "demo", "namespace": "default"},
        "spec": {
            "pools": ["hangzhou"], "nodepoolSelector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]},
            "workload": {"workloadTemplate": {"deploymentTemplate": deployment}, "workloadTweaks": [tweak]},
        },
    }  # fmt: skip


def _configurations() -> Iterator[Base]:
    (hooks,) = (one for one in _load(EXAMPLES / "interpreter" / "configuration.yaml")[:1])
    yield Base(paths.VALIDATE_HOOKS, "interpreter", admission(hooks))
    (customization,) = _load(BUNDLE / "kubeflow.org" / "MPIJob" / "customization.yaml")
    yield Base(paths.VALIDATE_CUSTOMIZATION, "MPIJob", admission(customization))
    (config_map,) = (one for one in _load(EXAMPLES / "retention" / "karmada-config.yaml") if one["kind"] == "ConfigMap")
    yield Base(paths.VALIDATE_CONFIG_MAP, "karmada-config", admission(config_map))
    http = {"url": "https://example.org/crds.tar.gz", "headers": {"a": ["b"]}, "proxy": {"proxyURL": "http://proxy:1"}}
    karmada = {
        "apiVersion": "operator.karmada.io/v1alpha1", "kind": "Karmada", "metadata": {"name": "demo", "namespace": "default"},
        "spec": {"crdTarball": {"httpSource": http, "crdDownloadPolicy": "Always", "sha256": "a" * 64}},
    }  # fmt: skip
    for route in (paths.MUTATE_KARMADA, paths.VALIDATE_KARMADA):
        yield Base(route, "source", admission(karmada, old=karmada))
    rule = {"apiGroups": ["a"], "apiVersions": ["v1"], "resources": ["b"], "operations": ["CREATE"], "scope": "*"}
    selector = {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}
    hook = {
        "name": "a.example.org", "clientConfig": {"url": "https://example.org/a", "caBundle": "YQ=="}, "rules": [rule],
        "namespaceSelector": selector, "objectSelector": selector, "sideEffects": "None", "failurePolicy": "Fail",
        "matchConditions": [{"name": "a", "expression": "object.metadata.name == 'a'"}], "timeoutSeconds": 1,
        "admissionReviewVersions": ["v1"],
    }  # fmt: skip
    for route, phase in ((paths.VALIDATE_MUTATING, "Mutating"), (paths.VALIDATE_VALIDATING, "Validating")):
        made = {
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": f"{phase}WebhookConfiguration",
            "metadata": {"name": "demo", "annotations": {"kcp.io/cluster": "ws1"}}, "webhooks": [hook],
        }  # fmt: skip
        yield Base(route, "hook", admission(made, old=made))


def _clusters() -> Iterator[Base]:
    review = json.loads((EXAMPLES / "kcp-widgets" / "review.json").read_text())
    for route in (paths.CLUSTER_MUTATE, paths.CLUSTER_VALIDATE, paths.CLUSTER_EXPLAIN):
        yield Base(route.replace("{cluster}", "ws3"), "widget", review)


def _native() -> Iterator[Base]:
    for kind, operations in NATIVE.items():
        document = _full(kind.kind, f"{kind.group}/{kind.version}".lstrip("/"))
        for operation in {*operations, Operation.STATUS, Operation.PRUNE}:
            items = [{"clusterName": "m1", "status": document["status"], "applied": True, "health": "Healthy"}]
            question = {
                "uid": UID, "kind": {"group": kind.group, "version": kind.version, "kind": kind.kind}, "name": "demo",
                "namespace": "default", "operation": operation.value, "object": document, "observedObject": document,
                "replicas": 2, "aggregatedStatus": items,
            }  # fmt: skip
            yield _interpreter(f"{kind.kind} {operation.value}", question)


def _full(kind: str, api_version: str) -> dict[str, Any]:
    """Return an object that has whatever interpreters of Kubernetes' kinds read."""
    template = _pod_template()
    template["spec"]["containers"] = template["spec"]["containers"][:1]
    conditions = [
        {
            "type": "Complete",
            "status": "True",
            "reason": "a",
            "message": "b",
            "lastTransitionTime": "2024-01-01T00:00:00Z",
        }
    ]
    spec: dict[str, Any] = {
        "replicas": 2,
        "parallelism": 2,
        "completions": 2,
        "template": template,
        "selector": {"matchLabels": {"a": "b"}},
    }
    spec |= {
        "jobTemplate": {"spec": {"template": template}},
        "clusterIP": "10.0.0.1",
        "ports": [{"name": "a", "port": 1, "nodePort": 30000}],
    }
    spec |= {
        "rules": [{"host": "a", "http": {"paths": [{"path": "/", "backend": {"service": {"name": "a"}}}]}}],
        "tls": [{"secretName": "a"}],
    }
    spec |= {"volumeClaimTemplates": [{"metadata": {"name": "a"}}], "volumeName": "v", "type": "LoadBalancer"}
    if kind == "Pod":
        spec = template["spec"]
    counts = {
        name: 2
        for name in (
            "replicas",
            "readyReplicas",
            "updatedReplicas",
            "availableReplicas",
            "active",
            "succeeded",
            "observedGeneration",
        )
    }
    balancer = {"ingress": [{"ip": "1.2.3.4", "hostname": "a", "ports": [{"port": 1, "protocol": "TCP"}]}]}
    status: dict[str, Any] = {**counts, "conditions": conditions, "loadBalancer": balancer, "phase": "Running"}
    status |= {"disruptedPods": {"a": "2024-01-01T00:00:00Z"}, "containerStatuses": [{"name": "a", "restartCount": 1}]}
    status |= {
        "active": [{"name": "a", "namespace": "b"}],
        "startTime": "2024-01-01T00:00:00Z",
        "capacity": {"storage": "1Gi"},
    }
    return {
        "apiVersion": api_version, "kind": kind, "spec": spec, "status": status,
        "metadata": {"name": "demo", "namespace": "default", "labels": {"a": "b"}, "annotations": {"a": "b"}, "finalizers": ["a"]},
        "data": {"a": "Yg=="}, "secrets": [{"name": "a"}],
    }  # fmt: skip


def _scripts() -> Iterator[Base]:
    seen: set[tuple[str, str]] = set()
    for path in sorted(BUNDLE.rglob("testdata/*.yaml")):
        for document in _load(path):
            if not is_fixture(document):
                continue
            try:
                found = [one.question for one in fixtures(document)]
            except FixtureError:
                continue
            for question in found:
                key = (question.kind.kind, question.operation.value)
                if key not in seen:
                    seen.add(key)
                    yield _interpreter(" ".join(key), _asked(question))


def _asked(question: Question) -> dict[str, Any]:
    meta: Any = question.object.get("metadata", {})
    return {
        "uid": UID, "kind": question.kind._asdict(), "name": meta.get("name", "demo"), "namespace": meta.get("namespace", ""),
        "operation": question.operation.value, "object": question.object, "observedObject": question.observed,
        "replicas": question.replicas, "aggregatedStatus": None if question.items is None else list(question.items),
    }  # fmt: skip


def _interpreter(name: str, request: dict[str, Any]) -> Base:
    review = {"apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterContext", "request": request}
    return Base(paths.INTERPRET, name, review)
