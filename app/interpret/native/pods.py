"""Pod templates: what one replica asks for, and what it needs to be there.

Sources: karmada pkg/util/helper (GenerateReplicaRequirements), pkg/util/lifted/visitpod.go; k8s.io/component-helpers
resource (sidecar containers, KEP-753; pod-level resources, KEP-2837), which upstream does not look at.
"""

from fractions import Fraction
from math import ceil
from typing import Final

from app.interpret.access import InterpretError, mapping, objects, text
from app.model.json import JSONObject
from app.model.quantity import Quantity

Amounts = dict[str, Fraction]

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
        if container.get("restartPolicy") == "Always":
            running = _sum(running, asked)
            most = _most(most, running)
        else:
            most = _most(most, _sum(running, asked))
    for container in objects(spec, "containers"):
        running = _sum(running, _container(container))
    total = _most(running, most)
    for_pod = {
        name: amount for name, amount in _container({"resources": mapping(spec, "resources")}).items()
        if name.startswith(_POD_LEVEL)
    }  # fmt: skip
    return _sum({**total, **for_pod}, _amounts(mapping(spec, "overhead"), "overhead"))


def _container(container: JSONObject) -> Amounts:
    limits = _amounts(mapping(container, "resources", "limits"), "limits")
    return {**limits, **_amounts(mapping(container, "resources", "requests"), "requests")}


def _amounts(resources: JSONObject, where: str) -> Amounts:
    try:
        return {name: Quantity.parse(amount).value for name, amount in resources.items()}
    except (ValueError, TypeError) as error:
        raise InterpretError(f"resources.{where}: {error}") from None


def _sum(left: Amounts, right: Amounts) -> Amounts:
    return left | {name: left.get(name, Fraction(0)) + amount for name, amount in right.items()}


def _most(left: Amounts, right: Amounts) -> Amounts:
    return left | {name: max(left.get(name, Fraction(0)), amount) for name, amount in right.items()}


def _written(amounts: Amounts) -> JSONObject:
    return {
        name: _quantity(name, amount)
        for name, amount in sorted(amounts.items())
        if amount > 0 and _counts(name)
    }  # fmt: skip


def _counts(name: str) -> bool:
    """Return whether a resource is one that schedulers count."""
    return name in _PLAIN or "/" in name or name.startswith(("hugepages-", "attachable-volumes-"))


def _quantity(name: str, amount: Fraction) -> str:
    if name == "cpu":
        return str(Quantity(Fraction(ceil(amount * 1000), 1000)))
    return str(Quantity(ceil(amount), "BinarySI" if name.startswith(_BINARY) else "DecimalSI"))


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
        config_maps.add(text(variable, "valueFrom", "configMapKeyRef", "name"))
        secrets.add(text(variable, "valueFrom", "secretKeyRef", "name"))


_SECRET_PLACES: Final = (
    ("azureFile", "secretName"),
    ("secret", "secretName"),
    ("cephfs", "secretRef", "name"),
    ("cinder", "secretRef", "name"),
    ("flexVolume", "secretRef", "name"),
    ("rbd", "secretRef", "name"),
    ("scaleIO", "secretRef", "name"),
    ("iscsi", "secretRef", "name"),
    ("storageos", "secretRef", "name"),
    ("csi", "nodePublishSecretRef", "name"),
)


def _volume(volume: JSONObject, config_maps: set[str], secrets: set[str]) -> None:
    config_maps.add(text(volume, "configMap", "name"))
    secrets.update(text(volume, *place) for place in _SECRET_PLACES)
    for source in objects(volume, "projected", "sources"):
        config_maps.add(text(source, "configMap", "name"))
        secrets.add(text(source, "secret", "name"))


def template_of(document: JSONObject, *path: str) -> JSONObject:
    """Return the pod template of a workload; raises InterpretError."""
    return mapping(document, *(path or ("spec", "template")))
