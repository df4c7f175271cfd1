"""Reviews of the creation of Pods for the five rules of `examples/policies/rules.py`, in turn; every tenth Pod breaks a rule."""

import json
import random
import uuid
from collections.abc import Callable
from typing import Any, Final

from benchmarks.varied import deployments
from fleethook.cluster.registration.paths import build_rule_path

RULES: Final = {
    name: build_rule_path(name, mutates=name == "seccomp")
    for name in ("required-labels", "image-registries", "no-latest", "resource-limits", "seccomp")
}
"""The paths of the rules, the same for every server."""
COUNT: Final = 1_000
_FAULTY: Final = 10


def _lack_label(pod: dict[str, Any]) -> None:
    del pod["metadata"]["labels"]["owner"]


def _use_other_registry(pod: dict[str, Any]) -> None:
    pod["spec"]["initContainers"][0]["image"] = "docker.io/library/busybox:1.37"


def _use_latest(pod: dict[str, Any]) -> None:
    pod["spec"]["containers"][1]["image"] = "registry.example.com/mesh/proxy:latest"


def _use_no_tag(pod: dict[str, Any]) -> None:
    pod["spec"]["containers"][0]["image"] = "registry.example.com/shop/app"


def _lack_limit(pod: dict[str, Any]) -> None:
    del pod["spec"]["containers"][1]["resources"]["limits"]["memory"]


def _lack_resources(pod: dict[str, Any]) -> None:
    del pod["spec"]["containers"][0]["resources"]


def _have_profile(pod: dict[str, Any]) -> None:
    pod["spec"]["securityContext"]["seccompProfile"] = {"type": "Localhost", "localhostProfile": "a.json"}


def _lack_security_context(pod: dict[str, Any]) -> None:
    del pod["spec"]["securityContext"]


EDITS: Final[tuple[Callable[[dict[str, Any]], None], ...]] = (
    _lack_label, _use_other_registry, _use_latest, _use_no_tag, _lack_limit, _lack_resources, _have_profile, _lack_security_context,
)  # fmt: skip
"""Changes of a Pod that follows all rules. The last two change only the patch of seccomp."""


def pods(count: int = COUNT) -> list[dict[str, Any]]:
    """Return different Pods; every tenth one has one of `EDITS`, in turn."""
    made = [_make_pod(one) for one in deployments(count)]
    for number, position in enumerate(range(0, count, _FAULTY)):
        EDITS[number % len(EDITS)](made[position])
    return made


def _make_pod(deployment: dict[str, Any]) -> dict[str, Any]:
    metadata, template = deployment["metadata"], deployment["spec"]["template"]
    name = metadata["name"]
    labels = {"app.kubernetes.io/name": name, "owner": "shop", "pod-template-hash": "6d4b75cb6d"}
    owner = {
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"{name}-6d4b75cb6d", "uid": metadata["uid"],
        "controller": True, "blockOwnerDeletion": True,
    }  # fmt: skip
    return {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "generateName": f"{name}-6d4b75cb6d-", "namespace": "default", "labels": template["metadata"]["labels"] | labels,
            "annotations": template["metadata"]["annotations"] | metadata["annotations"], "ownerReferences": [owner],
        },
        "spec": template["spec"],
    }  # fmt: skip


def reviews(documents: list[dict[str, Any]]) -> list[bytes]:
    """Return the AdmissionReviews of the creation of Pods, as kube-apiserver sends them."""
    pick = random.Random(4)
    return [_review(document, str(uuid.UUID(int=pick.getrandbits(128), version=4))) for document in documents]


def _review(document: dict[str, Any], uid: str) -> bytes:
    named = {"group": "", "version": "v1"}
    request = {
        "uid": uid, "kind": named | {"kind": "Pod"}, "resource": named | {"resource": "pods"},
        "requestKind": named | {"kind": "Pod"}, "requestResource": named | {"resource": "pods"},
        "namespace": "default", "operation": "CREATE",
        "userInfo": {
            "username": "system:serviceaccount:kube-system:replicaset-controller",
            "uid": "5f3a7c1e-0000-4000-8000-000000000002",
            "groups": ["system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"],
        },
        "object": document, "oldObject": None, "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
    }  # fmt: skip
    review = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}
    return json.dumps(review, separators=(",", ":")).encode()
