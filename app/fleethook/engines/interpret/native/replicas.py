"""Reads and sets replica counts, and sums the requirements of a replica.

Sources: karmada v1.16 pkg/resourceinterpreter/default/native/replica.go, revisereplica.go; pkg/util/helper
(GenerateReplicaRequirements); k8s.io/component-helpers resource (sidecar containers, KEP-753; pod-level resources,
KEP-2837), which Karmada ignores.
"""

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Final

from fleethook.interpret.interpreter import InterpretError
from fleethook.interpret.typed_fields import count, json_type, mapping, number, objects, present, text, with_member
from fleethook.model.formats.quantity import Quantity
from fleethook.model.json import JSON, JSONObject

Counted = tuple[int, JSON]
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
@lru_cache(maxsize=4096)
def _parse_amount(amount: str) -> int:
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


def _format_quantity(name: str, amount: int) -> str:
    if name == "cpu":
        return str(Quantity(Fraction(-(-amount // _MILLI), 1000)))
    return str(Quantity(-(-amount // _NANO), "BinarySI" if name.startswith(_BINARY) else "DecimalSI"))


def workload(document: JSONObject) -> Counted:
    """Return ``spec.replicas`` of a Deployment, ReplicaSet or StatefulSet, and the requirements of a replica."""
    return count(document, "spec", "replicas"), requirements(mapping(document, "spec", "template"))


def job(document: JSONObject) -> Counted:
    """Return ``spec.parallelism`` of a Job, at most ``spec.completions``, and the requirements of a replica."""
    parallelism, completions = count(document, "spec", "parallelism"), number(document, "spec", "completions")
    replicas = parallelism if completions is None else min(parallelism, completions)
    return replicas, requirements(mapping(document, "spec", "template"))


def pod(document: JSONObject) -> Counted:
    """Return 1 and the requirements of a Pod."""
    return 1, requirements(document)


def set_member(*path: str) -> Callable[[JSONObject, int], JSONObject]:
    """Return a function that sets a replica count at a path.

    Karmada only changes an existing count. So it sends an object without a count to each cluster undivided.
    """

    def revise(document: JSONObject, replicas: int) -> JSONObject:
        if number(document, *path) == replicas:
            return document
        if replicas < 0:
            raise InterpretError(f"the replica count {replicas} is negative")
        return with_member(document, replicas, *path)

    return revise
