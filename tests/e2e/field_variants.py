"""Objects with one field left out or set to its zero value, and their stored form at an apiserver."""

import copy
from collections.abc import Iterator
from typing import Any

from tests.e2e.cluster import Api
from tests.e2e.field_samples import JSONObject, Unit
from tests.e2e.workloads import APPS

_ABSENT = object()


def variants(unit: Unit) -> Iterator[tuple[str, Unit]]:
    """Yield a unit with each field left out, and set to its zero value."""
    if not unit.element:
        yield f"{unit.name}: left out", unit._replace(value=None)
        yield f"{unit.name}: zero", unit._replace(value=_zero(unit.value))
    for path in _paths(unit.value):
        pointer = "/".join(map(str, path))
        if unit.element and path[0] != unit.varied:
            continue
        for how, value in (("left out", _ABSENT), ("zero", _zero(_at(unit.value, path)))):
            changed = copy.deepcopy(unit.value)
            parent = _at(changed, path[:-1])
            if value is not _ABSENT:
                parent[path[-1]] = value
            elif isinstance(parent, dict):
                del parent[path[-1]]
            else:
                continue  # The variant of the list itself lacks the element.
            yield f"{unit.name} {pointer}: {how}", unit._replace(value=changed)


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield (*path, name)
            yield from _paths(inner, (*path, name))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _paths(inner, (*path, number))


def _at(value: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        value = value[step]
    return value


def _zero(value: Any) -> Any:
    return type(value)()


def put(workload: JSONObject, unit: Unit) -> None:
    """Set a unit in a workload."""
    *parents, last = unit.pointer.lstrip("/").split("/")
    target: Any = workload
    for name in parents[:-1]:
        target = target.setdefault(name, {})
    if unit.element:
        target.setdefault(parents[-1], []).append(copy.deepcopy(unit.value))
        return
    target = target.setdefault(parents[-1], {})
    target.pop(last, None)
    if unit.value is not None:
        target[last] = copy.deepcopy(unit.value)


def get(workload: JSONObject, unit: Unit) -> Any:
    """Return the value of a unit in a workload, None if there is none."""
    target: Any = workload
    for name in unit.member.lstrip("/").split("/"):
        target = target.get(name)
        if target is None:
            return None
    if not unit.element:
        return target
    return next((one for one in target if one["name"] == unit.value["name"]), None)


class Server:
    """Sends workloads to an apiserver as dry runs."""

    def __init__(self, api: Api, base: JSONObject) -> None:
        self._api = api
        self._base = base
        plural = base["kind"].lower() + "s"
        self._path = f"{APPS}/namespaces/{base['metadata']['namespace']}/{plural}"

    def store(self, *units: Unit) -> JSONObject | None:
        """Return the base with the units as it would be stored, or None if the apiserver refuses it."""
        workload = copy.deepcopy(self._base)
        for unit in units:
            put(workload, unit)
        code, answer, _ = self._api.call("POST", self._path, workload, dryRun="All")
        return answer if code < 300 else None


def contains(stored: Any, sent: Any) -> bool:
    """Return whether the stored object contains everything that was sent."""
    if isinstance(sent, dict):
        return isinstance(stored, dict) and all(contains(stored.get(name), inner) for name, inner in sent.items())
    if isinstance(sent, list):
        pairs = zip(stored, sent, strict=True) if isinstance(stored, list) and len(stored) == len(sent) else ()
        return bool(pairs) and all(contains(*pair) for pair in pairs)
    return bool(stored == sent)


def base_workload(namespace: str, kind: str) -> JSONObject:
    """Return a workload for units, with the volumes that mounts and devices name."""
    volumes = [{"name": "data", "emptyDir": {}}, {"name": "block", "persistentVolumeClaim": {"claimName": "c"}}]
    labels = {"app": "demo"}
    # Each list has an element, so that a patch can append another one.
    pods = {
        "containers": [{"name": "nginx", "image": "nginx:1.0"}],
        "initContainers": [{"name": "setup", "image": "setup:1.0"}],
        "volumes": volumes,
    }
    spec: JSONObject = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pods}}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"generateName": "sample-", "namespace": namespace},
        "spec": spec,
    }
