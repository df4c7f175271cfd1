"""The values that kube-apiserver fills in for absent fields of workloads.

A write that drops such a field stores the default again, so its loss is no change.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from fleethook.engines.overrider.render.member_differences import ABSENT, Difference

# Kubernetes v1.36: pkg/apis/apps/v1/defaults.go and pkg/apis/core/v1/defaults.go. `*` stands for one element of a list,
# or for one kind of container or probe.
_SPEC: Final[Mapping[str, Any]] = {
    "replicas": 1,
    "revisionHistoryLimit": 10,
    "progressDeadlineSeconds": 600,
    "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
    "strategy/type": "RollingUpdate",
    "strategy/rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"},
    "strategy/rollingUpdate/maxSurge": "25%",
    "strategy/rollingUpdate/maxUnavailable": "25%",
    "podManagementPolicy": "OrderedReady",
    "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
    "updateStrategy/type": "RollingUpdate",
    "updateStrategy/rollingUpdate": {"partition": 0},
    "updateStrategy/rollingUpdate/partition": 0,
    "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
    "persistentVolumeClaimRetentionPolicy/whenDeleted": "Retain",
    "persistentVolumeClaimRetentionPolicy/whenScaled": "Retain",
}
_POD: Final[Mapping[str, Any]] = {
    "restartPolicy": "Always",
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
    "terminationGracePeriodSeconds": 30,
    "securityContext": {},
}
_CONTAINER: Final[Mapping[str, Any]] = {
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "resources": {},
    "ports/*/protocol": "TCP",
    "env/*/valueFrom/fieldRef/apiVersion": "v1",
    "lifecycle/*/httpGet/path": "/",
    "lifecycle/*/httpGet/scheme": "HTTP",
    "lifecycle/*/sleep/seconds": 0,
    "*/timeoutSeconds": 1,
    "*/periodSeconds": 10,
    "*/successThreshold": 1,
    "*/failureThreshold": 3,
    "*/httpGet/path": "/",
    "*/httpGet/scheme": "HTTP",
    "*/grpc/service": "",
}
_VOLUME: Final[Mapping[str, Any]] = {
    "configMap/defaultMode": 420,
    "secret/defaultMode": 420,
    "downwardAPI/defaultMode": 420,
    "downwardAPI/items/*/fieldRef/apiVersion": "v1",
    "projected/defaultMode": 420,
    "projected/sources/*/serviceAccountToken/expirationSeconds": 3600,
    "projected/sources/*/downwardAPI/items/*/fieldRef/apiVersion": "v1",
    "emptyDir": {},
    "ephemeral/volumeClaimTemplate/spec/volumeMode": "Filesystem",
    "hostPath/type": "",
    "iscsi/iscsiInterface": "default",
    "iscsi/lun": 0,
    "rbd/pool": "rbd",
    "rbd/user": "admin",
    "rbd/keyring": "/etc/ceph/keyring",
    "azureDisk/cachingMode": "ReadWrite",
    "azureDisk/fsType": "ext4",
    "azureDisk/readOnly": False,
    "azureDisk/kind": "Shared",
    "scaleIO/storageMode": "ThinProvisioned",
    "scaleIO/fsType": "xfs",
}


def _collect() -> dict[tuple[str, ...], Any]:
    pod = "spec/template/spec"
    paths = {f"spec/{name}": value for name, value in _SPEC.items()}
    paths |= {f"{pod}/{name}": value for name, value in _POD.items()}
    for containers in ("containers", "initContainers"):
        paths |= {f"{pod}/{containers}/*/{name}": value for name, value in _CONTAINER.items()}
    paths |= {f"{pod}/volumes/*/{name}": value for name, value in _VOLUME.items()}
    return {tuple(path.split("/")): value for path, value in paths.items()}


_DEFAULTS: Final = _collect()
_BY_LENGTH: Final = {
    length: [(path, value) for path, value in _DEFAULTS.items() if len(path) == length]
    for length in {len(path) for path in _DEFAULTS}
}
_IMAGE_PULL_POLICIES: Final = ("IfNotPresent", "Always")
# Maps and plain structs: an empty one is stored like an absent one.
_MAPS: Final = frozenset({"labels", "annotations", "nodeSelector", "matchLabels", "limits", "requests", "resources"})


def is_default(difference: Difference) -> bool:
    """Return whether a difference of a workload vanishes when kube-apiserver stores the requested object.

    The object loses a field that kube-apiserver fills in with the stored value, or it has an empty list, map or null in
    place of an absent one.
    """
    requested, stored = difference.requested, difference.stored
    if requested is ABSENT and _has_default(difference.pointer.split("/")[1:], stored):
        return True
    return _is_nothing(requested, difference.pointer) and _is_nothing(stored, difference.pointer)


def find_default(tokens: Sequence[str]) -> Any:
    """Return the value that kube-apiserver fills in for an absent member, None if it fills in none.

    Args:
        tokens: The names of the members on the way to it, ``*`` for an element of a list. The defaults of
            ``imagePullPolicy`` and ``serviceAccount`` depend on other members and are not known.
    """
    for path, value in _BY_LENGTH.get(len(tokens), ()):
        if all(part in ("*", token) for part, token in zip(path, tokens, strict=True)):
            return value
    return None


def _is_nothing(value: Any, pointer: str) -> bool:
    if value is ABSENT or value is None or value == []:
        return True
    return value == {} and pointer.rpartition("/")[2] in _MAPS


def _has_default(tokens: list[str], stored: Any) -> bool:
    if tokens[-1] == "imagePullPolicy":
        return stored in _IMAGE_PULL_POLICIES
    if tokens[-1] == "serviceAccount":
        return True  # kube-apiserver copies serviceAccountName into this deprecated field.
    return any(
        stored == value and all(part in ("*", token) for part, token in zip(path, tokens, strict=True))
        for path, value in _BY_LENGTH.get(len(tokens), ())
    )
