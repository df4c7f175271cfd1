"""Objects with one field left out or set to its zero value that an apiserver stores differently."""

import copy
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from tests.e2e.cluster import Api
from tests.e2e.field_samples import JSONObject, Unit
from tests.e2e.workloads import APPS

_ABSENT = object()
_THREADS = 8
_ELEMENTS = 24
"""Number of elements added to one workload: many, for few workloads, and few, to identify a failure."""


class Variant(NamedTuple):
    """A unit with one field changed.

    Attributes:
        label: The unit, the field, and the change to it.
        unit: The unit that is sent; its value is None if the member itself is left out.
        stored: The value that the apiserver stores for it.
    """

    label: str
    unit: Unit
    stored: Any


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


def changed_when_stored(server: Server, given: list[Unit]) -> list[Variant]:
    """Return the variants of units that the apiserver accepts and stores differently."""
    with ThreadPoolExecutor(_THREADS) as executor:
        stored = list(executor.map(server.store, given))
        # Variants start from the unit that the server stores, because the server does not change that again. A unit
        # that it prunes, because a feature gate is off, is skipped.
        complete = [
            unit._replace(value=get(one, unit))
            for unit, one in zip(given, stored, strict=True)
            if one is not None and contains(get(one, unit), unit.value)
        ]
        asked = [pair for unit in complete for pair in variants(unit)]
        answers = executor.map(lambda pair: server.store(pair[1]), asked)
        found = [
            Variant(label, unit, get(answer, unit))
            for (label, unit), answer in zip(asked, answers, strict=True)
            if answer is not None
        ]
    return [variant for variant in found if variant.stored != variant.unit.value]


def contains(stored: Any, sent: Any) -> bool:
    """Return whether the stored object contains everything that was sent."""
    if isinstance(sent, dict):
        return isinstance(stored, dict) and all(contains(stored.get(name), inner) for name, inner in sent.items())
    if isinstance(sent, list):
        pairs = zip(stored, sent, strict=True) if isinstance(stored, list) and len(stored) == len(sent) else ()
        return bool(pairs) and all(contains(*pair) for pair in pairs)
    return bool(stored == sent)


def batches(server: Server, found: list[Variant]) -> list[list[Variant]]:
    """Return the variants in groups that the apiserver accepts together; elements get distinct names."""
    made: list[list[Variant]] = []
    for group in _group(found):
        made += _split_until_accepted(server, group)
    return made


def _group(found: list[Variant]) -> list[list[Variant]]:
    """Group by member: many elements, one value."""
    lists: dict[str, list[Variant]] = {}
    singles: dict[str, list[Variant]] = {}
    for variant in found:
        (lists if variant.unit.element else singles).setdefault(variant.unit.member, []).append(variant)
    groups: list[list[Variant]] = []
    for columns in (_columns(lists, _ELEMENTS), _columns(singles, 1)):
        groups = [
            [*left, *right]
            for left, right in zip(
                [*groups, *([[]] * (len(columns) - len(groups)))],
                [*columns, *([[]] * (len(groups) - len(columns)))],
                strict=True,
            )
        ]
    return groups


def _columns(rows: dict[str, list[Variant]], size: int) -> list[list[Variant]]:
    """Return groups of which each has up to ``size`` variants of each row."""
    count = max((-(-len(row) // size) for row in rows.values()), default=0)
    return [[one for row in rows.values() for one in row[n * size : (n + 1) * size]] for n in range(count)]


def give_distinct_names(group: list[Variant]) -> list[Variant]:
    """Give elements distinct names."""
    made = []
    for number, variant in enumerate(group):
        if variant.unit.element:
            name = {"name": f"v{number}"}
            unit = variant.unit._replace(value={**variant.unit.value, **name})
            made.append(variant._replace(unit=unit, stored={**variant.stored, **name}))
        else:
            made.append(variant)
    return made


def _split_until_accepted(server: Server, group: list[Variant]) -> list[list[Variant]]:
    """Split a group until the apiserver accepts each part; variants that exclude each other are separated."""
    together = give_distinct_names(group)
    if not group or server.store(*(variant.unit for variant in together)) is not None:
        return [together] if group else []
    if len(group) == 1:
        return []
    half = len(group) // 2
    return [*_split_until_accepted(server, group[:half]), *_split_until_accepted(server, group[half:])]


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
