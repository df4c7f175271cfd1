"""Templates and overrides for each field of a workload, generated from the API's samples and its enumerations."""

import copy
import functools
import itertools
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from schemas.workloads import OPENAPI_FILE
from tests.builders import entry, overrider, patch
from tests.e2e.field_samples import PODS, JSONObject, Unit, units
from tests.e2e.field_variants import Server, contains, get, put, variants

_THREADS = 4
_ELEMENTS = 24
_MAX_SINGLE = 40
"""Cases for a member that a workload has once: each needs a workload of its own."""
IMMUTABLE = ("/spec/podManagementPolicy", "/spec/serviceName", "/spec/volumeClaimTemplates")
_STRATEGIES: dict[str, list[Any]] = {
    "/spec/strategy": [
        {}, {"type": "Recreate"}, {"type": "RollingUpdate"}, {"rollingUpdate": {"maxUnavailable": 0}},
        {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "10%", "maxUnavailable": 1}},
        {"type": "Recreate", "rollingUpdate": None},
    ],
    "/spec/updateStrategy": [
        {}, {"type": "OnDelete"}, {"type": "RollingUpdate"}, {"rollingUpdate": {"partition": 2}},
        {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}},
    ],
}  # fmt: skip


class Case(NamedTuple):
    """The value of a member or an element in a template, and the value that an overrider sets; None for an absent one."""

    label: str
    pointer: str
    before: Any
    after: Any

    @property
    def is_element(self) -> bool:
        return self.pointer.endswith("/-")

    @property
    def member(self) -> str:
        return self.pointer.removesuffix("/-")

    def name(self, name: str) -> "Case":
        """Return the case with another name of its element."""
        if not self.is_element:
            return self
        return self._replace(
            before=self.before and {**self.before, "name": name}, after=self.after and {**self.after, "name": name}
        )

    def patch(self) -> JSONObject:
        """Return the patch of an overrider."""
        place = self.pointer
        if self.is_element and self.before is not None:
            place = f"{self.member}/[name={self.before['name']}]"
        if self.after is None:
            return patch("remove", place)
        return patch("add" if self.before is None else "replace", place, copy.deepcopy(self.after))

    def unit(self, value: Any) -> Unit:
        return Unit(self.label, self.pointer, value)


@functools.cache
def _enumerations() -> dict[str, set[str]]:
    """Return the values of enumerations by the name of their member."""
    found: dict[str, set[str]] = {}
    for definition in json.loads(OPENAPI_FILE.read_text()).values():
        for name, schema in definition.get("properties", {}).items():
            if "enum" in schema:
                found.setdefault(name, set()).update(schema["enum"])
    return found


def _other_values(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield a value with each member of an enumeration set to each of its other values."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if isinstance(inner, str):
                for other in sorted(_enumerations().get(name, set()) - {inner}):
                    yield f"{name}={other}", {**value, name: other}
            for label, made in _other_values(inner):
                yield f"{name}/{label}", {**value, name: made}
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            for label, made in _other_values(inner):
                yield f"{number}/{label}", [*value[:number], made, *value[number + 1 :]]


def _nulls(unit: Unit) -> Iterator[tuple[str, Unit]]:
    """Yield a unit with null for each member of its first levels."""
    if not isinstance(unit.value, dict) or unit.name == "nodeSelector":
        return  # Null as a value of a map is an empty text.
    for name, inner in unit.value.items():
        if unit.element and name != unit.varied:
            continue
        yield f"{unit.name} {name}: null", unit._replace(value={**unit.value, name: None})
        for one in inner if unit.element and isinstance(inner, dict) else ():
            yield f"{unit.name} {name}/{one}: null", unit._replace(value={**unit.value, name: {**inner, one: None}})


_FOUND: dict[str, list[Case]] = {}


def cases_of(server: Server, kind: str) -> list[Case]:
    """Return the cases of a kind whose values the apiserver accepts; a process asks for them once."""
    if kind not in _FOUND:
        _FOUND[kind] = _find_cases(server, kind)
    return _FOUND[kind]


def _find_cases(server: Server, kind: str) -> list[Case]:
    given = [one for one in units(kind) if one.member not in IMMUTABLE]
    with ThreadPoolExecutor(_THREADS) as executor:
        stored = list(executor.map(server.store, given))
        kept = [
            one for one, answer in zip(given, stored, strict=True) if answer and contains(get(answer, one), one.value)
        ]
        varied = [(one, label, made) for one in kept for label, made in _vary(one)]
        answers = list(executor.map(lambda it: server.store(it[2]) is not None, varied))
    accepted: dict[str, list[tuple[str, Any]]] = {}
    for (unit, label, made), is_accepted in zip(varied, answers, strict=True):
        if is_accepted and made.value != unit.value:
            accepted.setdefault(unit.name, []).append((label, made.value))
    found = [*_strategies(kind)]
    for unit in kept:
        found += [
            Case(f"{unit.name}: added", unit.pointer, None, unit.value),
            Case(f"{unit.name}: removed", unit.pointer, unit.value, None),
        ]
        for label, value in accepted.get(unit.name, []):
            found += [
                Case(f"{label} to full", unit.pointer, value, unit.value),
                Case(f"full to {label}", unit.pointer, unit.value, value),
                Case(f"added {label}", unit.pointer, None, value),
            ]
    found += _switches(kept)
    return [one for one in _thin_out(found) if one.before != one.after]


def _vary(unit: Unit) -> Iterator[tuple[str, Unit]]:
    yield from variants(unit)
    yield from _nulls(unit)
    for label, value in _other_values(unit.value):
        yield f"{unit.name} {label}", unit._replace(value=value)


def _strategies(kind: str) -> Iterator[Case]:
    pointer = "/spec/strategy" if kind == "Deployment" else "/spec/updateStrategy"
    for before, after in itertools.permutations([None, *_STRATEGIES[pointer]], 2):
        yield Case(f"strategy {before} to {after}", pointer, before, after)


def _switches(kept: list[Unit]) -> Iterator[Case]:
    """Yield cases that choose another member of a choice: volume sources, handlers, sources of variables."""
    volumes = [one for one in kept if one.member == f"{PODS}/volumes"]
    for number, one in enumerate(volumes):
        for distance in (1, 7, 19):
            other = volumes[(number + distance) % len(volumes)]
            yield Case(f"{one.name} to {other.name}", one.pointer, one.value, other.value)
        none = {"name": one.value["name"]}
        yield Case(f"{one.name} to none", one.pointer, one.value, none)
        yield Case(f"none to {one.name}", one.pointer, none, one.value)
        yield Case(f"null to {one.name}", one.pointer, {**none, one.varied: None}, one.value)
    for name, group in itertools.groupby(kept, lambda one: (one.pointer, one.varied)):
        if name[1] in ("livenessProbe", "lifecycle"):
            for left, right in itertools.permutations(list(group), 2):
                yield Case(f"{left.name} to {right.name}", left.pointer, left.value, right.value)
    for one in kept:
        if one.varied == "env":
            sources = [{**source, "name": "ONE"} for source in one.value["env"]]
            for left, right in itertools.permutations(sources, 2):
                before, after = ({**one.value, "env": [source]} for source in (left, right))
                yield Case(f"{one.name} {left} to {right}", one.pointer, before, after)


def _thin_out(found: list[Case]) -> Iterator[Case]:
    """Yield the cases, at most `_MAX_SINGLE` for a member that a workload has once."""
    rows: dict[str, list[Case]] = {}
    for one in found:
        if one.is_element:
            yield one
        else:
            rows.setdefault(one.pointer, []).append(one)
    for row in rows.values():
        yield from row[:: -(-len(row) // _MAX_SINGLE)]


def group(cases: list[Case], elements: int = _ELEMENTS) -> list[list[Case]]:
    """Return groups of cases for one workload each: some elements of each list, one case of each other member."""
    rows: dict[str, list[Case]] = {}
    for case in cases:
        rows.setdefault(case.member, []).append(case)
    columns: dict[int, list[Case]] = {}
    for row in rows.values():
        size = elements if row[0].is_element else 1
        for number, case in enumerate(row):
            columns.setdefault(number // size, []).append(case.name(f"v{number % size}"))
    return list(columns.values())


def build_template(base: JSONObject, cases: list[Case], *, after: bool = False) -> JSONObject:
    """Return a workload with the values of a template, or with those of the overrider."""
    made = copy.deepcopy(base)
    for case in cases:
        if (value := case.after if after else case.before) is not None:
            put(made, case.unit(value))
    return made


def build_overrider(cases: list[Case], subject: JSONObject, *pools: str) -> JSONObject:
    """Return an overrider for the pools of a subject."""
    named = {"apiVersion": subject["apiVersion"], "kind": subject["kind"], "name": subject["metadata"]["name"]}
    return overrider(entry(*(pools or "*"), patches=[case.patch() for case in cases]), subject=named)
