"""Workloads as OpenYurt's controllers create them, without the code under test."""

import copy
from typing import Any

POOL_LABEL = "apps.openyurt.io/pool-name"
APPS = "/apis/apps/v1"


def owner_reference(subject: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": subject["apiVersion"],
        "kind": subject["kind"],
        "name": subject["metadata"]["name"],
        "uid": subject["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def workload_of(subject: dict[str, Any], pool: str) -> dict[str, Any]:
    """Return the workload of one pool for a subject that the apiserver returned."""
    templates = subject["spec"]["workloadTemplate"]
    kind = "Deployment" if "deploymentTemplate" in templates else "StatefulSet"
    template = copy.deepcopy(templates.get("deploymentTemplate") or templates["statefulSetTemplate"])
    labels = {**subject["spec"]["selector"]["matchLabels"], POOL_LABEL: pool}
    spec = template["spec"]
    spec["selector"] = {"matchLabels": labels}
    pod = spec["template"]
    pod["metadata"]["labels"] = {**pod["metadata"].get("labels", {}), POOL_LABEL: pool}
    pods = pod["spec"]
    for config in subject["spec"].get("topology", {}).get("pools", []):
        if config["name"] == pool:
            spec["replicas"] = config.get("replicas", 1)
            if term := config.get("nodeSelectorTerm"):
                required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
                pods["affinity"] = {"nodeAffinity": required}
            if tolerations := config.get("tolerations"):
                pods["tolerations"] = tolerations
    if subject["kind"] == "YurtAppDaemon":
        pods["nodeSelector"] = {"apps.openyurt.io/nodepool": pool}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {
            "generateName": f"{subject['metadata']['name']}-{pool}-",
            "namespace": subject["metadata"]["namespace"],
            "labels": {**template["metadata"].get("labels", {}), POOL_LABEL: pool},
            "ownerReferences": [owner_reference(subject)],
        },
        "spec": spec,
    }


def path_of(workload: dict[str, Any]) -> str:
    """Return the path of a workload, or of its collection if it has no name yet."""
    plural = workload["kind"].lower() + "s"
    path = f"{APPS}/namespaces/{workload['metadata']['namespace']}/{plural}"
    name = workload["metadata"].get("name")
    return f"{path}/{name}" if name else path


def images(workload: dict[str, Any]) -> dict[str, str]:
    return {c["name"]: c["image"] for c in workload["spec"]["template"]["spec"]["containers"]}
