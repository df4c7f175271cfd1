"""The fields of workloads that kube-apiserver fills in if they are absent, with their values.

Sources: Kubernetes v1.36, pkg/apis/apps/v1/defaults.go and pkg/apis/core/v1/defaults.go, and the markers ``+default``
in k8s.io/api/core/v1/types.go.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

_DERIVED: Final = object()
"""The default of a field depends on other fields."""
_ELEMENT: Final = "*"
"""One element of a list."""
_ROLLING_UPDATE: Final = {"maxSurge": "25%", "maxUnavailable": "25%"}
_RETENTION: Final = {"whenDeleted": "Retain", "whenScaled": "Retain"}
_SPEC: Final[Mapping[str, Any]] = {
    "replicas": 1,
    "revisionHistoryLimit": 10,
    "progressDeadlineSeconds": 600,
    "strategy": {"type": "RollingUpdate", "rollingUpdate": _ROLLING_UPDATE},
    "strategy/type": "RollingUpdate",
    "strategy/rollingUpdate": _ROLLING_UPDATE,
    **{f"strategy/rollingUpdate/{name}": value for name, value in _ROLLING_UPDATE.items()},
    "podManagementPolicy": "OrderedReady",
    "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
    "updateStrategy/type": "RollingUpdate",
    "updateStrategy/rollingUpdate": {"partition": 0},
    "updateStrategy/rollingUpdate/partition": 0,
    "updateStrategy/rollingUpdate/maxUnavailable": _DERIVED,
    "persistentVolumeClaimRetentionPolicy": _RETENTION,
    **{f"persistentVolumeClaimRetentionPolicy/{name}": value for name, value in _RETENTION.items()},
    "volumeClaimTemplates/*/spec/volumeMode": _DERIVED,
}
_POD: Final[Mapping[str, Any]] = {
    "restartPolicy": "Always",
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
    "terminationGracePeriodSeconds": 30,
    "securityContext": {},
    "serviceAccount": _DERIVED,
}
_HTTP: Final = {"path": "/", "scheme": "HTTP"}
_PROBE: Final[Mapping[str, Any]] = {
    "timeoutSeconds": 1,
    "periodSeconds": 10,
    "successThreshold": 1,
    "failureThreshold": 3,
    **{f"httpGet/{name}": value for name, value in _HTTP.items()},
    "grpc/service": "",
}
_HOOK: Final[Mapping[str, Any]] = {
    **{f"httpGet/{name}": value for name, value in _HTTP.items()},
    "sleep/seconds": 0,
}
_CONTAINER: Final[Mapping[str, Any]] = {
    "imagePullPolicy": _DERIVED,
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "resources": {},
    "resources/requests": _DERIVED,
    "ports/*/protocol": "TCP",
    "ports/*/hostPort": _DERIVED,
    "env/*/valueFrom/fieldRef/apiVersion": "v1",
    **{f"lifecycle/{hook}/{name}": value for hook in ("postStart", "preStop") for name, value in _HOOK.items()},
    **{
        f"{probe}/{name}": value
        for probe in ("livenessProbe", "readinessProbe", "startupProbe")
        for name, value in _PROBE.items()
    },
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


DEFAULTS: Final = _collect()


def find_default(tokens: Sequence[str]) -> Any:
    """Return the value that kube-apiserver fills in for an absent member, None if it fills in none.

    Args:
        tokens: The names of the members on the way to it, ``*`` for an element of a list. A default that depends on
            other members, such as that of ``imagePullPolicy``, is not known.
    """
    default = DEFAULTS.get(tuple(tokens))
    return None if default is _DERIVED else default


def parse_place(pointer: str) -> tuple[str, ...]:
    """Return the tokens of a JSON pointer for `find_default`.

    List elements may be addressed by index or by ``[name=app]``. No field has a ``/`` or ``~`` in its name, so the
    tokens need no unescaping.
    """
    tokens = pointer.split("/")[1:]
    return tuple(_ELEMENT if token.isdecimal() or token.startswith("[") else token for token in tokens)


def explain_missing(pointer: str) -> str:
    """Return the hint for a ``replace`` or ``remove`` of a field that the template does not have, ``""`` for none.

    Args:
        pointer: The JSON pointer of the missing field in the workload.
    """
    tokens = parse_place(pointer)
    if tokens not in DEFAULTS:
        return ""
    return f"Kubernetes fills in {tokens[-1]} later and the template does not set it: to set it, use operation add"
