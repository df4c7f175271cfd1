"""Every field of a workload, in pieces that an apiserver accepts, made from the API's own sample objects.

The samples (tests/conformance/kubernetes_api) set every field, with all members of each union at once and with strings
named after their fields. This module splits unions and replaces validated values by valid ones. Its users skip units that
an apiserver still refuses, and report the number of the others.
"""

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

JSONObject = dict[str, Any]

_DIRECTORY = Path(__file__).parent.parent / "conformance" / "kubernetes_api"
PODS = "/spec/template/spec"
_ABSENT = object()

# Values by the end of their path, without indexes; the longest end counts. None drops the member.
_VALUES: dict[str, Any] = {
    # Enumerations.
    "protocol": "UDP",
    "operator": "In",
    "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node"]}],
    "tolerations/operator": "Equal",
    "tolerations/effect": "NoExecute",
    "restartPolicy": "Always",
    "containers/restartPolicy": "Never",
    "dnsPolicy": "Default",
    "preemptionPolicy": "Never",
    "restartPolicyRules/action": "Restart",
    "hostPath/type": "DirectoryOrCreate",
    "emptyDir/medium": "Memory",
    "azureDisk/cachingMode": "ReadOnly",
    "azureDisk/kind": "Managed",
    "azureDisk/diskURI": "/subscriptions/disk",
    "image/pullPolicy": "Always",
    "imagePullPolicy": "Always",
    "volumeMode": "Block",
    "accessModes": ["ReadWriteOnce"],
    "scheme": "HTTPS",
    "terminationMessagePolicy": "FallbackToLogsOnError",
    "recursiveReadOnly": "Disabled",
    "mountPropagation": "HostToContainer",
    "seccompProfile/type": "Localhost",
    "appArmorProfile/type": "Localhost",
    "procMount": "Default",
    "fsGroupChangePolicy": "OnRootMismatch",
    "supplementalGroupsPolicy": "Strict",
    "seLinuxChangePolicy": "Recursive",
    "whenUnsatisfiable": "DoNotSchedule",
    "nodeAffinityPolicy": "Ignore",
    "nodeTaintsPolicy": "Honor",
    "os/name": "linux",
    "resizePolicy/resourceName": "cpu",
    "resizePolicy/restartPolicy": "RestartContainer",
    "stopSignal": "SIGTERM",
    "strategy/type": "RollingUpdate",
    "updateStrategy/type": "RollingUpdate",
    "podManagementPolicy": "Parallel",
    "whenDeleted": "Delete",
    "whenScaled": "Delete",
    # Formats.
    "apiVersion": "v1",
    "fieldPath": "metadata.name",
    "resource": "limits.cpu",
    "hostIP": "10.0.0.1",
    "hostAliases/ip": "10.0.0.1",
    "nameservers": ["10.0.0.1"],
    "iqn": "iqn.2001-04.com.example:disk",
    "nfs/path": "/path",
    "initiatorName": "iqn.2001-04.com.example:host",
    "registry": "registry.example.com:1",
    "prefix": "PREFIX_",
    "maxUnavailable": "30%",
    "maxSurge": "30%",
    "updateStrategy/rollingUpdate/maxUnavailable": None,
    "limits": {"cpu": "1"},
    "requests": {"cpu": "0"},
    "ephemeral/volumeClaimTemplate/spec/resources": {"requests": {"storage": "1Gi"}},
    "ephemeral/volumeClaimTemplate/metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
    "volumeClaimTemplates/spec/resources": {"requests": {"storage": "1Gi"}},
    "volumeClaimTemplates/metadata": {"name": "name-value", "labels": {"a": "b"}, "annotations": {"c": "d"}},
    "volumeClaimTemplates/status": None,
    "serviceAccountToken/expirationSeconds": 700,
    "nodeSelector": {"a": "b"},
    "httpGet/port": 80,
    "tcpSocket/port": 80,
    "sysctls/name": "kernel.shm_rmid_forced",
    "windowsOptions/hostProcess": None,
    "livenessProbe/successThreshold": 1,
    "startupProbe/successThreshold": 1,
    "readinessProbe/terminationGracePeriodSeconds": None,
    "matchLabelKeys": ["key-a"],
    "mismatchLabelKeys": ["key-b"],
    "volumeMounts/name": "data",
    "volumeDevices/name": "block",
    # Excluded by another member, or in need of another one.
    "dataSource": None,
    "dataSourceRef": None,
    "flocker/datasetUUID": None,
    "fc/wwids": None,
    "clusterTrustBundle/name": None,
    "resources/claims": None,
    "subPathExpr": None,
    "lifecycle/stopSignal": None,
}  # fmt: skip
# Members of which one may be set, by the end of the path of the object that has them.
_UNIONS = {
    "valueFrom": {"fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef"},
    "envFrom": {"configMapRef", "secretRef"},
    "downwardAPI/items": {"fieldRef", "resourceFieldRef"},
    "livenessProbe": {"exec", "httpGet", "tcpSocket", "grpc"},
    "readinessProbe": {"exec", "httpGet", "tcpSocket", "grpc"},
    "startupProbe": {"exec", "httpGet", "tcpSocket", "grpc"},
    "postStart": {"exec", "httpGet", "tcpSocket", "sleep"},
    "preStop": {"exec", "httpGet", "tcpSocket", "sleep"},
}
_POD_MEMBERS_LEFT_OUT = frozenset(
    {
        # Split below, or not allowed in templates.
        "volumes", "containers", "initContainers", "ephemeralContainers",
        # Not allowed in workloads, aliases of other members, or dependent on objects or settings of a cluster.
        "activeDeadlineSeconds", "serviceAccount", "priority", "resources", "resourceClaims", "schedulingGroup", "overhead", "hostnameOverride",
    }
)  # fmt: skip
_SPEC_MEMBERS = {
    "Deployment": ("strategy", "minReadySeconds", "paused", "progressDeadlineSeconds", "revisionHistoryLimit"),
    "StatefulSet": (
        "updateStrategy", "minReadySeconds", "revisionHistoryLimit", "persistentVolumeClaimRetentionPolicy", "ordinals",
        "podManagementPolicy", "serviceName", "volumeClaimTemplates",
    ),
}  # fmt: skip
_CONTAINER_BASICS = ("name", "image")
# Among init containers, only sidecars may have probes.
_BASICS = {
    "containers": {"name": "name-value", "image": "image-value"},
    "initContainers": {"name": "name-value", "image": "image-value", "restartPolicy": "Always"},
}
_NEEDED = {"restartPolicyRules": {"restartPolicy": "Never"}}


class Unit(NamedTuple):
    """A value of the sample, and its location in a workload.

    Attributes:
        name: Description for messages.
        pointer: A member, or, with ``/-`` at its end, a list to append to.
        value: An object with ``name`` where it is an element.
        varied: The member of an element that varies; ``""`` where the value is not an element.
    """

    name: str
    pointer: str
    value: Any
    varied: str = ""

    @property
    def element(self) -> bool:
        return self.pointer.endswith("/-")

    @property
    def member(self) -> str:
        """The list or member that it changes; two units for one member, not for elements, exclude each other."""
        return self.pointer.removesuffix("/-")


def sample(kind: str) -> JSONObject:
    loaded: JSONObject = json.loads((_DIRECTORY / f"apps.v1.{kind}.json").read_text())
    return loaded


def units(kind: str) -> Iterator[Unit]:
    """Yield the units of a kind's sample; not all of them are valid on every apiserver."""
    spec = sample(kind)["spec"]
    for member in _SPEC_MEMBERS[kind]:
        yield Unit(member, f"/spec/{member}", _valid(spec[member], (member,)))
    pods = spec["template"]["spec"]
    for member in sorted(pods.keys() - _POD_MEMBERS_LEFT_OUT):
        if (value := _valid(pods[member], (member,))) is not _ABSENT:
            yield Unit(member, f"{PODS}/{member}", value)
    yield from _volumes(pods["volumes"][0])
    for member in ("containers", "initContainers"):
        yield from _containers(member, pods[member][0])


def _volumes(volume: JSONObject) -> Iterator[Unit]:
    for source, value in volume.items():
        if source == "name":
            continue
        for number, one in enumerate(_split_projected(source, value)):
            made = {"name": "name-value", source: _valid(one, ("volumes", source))}
            yield Unit(f"volumes.{source}.{number}", f"{PODS}/volumes/-", made, source)


def _split_projected(source: str, value: JSONObject) -> list[JSONObject]:
    if source != "projected":
        return [value]
    return [{**value, "sources": [{name: part}]} for name, part in value["sources"][0].items()]


def _containers(member: str, container: JSONObject) -> Iterator[Unit]:
    """Yield a container for each of its members, and one for each alternative of a probe."""
    for name, raw in container.items():
        if name in _CONTAINER_BASICS:
            continue
        for number in range(4 if name in ("livenessProbe", "lifecycle") else 1):
            value = _valid(raw, (member, name), chosen=number)
            if value is not _ABSENT:
                made = {**_BASICS[member], **_NEEDED.get(name, {}), name: value}
                yield Unit(f"{member}.{name}.{number}", f"{PODS}/{member}/-", made, name)


def _valid(value: Any, path: tuple[str, ...], *, chosen: int = 0) -> Any:
    """Return a value of the sample that an apiserver accepts; ``chosen`` is the member of a single union."""
    if (replaced := _replacement(path)) is not _ABSENT:
        return _ABSENT if replaced is None else copy.deepcopy(replaced)
    if isinstance(value, dict):
        taken = _choose(value, path, chosen)
        made = {name: _valid(inner, (*path, name), chosen=chosen) for name, inner in taken.items()}
        return {name: inner for name, inner in made.items() if inner is not _ABSENT}
    if isinstance(value, list):
        return [_valid(one, path, chosen=chosen) for inner in value for one in _split(inner, path)]
    if isinstance(value, str) and value.endswith("Value"):
        return re.sub(r"(?<!^)(?=[A-Z])", "-", value).lower()
    return value


def _replacement(path: tuple[str, ...]) -> Any:
    for start in range(len(path)):
        end = "/".join(path[start:])
        if end in _VALUES:
            return _VALUES[end]
    return _ABSENT


def _union(path: tuple[str, ...]) -> set[str]:
    return next((members for end, members in _UNIONS.items() if "/".join(path).endswith(end)), set())


def _choose(value: JSONObject, path: tuple[str, ...], chosen: int) -> JSONObject:
    """Return an object with one member of its union."""
    members = sorted(_union(path) & value.keys())
    if len(members) < 2:
        return value
    kept = members[chosen % len(members)]
    return {name: inner for name, inner in value.items() if name == kept or name not in members}


def _split(element: Any, path: tuple[str, ...]) -> list[Any]:
    """Return a list's element once for each member of its union."""
    if not isinstance(element, dict):
        return [element]
    if path[-1] == "env":
        sources = sorted(_UNIONS["valueFrom"] & element["valueFrom"].keys())
        found = [{"name": name, "valueFrom": {name: element["valueFrom"][name]}} for name in sources]
        return [*found, {"name": "plain", "value": element["value"]}]
    members = sorted(_union(path) & element.keys())
    if len(members) < 2:
        return [element]
    rest = {name: inner for name, inner in element.items() if name not in members}
    if "path" in rest:
        return [{**rest, "path": name, name: element[name]} for name in members]
    return [{**rest, name: element[name]} for name in members]
