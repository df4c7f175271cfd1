"""Compiles the patch of the workloads that match the template of a plan."""

from collections.abc import Sequence
from operator import is_
from typing import Final, NamedTuple, TypeVar

from fleethook.engines.overrider.plan.plan import Plan
from fleethook.engines.overrider.render.overlay import EXCLUSIVE, Path
from fleethook.engines.overrider.render.precompiled_patch import (
    REPLICAS_POINTER,
    CreatedMembers,
    Expected,
    ExpectedWorkload,
    PrecompiledPatch,
)
from fleethook.engines.overrider.render.template_delta import Assign, Change, ListDelta, ObjectDelta
from fleethook.engines.overrider.template.pool_template import CREATE_ONLY
from fleethook.model.json import ABSENT, JSON, JSONObject
from fleethook.patch import format_pointer, identical
from fleethook.workload_schema.value_marks import has_mark

T = TypeVar("T")


class _Collected(NamedTuple):
    operations: list[JSONObject]
    lists: list[tuple[Path, int]]
    absent: list[tuple[Path, str]]
    removed: list[tuple[Path, str]]


def compile_patch(plan: Plan) -> PrecompiledPatch | None:
    """Return the patch of a workload that matches the template of a plan, None if each workload has to be rendered."""
    variant, collected = plan.update, _Collected([], [], [], [])
    if not plan.steps or not _collect(variant.delta, (), collected):
        return None
    replicas = next(
        (operation["value"] for operation in collected.operations if operation["path"] == REPLICAS_POINTER), None
    )
    operations = tuple(operation for operation in collected.operations if operation["path"] != REPLICAS_POINTER)
    return PrecompiledPatch(
        operations,
        has_mark(operations),
        replicas,
        _select_created(plan.create.bare["spec"], plan.create.rendered["spec"]),
        plan.template._replace(fields={}, pool_patch=None),
        _expect(
            variant.bare, collected.lists, [place for place in collected.absent if place != (("spec",), "replicas")]
        ),
        _expect(variant.rendered, [], collected.removed),
    )


def _select_created(bare: JSONObject, rendered: JSONObject) -> CreatedMembers | None:
    """Return the members of a spec that only a creation can set, None if the overrider changes one of them."""
    names = CREATE_ONLY - {"replicas"}
    kept, overridden = ({name: spec[name] for name in spec if name in names} for spec in (bare, rendered))
    return CreatedMembers(kept, rendered.get("replicas")) if identical(kept, overridden) else None


def _has_objects(value: JSON) -> bool:
    return type(value) is dict or (type(value) is list and any(type(one) is dict for one in value))


_TEMPLATE: Final = ("spec", "template")


def _expect(
    workload: JSONObject, lists: Sequence[tuple[Path, int]], absent: Sequence[tuple[Path, str]]
) -> ExpectedWorkload:
    workload = _complete_ports(workload)
    metadata = {name: workload["metadata"].get(name) or {} for name in ("labels", "annotations")}
    spec = {name: value for name, value in workload["spec"].items() if name != "template"}
    members = {"metadata": {name: value for name, value in metadata.items() if value}, "spec": spec}
    inner_lists, outer_lists = _split(lists)
    inner_absent, outer_absent = _split(absent)
    return ExpectedWorkload(
        Expected(members, outer_lists, outer_absent),
        Expected(workload["spec"]["template"], inner_lists, inner_absent),
        check=None,
    )


def _complete_ports(value: JSON) -> JSON:
    """Return a value with the protocol of each port: without it, a port of another protocol would match."""
    if type(value) is dict:
        members = {
            name: _complete_ports(inner) if type(inner) in (dict, list) else inner for name, inner in value.items()
        }
        if "containerPort" in members:
            return {"protocol": "TCP", **members}
        return value if all(members[name] is inner for name, inner in value.items()) else members
    if type(value) is list:
        elements = [_complete_ports(inner) for inner in value]
        return value if all(map(is_, elements, value)) else elements
    return value


def _split(places: Sequence[tuple[Path, T]]) -> tuple[tuple[tuple[Path, T], ...], tuple[tuple[Path, T], ...]]:
    """Return the places in the pod template, with paths that begin there, and the others."""
    inner = tuple((path[2:], found) for path, found in places if path[:2] == _TEMPLATE)
    return inner, tuple((path, found) for path, found in places if path[:2] != _TEMPLATE)


def _collect(change: Change, tokens: Path, into: _Collected) -> bool:
    """Collect the operations of a difference; return False if they depend on the workload."""
    if type(change) is ObjectDelta:
        _require_no_sibling(change, tokens, into)
        return all(_collect_member(name, inner, tokens, into) for name, inner in change.members)
    assert type(change) is ListDelta
    survivors = [one for one in change.elements if one.before_at is not None and one.after_at is not None]
    removed = [element for element in change.elements if element.after_at is None]
    added = [one for one in change.elements if one.before_at is None]
    if change.reordered:
        return False
    into.lists.append((tokens, change.length))
    for survivor in survivors:
        assert survivor.before_at is not None
        if type(survivor.change) is Assign:
            return False  # The defaulted members of a union depend on the workload.
        if not _collect(survivor.change, (*tokens, survivor.before_at), into):
            return False
    for one in sorted(removed, key=lambda one: -(one.before_at or 0)):
        into.operations.append({"op": "remove", "path": _pointer((*tokens, one.before_at or 0))})
    for one in sorted(added, key=lambda one: one.after_at or 0):
        assert type(one.change) is Assign
        path = _pointer((*tokens, one.after_at or 0))
        into.operations.append({"op": "add", "path": path, "value": one.change.after})
    return True


def _require_no_sibling(change: ObjectDelta, tokens: Path, into: _Collected) -> None:
    """Require that the alternatives of an added exclusive member are absent."""
    changed = {name for name, _ in change.members}
    for name, inner in change.members:
        if type(inner) is Assign and inner.before is ABSENT:
            into.absent.extend((tokens, other) for other in EXCLUSIVE.get(name, ()) if other not in changed)


def _collect_member(name: str, change: Change, tokens: Path, into: _Collected) -> bool:
    if type(change) is ListDelta and change.removed:
        into.lists.append(((*tokens, name), change.length))
        into.removed.append((tokens, name))
        into.operations.append({"op": "remove", "path": _pointer((*tokens, name))})
        return True
    if type(change) is ObjectDelta and change.removed:
        return False  # Other clients may have set members of it.
    if type(change) is not Assign:
        return _collect(change, (*tokens, name), into)
    if change.schema.retain_keys:
        return False  # The defaulted members of a union depend on the workload.
    path = _pointer((*tokens, name))
    if change.after is ABSENT:
        into.removed.append((tokens, name))
        into.operations.append({"op": "remove", "path": path})
    elif change.before is ABSENT:
        into.absent.append((tokens, name))
        into.operations.append({"op": "add", "path": path, "value": change.after})
    elif _has_objects(change.after):
        return False  # The defaulted members of its elements depend on the workload.
    else:
        into.operations.append({"op": "replace", "path": path, "value": change.after})
    return True


def _pointer(tokens: Path) -> str:
    return format_pointer([str(token) for token in tokens])
