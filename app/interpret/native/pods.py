"""Pod templates: what one replica asks for, and what it needs to be there.

Sources: karmada pkg/util/helper (GenerateReplicaRequirements), pkg/util/lifted/visitpod.go; k8s.io/component-helpers
resource (sidecar containers, KEP-753; pod-level resources, KEP-2837), which upstream does not look at.
"""

from fractions import Fraction
from functools import lru_cache
from typing import Final

from app.interpret.access import InterpretError, json_type, mapping, objects, present, text
from app.model.json import JSON, JSONObject
from app.model.quantity import Quantity

Amounts = dict[str, int]
"""Amounts of resources, in billionths: finer ones are rounded up when they are read."""

_NANO: Final = 10**9
_MILLI: Final = 10**6

_POD_LEVEL: Final = ("cpu", "memory", "hugepages-")
_BINARY: Final = ("memory", "ephemeral-storage", "hugepages-")
_PLAIN: Final = frozenset({"cpu", "memory", "ephemeral-storage", "pods"})


def requirements(pod_template: JSONObject) -> JSONObject | None:
    """Return what a replica asks for: ``nodeClaim`` and ``resourceRequest``, None if nothing."""
    spec = mapping(pod_template, "spec")
    claim = {
        "hardNodeAffinity": mapping(spec, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"),
        "nodeSelector": mapping(spec, "nodeSelector"),
        "tolerations": objects(spec, "tolerations"),
    }
    found = {"nodeClaim": _filled(claim), "resourceRequest": _written(_requested(spec))}
    return _filled(found) or None


_KNOWN: Final = 512
_known: Final[dict[int, tuple[JSONObject, JSONObject | None]]] = {}


def known_requirements(pod_template: JSONObject) -> JSONObject | None:
    """Return `requirements` of a template; of the same object, which must not have been changed, without a look.

    Templates that were decoded from the same text are the same object (app.interpret.partial_decode).
    """
    known = _known.get(id(pod_template))
    # An id may be given to another object once its first holder is gone; here it is held.
    if known is not None and known[0] is pod_template:
        return known[1]
    found = requirements(pod_template)
    if len(_known) >= _KNOWN:
        _known.clear()
    _known[id(pod_template)] = pod_template, found
    return found


def _filled(members: JSONObject) -> JSONObject:
    return {name: value for name, value in members.items() if value}


def _requested(spec: JSONObject) -> Amounts:
    """Return what a Pod asks for.

    Sidecars (init containers that restart) run beside everything that starts after them; other init containers run one
    at a time before the containers do.
    """
    running: Amounts = {}
    most: Amounts = {}
    for container in objects(spec, "initContainers"):
        asked = _container(container)
        if text(container, "restartPolicy") == "Always":
            running = _sum(running, asked)
            most = _most(most, running)
        else:
            most = _most(most, _sum(running, asked))
    for container in objects(spec, "containers"):
        running = _sum(running, _container(container))
    total = _most(running, most)
    if present(spec, "resources"):
        for_pod = _container({"resources": mapping(spec, "resources")})
        total = total | {name: amount for name, amount in for_pod.items() if name.startswith(_POD_LEVEL)}
    return _sum(total, _amounts(mapping(spec, "overhead"), "overhead"))


def _container(container: JSONObject) -> Amounts:
    resources = mapping(container, "resources")
    if not resources:
        return {}
    requests = _amounts(mapping(resources, "requests"), "requests")
    limits = mapping(resources, "limits")
    return {**_amounts(limits, "limits"), **requests} if limits else requests


def _amounts(resources: JSONObject, where: str) -> Amounts:
    if not resources:
        return {}
    try:
        return {name: _parsed(amount) for name, amount in resources.items()}
    except (ValueError, TypeError):
        return {name: _checked(amount, f"resources.{where}.{name}") for name, amount in resources.items()}


def _checked(amount: JSON, where: str) -> int:
    """Return an amount, 0 for null as Go reads it; raises InterpretError, which names the place."""
    if amount is None:
        return 0
    if isinstance(amount, (bool, dict, list)):
        raise InterpretError(f"{where} is {json_type(amount)}, expected a quantity such as 500m or 1Gi")
    try:
        return _parsed(str(amount))
    except ValueError as error:
        raise InterpretError(f"{where}: {error}") from None


# The same few amounts occur in every workload of a fleet, and exact arithmetic on texts is slow.
@lru_cache(maxsize=4096, typed=True)
def _parsed(amount: str | int) -> int:
    return int(Quantity.parse(amount).value * _NANO)


def _sum(left: Amounts, right: Amounts) -> Amounts:
    if not left or not right:
        return left or right
    return left | {name: left.get(name, 0) + amount for name, amount in right.items()}


def _most(left: Amounts, right: Amounts) -> Amounts:
    if not left or not right:
        return left or right
    return left | {name: max(left.get(name, 0), amount) for name, amount in right.items()}


def _written(amounts: Amounts) -> JSONObject:
    return {
        name: _quantity(name, amount)
        for name, amount in sorted(amounts.items())
        if amount > 0 and _counts(name)
    }  # fmt: skip


def _counts(name: str) -> bool:
    """Return whether a resource is one that schedulers count."""
    return name in _PLAIN or "/" in name or name.startswith(("hugepages-", "attachable-volumes-"))


@lru_cache(maxsize=4096)
def _quantity(name: str, amount: int) -> str:
    if name == "cpu":
        return str(Quantity(Fraction(-(-amount // _MILLI), 1000)))
    return str(Quantity(-(-amount // _NANO), "BinarySI" if name.startswith(_BINARY) else "DecimalSI"))


# What a Pod needs to be there: a table of places, each with the way from there to a name.


def dependencies(pod_template: JSONObject, namespace: str) -> list[JSONObject]:
    """Return what a Pod of this template needs, by kind and then by name, each once."""
    spec = mapping(pod_template, "spec")
    config_maps: set[str] = set()
    secrets: set[str] = set()
    claims: set[str] = set()
    for reference in objects(spec, "imagePullSecrets"):
        secrets.add(text(reference, "name"))
    for member in ("initContainers", "containers", "ephemeralContainers"):
        for container in objects(spec, member):
            _environment(container, config_maps, secrets)
    for volume in objects(spec, "volumes"):
        _volume(volume, config_maps, secrets)
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


def _environment(container: JSONObject, config_maps: set[str], secrets: set[str]) -> None:
    for source in objects(container, "envFrom"):
        config_maps.add(text(source, "configMapRef", "name"))
        secrets.add(text(source, "secretRef", "name"))
    for variable in objects(container, "env"):
        if "valueFrom" not in variable:
            continue
        config_maps.add(text(variable, "valueFrom", "configMapKeyRef", "name"))
        secrets.add(text(variable, "valueFrom", "secretKeyRef", "name"))


_SECRET_PLACES: Final[dict[str, tuple[str, ...]]] = {
    "azureFile": ("azureFile", "secretName"),
    "secret": ("secret", "secretName"),
    "csi": ("csi", "nodePublishSecretRef", "name"),
    **{
        source: (source, "secretRef", "name")
        for source in ("cephfs", "cinder", "flexVolume", "rbd", "scaleIO", "iscsi", "storageos")
    },
}


def _volume(volume: JSONObject, config_maps: set[str], secrets: set[str]) -> None:
    for member in volume:
        if member == "configMap":
            config_maps.add(text(volume, "configMap", "name"))
        elif member == "projected":
            for source in objects(volume, "projected", "sources"):
                config_maps.add(text(source, "configMap", "name"))
                secrets.add(text(source, "secret", "name"))
        elif member in _SECRET_PLACES:
            secrets.add(text(volume, *_SECRET_PLACES[member]))


def template_of(document: JSONObject, *path: str) -> JSONObject:
    """Return the pod template of a workload; raises InterpretError."""
    return mapping(document, *(path or ("spec", "template")))
