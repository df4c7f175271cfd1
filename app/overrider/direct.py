"""The patch of a workload that stands as its template wants it, without rendering it.

That is how a workload arrives from its owner's controller, so it is the usual case. What a plan does to it are the
entries' own operations, which are put together once per plan; what is left per review is to see that an index in them
means what it means in the template.
"""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from app.model.json import JSON, JSONObject
from app.overrider.standing import Check, compile_standing
from app.overrider.steps import CONTAINER_LISTS, SetImage, SetReplicas, Step, trace
from app.overrider.template import PoolTemplate, stands_placed
from app.patch import parse_pointer

_REPLICAS: Final = "/spec/replicas"
# Set on creation only, so a workload that is updated may have other values than the template.
_CREATE_ONLY: Final = ("/spec/selector", "/spec/serviceName", "/spec/podManagementPolicy", "/spec/volumeClaimTemplates")


class ListPlace(NamedTuple):
    """A list that an index in a pointer goes through, and how long it must be for the index to mean the same."""

    tokens: tuple[str | int, ...]
    length: int


class DirectPatch(NamedTuple):
    """What a plan does to any workload that stands as the template wants it."""

    operations: tuple[JSONObject, ...]
    lists: tuple[ListPlace, ...]
    annotations: tuple[tuple[str, str, str], ...]
    """What a render leaves on the workload: name, pointer and value of each."""
    template: PoolTemplate
    stands_on_update: Check
    stands_as_created: Check

    def stands(self, workload: JSONObject, *, creating: bool) -> bool:
        """Return whether the template would change nothing in ``workload``; False where that takes a closer look."""
        if self.template.pool_patch is not None:
            return False
        standing = self.stands_as_created if creating else self.stands_on_update
        return standing(workload) and stands_placed(workload["spec"]["template"]["spec"], self.template)

    def fits(self, workload: JSONObject) -> bool:
        """Return whether every index in the operations means in ``workload`` what it means in the template."""
        try:
            return all(_length(workload, tokens) == length for tokens, length in self.lists)
        except (KeyError, IndexError, TypeError):
            return False


def compile_direct(
    template: PoolTemplate, bare: JSONObject, steps: tuple[Step, ...], annotations: Mapping[str, str]
) -> DirectPatch | None:
    """Return the direct patch of ``steps``, or None where each workload has to be rendered.

    Args:
        template: What the plan's template says.
        bare: The template's workload, to which ``steps`` are known to apply.
        steps: What the plan does.
        annotations: The annotations that a render leaves on the workload.
    """
    operations = tuple(_operations(bare, steps))
    if any(operation["path"].startswith(_CREATE_ONLY) for operation in operations):
        return None
    places = {place for operation in operations for place in _lists_on(bare, operation["path"])}
    return DirectPatch(
        operations,
        tuple(sorted(places)),
        tuple((name, annotation_pointer(name), value) for name, value in annotations.items()),
        template,
        compile_standing(template.named_on_update),
        compile_standing(template.named),
    )


def _operations(bare: JSONObject, steps: tuple[Step, ...]) -> Iterator[JSONObject]:
    before = bare
    for step, after in trace(bare, steps):
        if isinstance(step, SetImage):
            yield from _image_operations(before, step)
        elif isinstance(step, SetReplicas):
            # "add" of a member that is there replaces it: whether it is does not matter.
            yield {"op": "add", "path": _REPLICAS, "value": step.replicas}
        else:
            yield from step.operations
        before = after


def _image_operations(workload: JSONObject, step: SetImage) -> Iterator[JSONObject]:
    pod_spec = workload["spec"]["template"].get("spec", {})
    for member in CONTAINER_LISTS:
        for index, element in enumerate(pod_spec.get(member) or ()):
            if element.get("name") == step.container:
                path = f"/spec/template/spec/{member}/{index}/image"
                yield {"op": "replace" if "image" in element else "add", "path": path, "value": step.image}


def _lists_on(document: JSON, path: str) -> Iterator[ListPlace]:
    walked: list[str | int] = []
    for token in parse_pointer(path):
        if isinstance(document, list):
            yield ListPlace(tuple(walked), len(document))
            if not token.isdecimal() or int(token) >= len(document):
                return
            walked.append(int(token))
        elif isinstance(document, dict) and token in document:
            walked.append(token)
        else:
            return
        document = document[walked[-1]]


def _length(document: JSON, tokens: tuple[str | int, ...]) -> int:
    for token in tokens:
        document = document[token]
    return len(document)


def annotation_pointer(name: str) -> str:
    """Return the JSON Pointer of an annotation."""
    return f"/metadata/annotations/{name.replace('~', '~0').replace('/', '~1')}"


def direct_operations(patch: DirectPatch, workload: JSONObject) -> list[JSONObject] | None:
    """Return the operations for ``workload``, or None if it has to be rendered.

    Args:
        patch: The direct patch of the workload's plan.
        workload: A workload that the template would not change.
    """
    present = workload["metadata"].get("annotations")
    if type(present) is not dict or not patch.fits(workload):
        return None
    operations: list[JSONObject] = []
    for name, path, value in patch.annotations:
        if (known := present.get(name)) != value:
            operations.append({"op": "add" if known is None else "replace", "path": path, "value": value})
    if not operations:
        # Rendered before: the difference may well be nothing, which only rendering shows.
        return None
    operations += patch.operations
    return operations
