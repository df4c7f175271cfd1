"""Requirements and dependencies of a Pod template.

Sources: karmada v1.16 pkg/util/helper (GenerateReplicaRequirements), pkg/util/lifted/visitpod.go;
k8s.io/component-helpers resource (sidecar containers, KEP-753; pod-level resources, KEP-2837), which Karmada ignores.
"""

from fractions import Fraction
from functools import lru_cache
from typing import Final

from fleethook.interpret.typed_members import InterpretError, json_type, mapping, objects, present, text
from fleethook.model.formats.quantity import Quantity
from fleethook.model.json import JSON, JSONObject

Amounts = dict[str, int]
"""Amounts of resources, in billionths; smaller fractions are rounded up."""

_NANO: Final = 10**9
_MILLI: Final = 10**6

_POD_LEVEL: Final = ("cpu", "memory", "hugepages-")
_BINARY: Final = ("memory", "ephemeral-storage", "hugepages-")
_PLAIN: Final = frozenset({"cpu", "memory", "ephemeral-storage", "pods"})


def requirements(pod_template: JSONObject) -> JSONObject | None:
    """Return the requirements of a replica, ``nodeClaim`` and ``resourceRequest``; None if there are none."""
    spec = mapping(pod_template, "spec")
    claim = {
        "hardNodeAffinity": mapping(spec, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"),
        "nodeSelector": mapping(spec, "nodeSelector"),
        "tolerations": objects(spec, "tolerations"),
    }
    found = {"nodeClaim": _drop_empty(claim), "resourceRequest": _format_amounts(_sum_requests(spec))}
    return _drop_empty(found) or None


_MAX_KNOWN: Final = 512
_known: Final[dict[int, tuple[JSONObject, JSONObject | None]]] = {}


def known_requirements(pod_template: JSONObject) -> JSONObject | None:
    """Return the `requirements` of a template, cached by the identity of the template. Callers must not change it.

    Templates that were decoded from the same text are the same object
    (fleethook.engines.interpret.review.codec).
    """
    known = _known.get(id(pod_template))
    # Python may reuse the id of a freed object. The cache keeps the template, so its id stays unique.
    if known is not None and known[0] is pod_template:
        return known[1]
    found = requirements(pod_template)
    if len(_known) >= _MAX_KNOWN:
        _known.clear()
    _known[id(pod_template)] = pod_template, found
    return found


def _drop_empty(members: JSONObject) -> JSONObject:
    return {name: value for name, value in members.items() if value}


def _sum_requests(spec: JSONObject) -> Amounts:
    """Return the resource requests of a Pod.

    Sidecars (init containers with ``restartPolicy: Always``) run beside all containers that start after them. Other
    init containers run one at a time, before the containers.
    """
    running: Amounts = {}
    most: Amounts = {}
    for container in objects(spec, "initContainers"):
        asked = _read_container_requests(container)
        if text(container, "restartPolicy") == "Always":
            running = _add_amounts(running, asked)
            most = _take_maximum(most, running)
        else:
            most = _take_maximum(most, _add_amounts(running, asked))
    for container in objects(spec, "containers"):
        running = _add_amounts(running, _read_container_requests(container))
    total = _take_maximum(running, most)
    if present(spec, "resources"):
        for_pod = _read_container_requests({"resources": mapping(spec, "resources")})
        total = total | {name: amount for name, amount in for_pod.items() if name.startswith(_POD_LEVEL)}
    return _add_amounts(total, _read_amounts(mapping(spec, "overhead"), "overhead"))


def _read_container_requests(container: JSONObject) -> Amounts:
    resources = mapping(container, "resources")
    if not resources:
        return {}
    requests = _read_amounts(mapping(resources, "requests"), "requests")
    limits = mapping(resources, "limits")
    return {**_read_amounts(limits, "limits"), **requests} if limits else requests


def _read_amounts(resources: JSONObject, where: str) -> Amounts:
    if not resources:
        return {}
    try:
        return {name: _parse_amount(amount) for name, amount in resources.items()}
    except (ValueError, TypeError):
        return {name: _parse_or_explain(amount, f"resources.{where}.{name}") for name, amount in resources.items()}


def _parse_or_explain(amount: JSON, where: str) -> int:
    """Return an amount, 0 for null as in Go; raises InterpretError with the path."""
    if amount is None:
        return 0
    if isinstance(amount, (bool, dict, list)):
        raise InterpretError(f"{where} is {json_type(amount)}, expected a quantity such as 500m or 1Gi")
    try:
        return _parse_amount(str(amount))
    except ValueError as error:
        raise InterpretError(f"{where}: {error}") from None


# The workloads of a fleet have few distinct amounts, and parsing a quantity exactly is slow.
@lru_cache(maxsize=4096, typed=True)
def _parse_amount(amount: str | int) -> int:
    return int(Quantity.parse(amount).value * _NANO)


def _add_amounts(left: Amounts, right: Amounts) -> Amounts:
    if not left or not right:
        return left or right
    return left | {name: left.get(name, 0) + amount for name, amount in right.items()}


def _take_maximum(left: Amounts, right: Amounts) -> Amounts:
    if not left or not right:
        return left or right
    return left | {name: max(left.get(name, 0), amount) for name, amount in right.items()}


def _format_amounts(amounts: Amounts) -> JSONObject:
    return {
        name: _format_quantity(name, amount)
        for name, amount in sorted(amounts.items())
        if amount > 0 and _is_schedulable(name)
    }  # fmt: skip


def _is_schedulable(name: str) -> bool:
    """Return whether schedulers count a resource."""
    return name in _PLAIN or "/" in name or name.startswith(("hugepages-", "attachable-volumes-"))


@lru_cache(maxsize=4096)
def _format_quantity(name: str, amount: int) -> str:
    if name == "cpu":
        return str(Quantity(Fraction(-(-amount // _MILLI), 1000)))
    return str(Quantity(-(-amount // _NANO), "BinarySI" if name.startswith(_BINARY) else "DecimalSI"))


def dependencies(pod_template: JSONObject, namespace: str) -> list[JSONObject]:
    """Return the objects that a Pod of this template depends on, sorted by kind and name, without duplicates."""
    spec = mapping(pod_template, "spec")
    config_maps: set[str] = set()
    secrets: set[str] = set()
    claims: set[str] = set()
    for reference in objects(spec, "imagePullSecrets"):
        secrets.add(text(reference, "name"))
    for member in ("initContainers", "containers", "ephemeralContainers"):
        for container in objects(spec, member):
            _collect_environment(container, config_maps, secrets)
    for volume in objects(spec, "volumes"):
        _collect_volume(volume, config_maps, secrets)
        claims.add(text(volume, "persistentVolumeClaim", "claimName"))
    account = text(spec, "serviceAccountName") or text(spec, "serviceAccount")
    accounts = {account} - {"default"}
    return [
        {"apiVersion": "v1", "kind": kind, "namespace": namespace, "name": name}
        for kind, names in (
            ("ConfigMap", config_maps), ("Secret", secrets), ("ServiceAccount", accounts),
            ("PersistentVolumeClaim", claims),
        )
        for name in sorted(names - {""})
    ]  # fmt: skip


def _collect_environment(container: JSONObject, config_maps: set[str], secrets: set[str]) -> None:
    for source in objects(container, "envFrom"):
        config_maps.add(text(source, "configMapRef", "name"))
        secrets.add(text(source, "secretRef", "name"))
    for variable in objects(container, "env"):
        if "valueFrom" not in variable:
            continue
        config_maps.add(text(variable, "valueFrom", "configMapKeyRef", "name"))
        secrets.add(text(variable, "valueFrom", "secretKeyRef", "name"))


_SECRET_PATHS: Final[dict[str, tuple[str, ...]]] = {
    "azureFile": ("azureFile", "secretName"),
    "secret": ("secret", "secretName"),
    "csi": ("csi", "nodePublishSecretRef", "name"),
    **{
        source: (source, "secretRef", "name")
        for source in ("cephfs", "cinder", "flexVolume", "rbd", "scaleIO", "iscsi", "storageos")
    },
}


def _collect_volume(volume: JSONObject, config_maps: set[str], secrets: set[str]) -> None:
    for member in volume:
        if member == "configMap":
            config_maps.add(text(volume, "configMap", "name"))
        elif member == "projected":
            for source in objects(volume, "projected", "sources"):
                config_maps.add(text(source, "configMap", "name"))
                secrets.add(text(source, "secret", "name"))
        elif member in _SECRET_PATHS:
            secrets.add(text(volume, *_SECRET_PATHS[member]))


def template_of(document: JSONObject, *path: str) -> JSONObject:
    """Return the pod template of a workload; raises InterpretError."""
    return mapping(document, *(path or ("spec", "template")))
