"""The patch of a workload that matches its template, without rendering the workload.

OpenYurt's controller writes workloads that match their template, so this is the usual case. The operations are compiled
once per plan. A review only checks that their indexes mean the same elements in the workload.
"""

from collections.abc import Sequence
from operator import is_
from typing import Final, NamedTuple, TypeVar

from fleethook.engines.overrider.plan.plan_and_digest import Plan
from fleethook.engines.overrider.render.overlay_and_defaults import EXCLUSIVE, Path, matches, value_of
from fleethook.engines.overrider.render.template_delta import Assign, Change, ListDelta, ObjectDelta
from fleethook.engines.overrider.render.undo_and_annotations import RENDER_ANNOTATIONS, LastRender, read_last_render
from fleethook.engines.overrider.template.pool_template_and_placement import CREATE_ONLY, PoolTemplate, is_placed
from fleethook.model.json import ABSENT, JSON, JSONObject
from fleethook.model.pod_template_cache import find_template
from fleethook.patch import format_pointer, identical
from fleethook.workload_schema.pool_value_marks import PoolValues, has_mark

REPLICAS_POINTER: Final = "/spec/replicas"
_ANNOTATION_NAMES: Final = frozenset(RENDER_ANNOTATIONS)
_ANNOTATION_POINTERS: Final = {name: format_pointer(("metadata", "annotations", name)) for name in RENDER_ANNOTATIONS}


class Expected(NamedTuple):
    """The members that a document must have, and those that it must not have."""

    members: JSONObject
    lists: tuple[tuple[Path, int], ...]
    """Paths of the lists that an operation indexes, each with the length for which the index is right."""
    absent: tuple[tuple[Path, str], ...]
    """The path of an object, and the name of a member that it must not have."""

    def fits(self, document: JSON, values: PoolValues) -> bool:
        """Return whether a document has these members; it may have others."""
        if not matches(document, self.members, values):
            return False
        try:
            for path, length in self.lists:
                if len(value_of(document, path)) != length:
                    return False
            for path, name in self.absent:
                if name in value_of(document, path):
                    return False
        except (KeyError, IndexError, TypeError):
            return False
        return True


class ExpectedWorkload(NamedTuple):
    """An expected workload, with its pod template apart, because many workloads have an equal one."""

    workload: Expected
    template: Expected
    check: object | None
    """Identifies the check of a pool's template, None if pools share it. It reads a template once."""

    def fits(self, workload: JSONObject, placement: PoolTemplate, values: PoolValues) -> bool:
        """Return whether a workload has these members, and its pods the placement."""
        if not self.workload.fits(workload, values):
            return False
        template = workload["spec"].get("template")
        cached = None if self.check is None else find_template(template)
        if cached is not None and self.check in cached.passed:
            return True
        if not (self.template.fits(template, values) and _is_placed(template, placement)):
            return False
        if cached is not None:
            cached.add(self.check)
        return True


class CreatedMembers(NamedTuple):
    """The members that only a creation can set, and the number of replicas."""

    spec: JSONObject
    """The members of the template's spec, which the overrider does not change."""
    replicas: int | None
    """The number of replicas of a rendered workload, None if neither the template nor the overrider sets it."""


class PrecompiledPatch(NamedTuple):
    """The patch of every workload that matches the template of a plan, in all node pools that share the plan."""

    operations: tuple[JSONObject, ...]
    is_marked: bool
    """Whether the operations have marks for the values of a node pool."""
    replicas: int | None
    """The number of replicas that the overrider sets, None if it sets none."""
    created: "CreatedMembers | None"
    """The further members of a new workload, None if each new workload has to be rendered."""
    template: PoolTemplate
    """The placement of the template; its members are left out."""
    bare: ExpectedWorkload
    """A workload that matches the template, without the members that the patch adds."""
    rendered: ExpectedWorkload
    """A rendered workload, without the members that the patch removes."""

    def fits(self, workload: JSONObject, *, creating: bool, values: PoolValues) -> bool:
        """Return whether ``workload`` has all members of the template, or of its rendered form."""
        if creating and (self.created is None or not matches(workload["spec"], self.created.spec, values)):
            return False
        return any(form.fits(workload, self.template, values) for form in (self.bare, self.rendered))

    def is_settled(
        self, workload: JSONObject, last_render: LastRender, *, next_render: LastRender, values: PoolValues
    ) -> bool:
        """Return whether ``workload`` is already rendered by this plan; False if only rendering can tell."""
        if last_render != next_render or read_last_render(workload) != last_render:
            return False
        if not self.rendered.fits(workload, self.template, values):
            return False
        return self.replicas is None or workload["spec"].get("replicas") == values.fill_number(self.replicas)

    def operations_for(
        self, workload: JSONObject, *, next_render: LastRender, values: PoolValues
    ) -> list[JSONObject] | None:
        """Return the operations for an update of ``workload``, None if it has to be rendered."""
        annotations = workload["metadata"].get("annotations")
        if type(annotations) is not dict or not self.bare.fits(workload, self.template, values):
            return None
        if not _ANNOTATION_NAMES.isdisjoint(annotations) and any(
            name in annotations and not text for name, text in zip(RENDER_ANNOTATIONS, next_render, strict=True)
        ):
            return None  # A client has forged the annotation; only rendering removes it.
        operations = map(values.fill, self.operations) if self.is_marked else self.operations
        return [*_annotate(annotations, next_render), *operations, *self._scale(workload, values)]

    def operations_for_new(
        self, workload: JSONObject, *, next_render: LastRender, values: PoolValues
    ) -> list[JSONObject] | None:
        """Return the operations for the creation of ``workload``, None if it has to be rendered."""
        if self.created is None or not matches(workload["spec"], self.created.spec, values):
            return None
        return self._replace(replicas=self.created.replicas).operations_for(
            workload, next_render=next_render, values=values
        )

    def _scale(self, workload: JSONObject, values: PoolValues) -> list[JSONObject]:
        """Return the operation that sets the number of replicas, if the workload has another one."""
        replicas = None if self.replicas is None else values.fill_number(self.replicas)
        if replicas is None or workload["spec"].get("replicas") == replicas:
            return []
        return [{"op": "add", "path": REPLICAS_POINTER, "value": replicas}]

    def name_checks(self) -> "PrecompiledPatch":
        """Return the patch for a single pool, which recognizes templates that it has read."""
        bare, rendered = (form._replace(check=object()) for form in (self.bare, self.rendered))
        return self._replace(is_marked=False, bare=bare, rendered=rendered)


def _annotate(annotations: JSONObject, next_render: LastRender) -> list[JSONObject]:
    """Return the operations that set the annotations of a render."""
    return [
        {"op": "add" if known is None else "replace", "path": _ANNOTATION_POINTERS[name], "value": value}
        for name, value in zip(RENDER_ANNOTATIONS, next_render, strict=True)
        if value and (known := annotations.get(name)) != value
    ]


def _is_placed(template: JSONObject, placement: PoolTemplate) -> bool:
    # If the template has expressions of its own, `matches` has compared the required affinity already.
    if placement.expressions and placement.dropped_affinity is None:
        return True
    return is_placed(template["spec"], placement)


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
