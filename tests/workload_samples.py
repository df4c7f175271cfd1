"""A Deployment and a StatefulSet that kube-apiserver accepts and that reach nearly every struct of a pod template."""

import copy
from typing import Any

_LABELS = {"app": "demo"}
_SELECTOR = {"matchLabels": _LABELS, "matchExpressions": [{"key": "app", "operator": "In", "values": ["demo"]}]}
_ITEMS = [{"key": "k", "path": "p", "mode": 420}]
_FIELD = {"apiVersion": "v1", "fieldPath": "metadata.name"}
_RESOURCE_FIELD = {"containerName": "app", "resource": "limits.cpu", "divisor": "1m"}
_SECRET = {"name": "secret"}
_CLAIM = {
    "accessModes": ["ReadWriteOnce"], "storageClassName": "fast", "volumeMode": "Filesystem", "volumeName": "v",
    "selector": _SELECTOR, "resources": {"requests": {"storage": "1Gi"}},
    "dataSource": {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s"},
    "dataSourceRef": {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s"},
}  # fmt: skip

_SOURCES: tuple[dict[str, Any], ...] = (
    {"hostPath": {"path": "/x", "type": "Directory"}},
    {"emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
    {"gcePersistentDisk": {"pdName": "p", "fsType": "ext4", "partition": 1, "readOnly": True}},
    {"awsElasticBlockStore": {"volumeID": "v", "fsType": "ext4", "partition": 1, "readOnly": True}},
    {"secret": {"secretName": "s", "items": _ITEMS, "defaultMode": 420, "optional": True}},
    {"nfs": {"server": "s", "path": "/p", "readOnly": True}},
    {
        "iscsi": {
            "targetPortal": "1.2.3.4:1", "iqn": "iqn.2015-02.example.com:test", "lun": 1, "iscsiInterface": "default",
            "portals": ["1.2.3.4:2"], "fsType": "ext4", "readOnly": True, "secretRef": _SECRET,
            "initiatorName": "iqn.2015-02.example.com:init", "chapAuthDiscovery": True, "chapAuthSession": True,
        }
    },
    {"glusterfs": {"endpoints": "e", "path": "p", "readOnly": True}},
    {"persistentVolumeClaim": {"claimName": "c", "readOnly": True}},
    {
        "rbd": {
            "monitors": ["m"], "image": "i", "fsType": "ext4", "pool": "p", "user": "u", "keyring": "k",
            "secretRef": _SECRET, "readOnly": True,
        }
    },
    {"flexVolume": {"driver": "a/b", "fsType": "ext4", "secretRef": _SECRET, "options": {"a": "b"}, "readOnly": True}},
    {"cinder": {"volumeID": "v", "fsType": "ext4", "readOnly": True, "secretRef": _SECRET}},
    {
        "cephfs": {
            "monitors": ["m"], "path": "/p", "user": "u", "secretFile": "/s", "secretRef": _SECRET, "readOnly": True,
        }
    },
    {"flocker": {"datasetName": "d"}},
    {
        "downwardAPI": {
            "items": [
                {"path": "a", "fieldRef": _FIELD, "mode": 420}, {"path": "b", "resourceFieldRef": _RESOURCE_FIELD},
            ],
            "defaultMode": 420,
        }
    },
    {"fc": {"targetWWNs": ["w"], "lun": 1, "fsType": "ext4", "readOnly": True}},
    {"azureFile": {"secretName": "s", "shareName": "s", "readOnly": True}},
    {"configMap": {"name": "c", "items": _ITEMS, "defaultMode": 420, "optional": True}},
    {"vsphereVolume": {"volumePath": "p", "fsType": "ext4", "storagePolicyName": "n", "storagePolicyID": "i"}},
    {"quobyte": {"registry": "r:1", "volume": "v", "readOnly": True, "user": "u", "group": "g", "tenant": "t"}},
    {
        "azureDisk": {
            "diskName": "d", "diskURI": "https://blob/", "cachingMode": "None", "fsType": "ext4", "readOnly": True,
            "kind": "Shared",
        }
    },
    {"photonPersistentDisk": {"pdID": "p", "fsType": "ext4"}},
    {
        "projected": {
            "sources": [
                {"secret": {"name": "s", "items": _ITEMS, "optional": True}},
                {"configMap": {"name": "c", "items": [{"key": "k", "path": "c"}], "optional": True}},
                {"downwardAPI": {"items": [{"path": "d", "fieldRef": _FIELD}]}},
                {"serviceAccountToken": {"audience": "a", "expirationSeconds": 600, "path": "t"}},
            ],
            "defaultMode": 420,
        }
    },
    {"portworxVolume": {"volumeID": "v", "fsType": "ext4", "readOnly": True}},
    {
        "scaleIO": {
            "gateway": "g", "system": "s", "secretRef": _SECRET, "sslEnabled": True, "protectionDomain": "d",
            "storagePool": "p", "storageMode": "ThinProvisioned", "volumeName": "v", "fsType": "ext4", "readOnly": True,
        }
    },
    {
        "storageos": {
            "volumeName": "v", "volumeNamespace": "n", "fsType": "ext4", "readOnly": True, "secretRef": _SECRET,
        }
    },
    {
        "csi": {
            "driver": "d.example.com", "readOnly": True, "fsType": "ext4", "volumeAttributes": {"a": "b"},
            "nodePublishSecretRef": _SECRET,
        }
    },
    {"ephemeral": {"volumeClaimTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": _CLAIM}}},
    {"image": {"reference": "r", "pullPolicy": "Always"}},
)  # fmt: skip

_THRESHOLDS = {
    "initialDelaySeconds": 1, "timeoutSeconds": 2, "periodSeconds": 3, "successThreshold": 1, "failureThreshold": 4,
    "terminationGracePeriodSeconds": 5,
}  # fmt: skip
_HTTP_GET = {
    "path": "/x", "port": 80, "host": "h", "scheme": "HTTPS", "httpHeaders": [{"name": "X-A", "value": "b"}],
}  # fmt: skip

_APP: dict[str, Any] = {
    "name": "app", "image": "a:1", "command": ["c"], "args": ["a"], "workingDir": "/w",
    "ports": [
        {"name": "dns", "hostPort": 53, "containerPort": 53, "protocol": "UDP", "hostIP": "10.0.0.1"},
        {"containerPort": 53, "protocol": "TCP"},
    ],
    "envFrom": [
        {"prefix": "P_", "configMapRef": {"name": "c", "optional": True}},
        {"secretRef": {"name": "s", "optional": True}},
    ],
    "env": [
        {"name": "A", "value": "b"},
        {"name": "B", "valueFrom": {"fieldRef": _FIELD}},
        {"name": "C", "valueFrom": {"resourceFieldRef": _RESOURCE_FIELD}},
        {"name": "D", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k", "optional": True}}},
        {"name": "E", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": True}}},
    ],
    "resources": {
        "limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"},
        "claims": [{"name": "claim", "request": "r"}],
    },
    "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}],
    "volumeMounts": [
        {
            "name": "v0", "mountPath": "/m", "readOnly": True, "recursiveReadOnly": "IfPossible", "subPath": "s",
            "mountPropagation": "None",
        },
        {"name": "v1", "mountPath": "/n", "subPathExpr": "$(A)"},
    ],
    "volumeDevices": [{"name": "v8", "devicePath": "/dev/x"}],
    "livenessProbe": {"httpGet": _HTTP_GET, **_THRESHOLDS},
    "readinessProbe": {"tcpSocket": {"port": "dns", "host": "h"}},
    "startupProbe": {"grpc": {"port": 1, "service": "s"}, **_THRESHOLDS},
    "lifecycle": {
        "postStart": {"exec": {"command": ["c"]}}, "preStop": {"sleep": {"seconds": 1}},
    },
    "terminationMessagePath": "/t", "terminationMessagePolicy": "File", "imagePullPolicy": "Never",
    "securityContext": {
        "capabilities": {"add": ["NET_ADMIN"], "drop": ["ALL"]}, "privileged": False, "runAsUser": 1, "runAsGroup": 1,
        "runAsNonRoot": True, "readOnlyRootFilesystem": True, "allowPrivilegeEscalation": True, "procMount": "Default",
        "seLinuxOptions": {"user": "u", "role": "r", "type": "t", "level": "l"},
        "seccompProfile": {"type": "Localhost", "localhostProfile": "p"},
        "appArmorProfile": {"type": "Localhost", "localhostProfile": "p"},
    },
    "stdin": True, "stdinOnce": True, "tty": True,
}  # fmt: skip

_TERM = {
    "labelSelector": _SELECTOR, "namespaces": ["n"], "topologyKey": "zone", "namespaceSelector": _SELECTOR,
    "matchLabelKeys": ["x"], "mismatchLabelKeys": ["y"],
}  # fmt: skip
_POD_AFFINITY = {
    "requiredDuringSchedulingIgnoredDuringExecution": [_TERM],
    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": _TERM}],
}
_NODE_TERM = {
    "matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}],
    "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}],
}

_POD_TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": _LABELS, "annotations": {"a": "b"}},
    "spec": {
        "volumes": [{"name": f"v{number}", **source} for number, source in enumerate(_SOURCES)],
        "initContainers": [{"name": "sidecar", "image": "s:1", "restartPolicy": "Always"}],
        "containers": [_APP],
        "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "None",
        "nodeSelector": {"a": "b"}, "serviceAccountName": "s", "serviceAccount": "s",
        "automountServiceAccountToken": False, "hostPID": True, "shareProcessNamespace": False,
        "hostname": "h", "subdomain": "s", "setHostnameAsFQDN": True, "schedulerName": "x",
        "securityContext": {
            "runAsUser": 1, "runAsGroup": 1, "runAsNonRoot": True, "supplementalGroups": [1], "fsGroup": 1,
            "supplementalGroupsPolicy": "Merge", "fsGroupChangePolicy": "Always",
            "seLinuxOptions": {"level": "l"}, "seccompProfile": {"type": "RuntimeDefault"},
            "appArmorProfile": {"type": "RuntimeDefault"}, "seLinuxChangePolicy": "Recursive",
            "sysctls": [{"name": "kernel.shm_rmid_forced", "value": "0"}],
        },
        "imagePullSecrets": [{"name": "p"}],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [_NODE_TERM]},
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": _NODE_TERM}],
            },
            "podAffinity": _POD_AFFINITY, "podAntiAffinity": _POD_AFFINITY,
        },
        "tolerations": [
            {"key": "k", "operator": "Equal", "value": "v", "effect": "NoExecute", "tolerationSeconds": 1},
            {"operator": "Exists"},
        ],
        "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["h"]}],
        "priorityClassName": "p",
        "dnsConfig": {"nameservers": ["1.1.1.1"], "searches": ["s"], "options": [{"name": "ndots", "value": "2"}]},
        "readinessGates": [{"conditionType": "example.com/x"}],
        "runtimeClassName": "r", "enableServiceLinks": True, "preemptionPolicy": "Never",
        "overhead": {"cpu": "1m"}, "os": {"name": "linux"}, "schedulingGates": [{"name": "example.com/gate"}],
        "topologySpreadConstraints": [
            {
                "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": _SELECTOR,
                "minDomains": 2, "nodeAffinityPolicy": "Honor", "nodeTaintsPolicy": "Honor", "matchLabelKeys": ["x"],
            }
        ],
        "resourceClaims": [{"name": "claim", "resourceClaimName": "r"}],
        "resources": {"limits": {"cpu": "4", "memory": "4Gi"}},
    },
}  # fmt: skip


def full_deployment() -> dict[str, Any]:
    """Return a new copy of the Deployment."""
    spec = {
        "replicas": 2, "selector": _SELECTOR, "template": _POD_TEMPLATE, "minReadySeconds": 1, "paused": True,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": 1}},
        "revisionHistoryLimit": 3, "progressDeadlineSeconds": 60,
    }  # fmt: skip
    return _workload("Deployment", spec)


def full_stateful_set() -> dict[str, Any]:
    """Return a new copy of the StatefulSet."""
    claim = {"metadata": {"name": "data", "labels": {"a": "b"}, "annotations": {"a": "b"}}, "spec": _CLAIM}
    spec = {
        "replicas": 2, "selector": _SELECTOR, "template": _POD_TEMPLATE, "minReadySeconds": 1, "serviceName": "s",
        "volumeClaimTemplates": [{"apiVersion": "v1", "kind": "PersistentVolumeClaim", **claim}],
        "podManagementPolicy": "Parallel", "revisionHistoryLimit": 3, "ordinals": {"start": 1},
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}},
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Delete"},
    }  # fmt: skip
    return _workload("StatefulSet", spec)


def _workload(kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    metadata = {"generateName": "full-", "labels": {"a": "b"}, "annotations": {"a": "b"}}
    return copy.deepcopy({"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec})
