"""The reviews that all benchmarks send: creation and update of a realistic Deployment."""

import copy
import json
from typing import Any

import msgspec

API = "apps.openyurt.io/v1alpha1"
POOL = "hangzhou"
UID = "705ab4f5-6393-11e8-b7cc-42010a800002"
TERM = {"matchExpressions": [{"key": "apps.openyurt.io/nodepool", "operator": "In", "values": [POOL]}]}


def _container(name: str, image: str) -> dict[str, Any]:
    probe = {
        "httpGet": {"path": "/healthz", "port": 8080},
        "initialDelaySeconds": 10,
        "periodSeconds": 10,
        "timeoutSeconds": 1,
    }
    return {
        "name": name,
        "image": image,
        "imagePullPolicy": "Always",
        "args": [
            "--config=/etc/app/config.yaml",
            "--region=$(REGION)",
            "--log-level=info",
            "--metrics-bind-address=:9090",
        ],
        "env": [{"name": f"SETTING_{number:02d}", "value": f"value-{number}"} for number in range(12)]
        + [{"name": "POD_NAME", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}}],
        "ports": [
            {"name": "http", "containerPort": 8080, "protocol": "TCP"},
            {"name": "metrics", "containerPort": 9090, "protocol": "TCP"},
        ],
        "resources": {"requests": {"cpu": "250m", "memory": "256Mi"}, "limits": {"cpu": "1", "memory": "512Mi"}},
        "livenessProbe": probe,
        "readinessProbe": {**probe, "initialDelaySeconds": 5},
        "volumeMounts": [
            {"name": "config", "mountPath": "/etc/app", "readOnly": True},
            {"name": "data", "mountPath": "/var/lib/app"},
        ],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    }


def _pod_template() -> dict[str, Any]:
    return {
        "metadata": {
            "labels": {"app": "shop", "tier": "backend"},
            "annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": "9090"},
        },
        "spec": {
            "containers": [
                _container("app", "registry.example.com/shop/app:1.13.0"),
                _container("proxy", "registry.example.com/mesh/proxy:2.1.0"),
            ],
            "initContainers": [
                {"name": "migrate", "image": "registry.example.com/shop/app:1.13.0", "command": ["/migrate", "--wait"]}
            ],
            "volumes": [
                {"name": "config", "configMap": {"name": "shop-config", "defaultMode": 420}},
                {"name": "data", "emptyDir": {}},
                {"name": "tls", "secret": {"secretName": "shop-tls", "defaultMode": 420}},
            ],
            "serviceAccountName": "shop",
            "terminationGracePeriodSeconds": 45,
            "securityContext": {"runAsNonRoot": True, "fsGroup": 2000},
        },
    }


def yurt_app_set() -> dict[str, Any]:
    return {
        "apiVersion": API,
        "kind": "YurtAppSet",
        "metadata": {"name": "shop", "namespace": "default", "uid": "4f3a7c1e-0000-4000-8000-000000000001"},
        "spec": {
            "selector": {"matchLabels": {"app": "shop"}},
            "workloadTemplate": {
                "deploymentTemplate": {"metadata": {"labels": {"app": "shop"}}, "spec": {"template": _pod_template()}}
            },
            "topology": {
                "pools": [
                    {
                        "name": POOL,
                        "replicas": 3,
                        "nodeSelectorTerm": TERM,
                        "tolerations": [{"key": "edge", "operator": "Exists"}],
                    }
                ]
            },
        },
    }


def overrider(name: str = "shop") -> dict[str, Any]:
    """Two images and a replica count as items; an environment variable, a volume and an argument as patches."""
    return {
        "apiVersion": API,
        "kind": "YurtAppOverrider",
        "metadata": {"name": name, "namespace": "default"},
        "subject": {"apiVersion": API, "kind": "YurtAppSet", "name": name},
        "entries": [
            {
                "pools": ["*"],
                "items": [
                    {
                        "image": {
                            "containerName": "app",
                            "imageClaim": "registry.{{nodepool}}.example.com/shop/app:1.14.2",
                        }
                    }
                ],
            },
            {
                "pools": [POOL],
                "items": [{"replicas": 5}],
                "patches": [
                    {
                        "operation": "add",
                        "path": "/spec/template/spec/containers/0/env/-",
                        "value": {"name": "REGION", "value": "{{nodepool}}"},
                    },
                    {
                        "operation": "add",
                        "path": "/spec/template/spec/volumes/-",
                        "value": {"name": "logs", "hostPath": {"path": "/data/logs"}},
                    },
                    {
                        "operation": "replace",
                        "path": "/spec/template/spec/containers/0/args/2",
                        "value": "--log-level=debug",
                    },
                ],
            },
        ],
    }


def _managed(manager: str) -> dict[str, Any]:
    container = {
        f"f:{name}": {} for name in ("args", "image", "imagePullPolicy", "name", "ports", "resources", "volumeMounts")
    }
    spec = {
        "f:containers": {'k:{"name":"app"}': container, 'k:{"name":"proxy"}': container},
        "f:volumes": {},
        "f:affinity": {},
    }
    fields = {
        "f:spec": {"f:replicas": {}, "f:strategy": {}, "f:template": {"f:metadata": {"f:labels": {}}, "f:spec": spec}}
    }
    return {
        "manager": manager, "operation": "Update", "apiVersion": "apps/v1", "time": "2026-01-01T00:00:00Z",
        "fieldsType": "FieldsV1", "fieldsV1": fields,
    }  # fmt: skip


def deployment() -> dict[str, Any]:
    """The pool's Deployment as OpenYurt's controller writes it and an apiserver sends it to webhooks."""
    template = _pod_template()
    labels = {"app": "shop", "apps.openyurt.io/pool-name": POOL}
    template["metadata"]["labels"].update(labels)
    template["metadata"]["labels"]["apps.openyurt.io/controller-revision-hash"] = "6c9f8d7b5"
    template["spec"].update(
        {
            "restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler",
            "tolerations": [{"key": "edge", "operator": "Exists"}],
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [TERM]}}},
        }
    )  # fmt: skip
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": "shop-hangzhou-x7k2p",
            "generateName": "shop-hangzhou-",
            "namespace": "default",
            "uid": "0d3c2b1a-0000-4000-8000-000000000002",
            "labels": {**labels, "apps.openyurt.io/controller-revision-hash": "6c9f8d7b5"},
            "annotations": {"apps.openyurt.io/patch": "", "deployment.kubernetes.io/revision": "7"},
            "managedFields": [_managed("yurt-manager"), _managed("kube-controller-manager")],
            "ownerReferences": [
                {
                    "apiVersion": API, "kind": "YurtAppSet", "name": "shop", "uid": "4f3a7c1e-0000-4000-8000-000000000001",
                    "controller": True, "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {
            "replicas": 3,
            "revisionHistoryLimit": 10,
            "progressDeadlineSeconds": 600,
            "selector": {"matchLabels": labels},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
            "template": template,
        },
    }  # fmt: skip


def review(operation: str, document: dict[str, Any] | None = None, *, uid: str = UID) -> bytes:
    """An AdmissionReview of a Deployment; of an UPDATE, the old one had another image of the second container."""
    document = document or deployment()
    old = None
    if operation == "UPDATE":
        old = copy.deepcopy(document)
        old["spec"]["template"]["spec"]["containers"][1]["image"] = "registry.example.com/mesh/proxy:2.0.9"
    kind = {"group": "apps", "version": "v1", "kind": "Deployment"}
    resource = {"group": "apps", "version": "v1", "resource": "deployments"}
    request = {
        "uid": uid, "kind": kind, "resource": resource, "requestKind": kind,
        "requestResource": resource, "name": document["metadata"]["name"], "namespace": "default", "operation": operation,
        "userInfo": {"username": "system:serviceaccount:kube-system:yurt-manager", "groups": ["system:serviceaccounts"]},
        "object": document, "oldObject": old, "dryRun": False,
        "options": {"kind": f"{operation.title()}Options", "apiVersion": "meta.k8s.io/v1"},
    }  # fmt: skip
    return json.dumps(
        {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}, separators=(",", ":")
    ).encode()


def explore_review(operation: str, document: dict[str, Any] | None = None, *, uid: str = UID) -> bytes:
    """An ExploreReview of an operation on a Deployment, some 6 KB; for aggregation, over 100 clusters."""
    document = document or deployment()
    metadata = {name: value for name, value in document["metadata"].items() if name != "managedFields"}
    metadata["annotations"] = {**metadata.get("annotations", {}), "resourcetemplate.karmada.io/generation": "3"}
    document = {**document, "metadata": {**metadata, "generation": 3}}
    counts = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
    document["status"] = {"observedGeneration": 3, **dict.fromkeys(counts, document["spec"]["replicas"])}
    request = {
        "uid": uid,
        "kind": {"group": "apps", "version": "v1", "kind": "Deployment"},
        "name": metadata["name"], "namespace": metadata["namespace"], "operation": operation, "object": document,
    }  # fmt: skip
    if operation == "ExploreRetaining":
        labels = {**metadata.get("labels", {}), "resourcetemplate.karmada.io/retain-replicas": "true"}
        request["object"] = {**document, "metadata": {**metadata, "labels": labels}}
        request["observedObject"] = {**document, "spec": {**document["spec"], "replicas": 9}}
    if operation == "ExploreReplicaRevising":
        request["replicas"] = 7
    if operation == "ExploreStatusAggregating":
        counts = {"replicas": 2, "readyReplicas": 2, "updatedReplicas": 2, "availableReplicas": 2}
        generations = {"generation": 5, "observedGeneration": 5, "resourceTemplateGeneration": 3}
        request["aggregatedStatus"] = [
            {
                "clusterName": f"member-{number}",
                "applied": True,
                "health": "Healthy",
                "status": {**counts, **generations},
            }
            for number in range(100)
        ]
    return msgspec.json.encode(
        {"apiVersion": "config.karmada.io/v1alpha1", "kind": "ExploreReview", "request": request}
    )
