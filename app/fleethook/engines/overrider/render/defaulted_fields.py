"""Fields with a default of kube-apiserver: stored workloads have them, most templates do not."""

from typing import Final

_EACH: Final = "*"

# Kubernetes v1.36: pkg/apis/apps/v1/defaults.go, pkg/apis/core/v1/defaults.go and +default markers in
# k8s.io/api/core/v1/types.go. `*` stands for one element of a list.
_SPEC: Final = (
    "replicas",
    "revisionHistoryLimit",
    "progressDeadlineSeconds",
    "strategy",
    "strategy/type",
    "strategy/rollingUpdate",
    "strategy/rollingUpdate/maxSurge",
    "strategy/rollingUpdate/maxUnavailable",
    "podManagementPolicy",
    "updateStrategy",
    "updateStrategy/type",
    "updateStrategy/rollingUpdate",
    "updateStrategy/rollingUpdate/partition",
    "updateStrategy/rollingUpdate/maxUnavailable",
    "persistentVolumeClaimRetentionPolicy",
    "persistentVolumeClaimRetentionPolicy/whenDeleted",
    "persistentVolumeClaimRetentionPolicy/whenScaled",
    "volumeClaimTemplates/*/spec/volumeMode",
)
_POD: Final = (
    "restartPolicy",
    "dnsPolicy",
    "schedulerName",
    "terminationGracePeriodSeconds",
    "securityContext",
    "serviceAccount",
)
_CONTAINER: Final = (
    "imagePullPolicy",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "resources",
    "resources/requests",
    "ports/*/protocol",
    "ports/*/hostPort",
    "env/*/valueFrom/fieldRef/apiVersion",
    "lifecycle/postStart/httpGet/path",
    "lifecycle/postStart/httpGet/scheme",
    "lifecycle/preStop/httpGet/path",
    "lifecycle/preStop/httpGet/scheme",
    "lifecycle/postStart/sleep/seconds",
    "lifecycle/preStop/sleep/seconds",
)
_PROBE: Final = (
    "timeoutSeconds",
    "periodSeconds",
    "successThreshold",
    "failureThreshold",
    "httpGet/path",
    "httpGet/scheme",
    "grpc/service",
)
_VOLUME: Final = (
    "configMap/defaultMode",
    "secret/defaultMode",
    "downwardAPI/defaultMode",
    "downwardAPI/items/*/fieldRef/apiVersion",
    "projected/defaultMode",
    "projected/sources/*/serviceAccountToken/expirationSeconds",
    "projected/sources/*/downwardAPI/items/*/fieldRef/apiVersion",
    "emptyDir",
    "hostPath/type",
    "iscsi/iscsiInterface",
    "iscsi/lun",
    "rbd/pool",
    "rbd/user",
    "rbd/keyring",
    "azureDisk/cachingMode",
    "azureDisk/fsType",
    "azureDisk/readOnly",
    "azureDisk/kind",
    "scaleIO/storageMode",
    "scaleIO/fsType",
    "ephemeral/volumeClaimTemplate/spec/volumeMode",
)


def _patterns() -> frozenset[tuple[str, ...]]:
    pod = "spec/template/spec"
    paths = [f"spec/{field}" for field in _SPEC] + [f"{pod}/{field}" for field in _POD]
    for containers in ("containers", "initContainers"):
        paths += [f"{pod}/{containers}/*/{field}" for field in _CONTAINER]
        for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
            paths += [f"{pod}/{containers}/*/{probe}/{field}" for field in _PROBE]
    paths += [f"{pod}/volumes/*/{field}" for field in _VOLUME]
    return frozenset(tuple(path.split("/")) for path in paths)


_DEFAULTED: Final = _patterns()


def explain_missing(path: str) -> str:
    """Return the hint for a ``replace`` or ``remove`` of a field that the template does not have, ``""`` for none.

    Args:
        path: The JSON Pointer of the missing field in the workload. List elements may be addressed by index or by
            ``[name=app]``.
    """
    # No field has a '/' or '~' in its name, so the tokens need no unescaping.
    tokens = tuple(_EACH if token.isdecimal() or token.startswith("[") else token for token in path.split("/")[1:])
    if tokens not in _DEFAULTED:
        return ""
    return f"Kubernetes fills in {tokens[-1]} later and the template does not set it: to set it, use operation add"
