"""The patch of a workload that matches its template, without rendering the workload.

OpenYurt's controller writes workloads that match their template, so this is the usual case. The operations are compiled
once per plan. A review only checks that their indexes mean the same elements in the workload.
"""

from typing import Final, NamedTuple

from fleethook.engines.overrider.render.last_render import RENDER_ANNOTATIONS, LastRender, read_last_render
from fleethook.engines.overrider.render.overlay import Path, matches, value_of
from fleethook.engines.overrider.template.pool_template import PoolTemplate, is_placed
from fleethook.model.admission import find_template
from fleethook.model.json import JSON, JSONObject
from fleethook.patch import format_pointer
from fleethook.workload_schema.value_marks import PoolValues

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
