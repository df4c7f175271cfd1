"""Subjects, NodePools and workloads of which the cases are made."""

from typing import Any

JSONObject = dict[str, Any]

GROUP = "apps.openyurt.io"
UID = "6c1b9a2e-0000-4000-8000-000000000001"
POOL_LABELS: dict[str, dict[str, str]] = {
    "beijing": {"region": "north", "tier": "edge"},
    "hangzhou": {"region": "east", "tier": "edge"},
    "shanghai": {"region": "east", "tier": "cloud"},
    "plain": {},
}


def node_pools(**labels: dict[str, str]) -> list[JSONObject]:
    """Return NodePools v1beta2 by name and labels; without arguments those of POOL_LABELS."""
    return [
        {
            "apiVersion": f"{GROUP}/v1beta2",
            "kind": "NodePool",
            "metadata": {"name": name, **({"labels": own} if own else {})},
            "spec": {"type": "Edge"},
        }
        for name, own in (labels or POOL_LABELS).items()
    ]


def container(name: str = "app", **members: Any) -> JSONObject:
    return {"name": name, "image": f"{name}:1", **members}


def pod_template(*containers: JSONObject, **spec: Any) -> JSONObject:
    return {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": list(containers) or [container()], **spec},
    }


def template(kind: str, template: JSONObject | None = None, *, metadata: JSONObject | None = None, **spec: Any) -> Any:
    """Return a deploymentTemplate or statefulSetTemplate; a member that is None is left out."""
    members = {
        "selector": {"matchLabels": {"app": "web"}},
        **({"serviceName": "web"} if kind == "StatefulSet" else {}),
        "template": template or pod_template(),
        **spec,
    }
    return {
        **({"metadata": metadata} if metadata is not None else {}),
        "spec": {name: value for name, value in members.items() if value is not None},
    }


def subject(
    kind: str = "Deployment",
    workload_template: JSONObject | None = None,
    *tweaks: JSONObject,
    name: str = "web",
    pools: list[str] | None = None,
    selector: JSONObject | None = None,
) -> JSONObject:
    """Return a YurtAppSet v1beta1; without ``pools`` and ``selector`` it lists three of the pools."""
    member = {"Deployment": "deploymentTemplate", "StatefulSet": "statefulSetTemplate"}[kind]
    chosen = ["hangzhou", "beijing", "plain"] if pools is None and selector is None else pools
    return {
        "apiVersion": f"{GROUP}/v1beta1",
        "kind": "YurtAppSet",
        "metadata": {"name": name, "namespace": "default", "uid": UID, "generation": 3},
        "spec": {
            "workload": {
                "workloadTemplate": {member: workload_template or template(kind)},
                **({"workloadTweaks": list(tweaks)} if tweaks else {}),
            },
            **({"pools": chosen} if chosen is not None else {}),
            **({"nodepoolSelector": selector} if selector is not None else {}),
            "revisionHistoryLimit": 5,
        },
    }


def tweak(pools: list[str] | None = None, selector: JSONObject | None = None, **tweaks: Any) -> JSONObject:
    return {
        **({"pools": pools} if pools is not None else {}),
        **({"nodepoolSelector": selector} if selector is not None else {}),
        "tweaks": tweaks,
    }


def operation(name: str, path: str, *value: Any) -> JSONObject:
    return {"operation": name, "path": path, **({"value": value[0]} if value else {})}


def reference(version: str = "v1beta1", **members: Any) -> JSONObject:
    return {
        "apiVersion": f"{GROUP}/{version}",
        "kind": "YurtAppSet",
        "name": "web",
        "uid": UID,
        "controller": True,
        "blockOwnerDeletion": True,
        **members,
    }


def existing(kind: str = "Deployment", pool: str = "hangzhou", **members: Any) -> JSONObject:
    """Return a workload that the cluster holds, with labels, annotations and a spec that others changed."""
    labels = {
        f"{GROUP}/pool-name": pool,
        f"{GROUP}/controller-revision-hash": "web-old",
        f"{GROUP}/ref-yurtappset": "web",
        "app": "web",
        "team": "edge",
    }
    metadata = {
        "name": f"web-{pool}-x7x7x",
        "generateName": f"web-{pool}-",
        "namespace": "default",
        "uid": "6c1b9a2e-0000-4000-8000-000000000002",
        "resourceVersion": "17",
        "generation": 4,
        "labels": labels,
        "annotations": {
            f"{GROUP}/ref-nodepool": pool,
            "deployment.kubernetes.io/revision": "4",
            "note": "by hand",
        },
        "finalizers": ["example.com/keep"],
        "ownerReferences": [reference()],
        **members,
    }
    pods = pod_template(container(image="app:hand", env=[{"name": "HAND", "value": "1"}]))
    pods["metadata"]["labels"] |= {f"{GROUP}/pool-name": pool, f"{GROUP}/controller-revision-hash": "web-old"}
    pods["metadata"]["annotations"] = {"kubectl.kubernetes.io/restartedAt": "2024-01-01T00:00:00Z"}
    pods["spec"]["nodeSelector"] = {f"{GROUP}/nodepool": pool, "by": "hand"}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": metadata,
        "spec": {
            "replicas": 9,
            "revisionHistoryLimit": 3,
            "minReadySeconds": 11,
            "selector": {"matchLabels": {"app": "web", f"{GROUP}/pool-name": pool}},
            "template": pods,
            **({"paused": True, "progressDeadlineSeconds": 77} if kind == "Deployment" else {"serviceName": "hand"}),
        },
    }
