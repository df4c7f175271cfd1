"""Ordinary reviews of every route; those of interpreters are in `benchmarks.engines.worst_questions`."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from benchmarks.engines.dispatch_worlds import CONSUMER, build_review
from benchmarks.engines.worst_documents import Base
from benchmarks.engines.worst_questions import BUNDLE, questions
from benchmarks.harness import ROOT
from benchmarks.reviews import deployment
from fleethook.cluster.registration import paths

EXAMPLES = ROOT / "examples"
UID = "0d5f7a38-71ad-4d2d-a4b0-5b1c8e0f3a11"
OWNED = (paths.MUTATE_DEPLOYMENT, paths.MUTATE_STATEFULSET)


def bases() -> list[Base]:
    """Return an ordinary review for each route and kind of document."""
    return [*_overriders(), *_configurations(), *_dispatch_reviews(), *questions()]


def load(path: Path) -> list[Any]:
    """Return the documents of a YAML file."""
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


def _admission(document: Any, *, old: Any = None, resource: str = "") -> dict[str, Any]:
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
    story = json.loads((EXAMPLES / "testdata" / "review-story-2.json").read_text())
    workload = story["request"]["object"]
    template = deployment()["spec"]["template"]
    template["metadata"]["labels"] |= workload["spec"]["template"]["metadata"]["labels"]
    full = {**workload, "spec": {**workload["spec"], "template": template}}
    for route in OWNED:
        yield Base(route, "created", {**story, "request": {**story["request"], "object": full}})
        updated = {**story["request"], "operation": "UPDATE", "object": full, "oldObject": full}
        yield Base(route, "updated", {**story, "request": updated})
    for number in range(1, 6):
        directory = EXAMPLES / "yurtappoverrider" / f"story-{number}"
        for overrider in load(directory / "overrider.yaml"):
            for route in (paths.MUTATE_OVERRIDER, paths.VALIDATE_OVERRIDER):
                yield Base(route, f"story {number}", _admission(overrider))
            yield Base(paths.VALIDATE_OVERRIDER, f"edit of story {number}", _admission(overrider, old=overrider))
        for subject in [one for path in sorted(directory.glob("yurtapp*.yaml")) for one in load(path)]:
            route = paths.VALIDATE_APP_DAEMON if subject["kind"] == "YurtAppDaemon" else paths.VALIDATE_APP_SET
            yield Base(route, f"story {number}", _admission(subject, old=subject))
    yield Base(paths.VALIDATE_APP_SET_V1BETA1, "tweaks", _admission(_app_set(), old=_app_set()))


def _app_set() -> dict[str, Any]:
    labels = {"app": "demo"}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": deployment()["spec"]["template"]}
    patch = {"path": "/spec/template/spec/containers/0/image", "operation": "replace", "value": "nginx:1.25"}
    tweak = {
        "pools": ["hangzhou"],
        "tweaks": {"replicas": 2, "containerImages": [{"name": "a", "targetImage": "b"}], "patches": [patch]},
    }
    workload = {"metadata": {"labels": labels}, "spec": spec}
    return {
        "apiVersion": "apps.openyurt.io/v1beta1", "kind": "YurtAppSet", "metadata": {"name": "demo", "namespace": "default"},
        "spec": {
            "pools": ["hangzhou"], "nodepoolSelector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]},
            "workload": {"workloadTemplate": {"deploymentTemplate": workload}, "workloadTweaks": [tweak]},
        },
    }  # fmt: skip


def _configurations() -> Iterator[Base]:
    (hooks,) = (one for one in load(EXAMPLES / "interpreter" / "configuration.yaml")[:1])
    yield Base(paths.VALIDATE_HOOKS, "interpreter", _admission(hooks))
    (customization,) = load(BUNDLE / "kubeflow.org" / "MPIJob" / "customization.yaml")
    yield Base(paths.VALIDATE_CUSTOMIZATION, "MPIJob", _admission(customization))
    (config_map,) = (one for one in load(EXAMPLES / "retention" / "karmada-config.yaml") if one["kind"] == "ConfigMap")
    yield Base(paths.VALIDATE_CONFIG_MAP, "karmada-config", _admission(config_map))
    http = {"url": "https://example.org/crds.tar.gz", "headers": {"a": ["b"]}, "proxy": {"proxyURL": "http://proxy:1"}}
    karmada = {
        "apiVersion": "operator.karmada.io/v1alpha1", "kind": "Karmada", "metadata": {"name": "demo", "namespace": "default"},
        "spec": {"crdTarball": {"httpSource": http, "crdDownloadPolicy": "Always", "sha256": "a" * 64}},
    }  # fmt: skip
    for route in (paths.MUTATE_KARMADA, paths.VALIDATE_KARMADA):
        yield Base(route, "source", _admission(karmada, old=karmada))


def _dispatch_reviews() -> Iterator[Base]:
    template = deployment()["spec"]["template"]
    for operation in ("CREATE", "UPDATE"):
        review = build_review(operation=operation, template=template, text="a", listed=["a"])
        review["request"]["object"]["metadata"]["annotations"] = {"kcp.io/cluster": CONSUMER}
        for route in (paths.CLUSTER_MUTATE, paths.CLUSTER_VALIDATE, paths.CLUSTER_EXPLAIN):
            yield Base(route.replace("{cluster}", CONSUMER), operation, review)
        for route in (paths.DISPATCH_MUTATE, paths.DISPATCH_VALIDATE):
            yield Base(route, operation, review)
