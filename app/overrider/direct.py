"""The patch of a workload that stands as its template wants it, without rendering it.

That is how a workload arrives from its owner's controller, so it is the usual case. What a plan does to it are the
entries' own operations, which are put together once per plan; what is left per review is to see that an index in them
means what it means in the template.
"""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from app.model.json import JSON, JSONObject
from app.overrider.steps import CONTAINER_LISTS, SetImage, SetReplicas, Step, trace
from app.patch import parse_pointer

_REPLICAS: Final = "/spec/replicas"
# Set on creation only, so a workload that is updated may have other values than the template.
_CREATE_ONLY: Final = ("/spec/selector", "/spec/serviceName", "/spec/podManagementPolicy", "/spec/volumeClaimTemplates")


class ListPlace(NamedTuple):
    """A list that an index in a pointer goes through, and how long it must be for the index to mean the same."""

    tokens: tuple[str, ...]
    length: int


class DirectPatch(NamedTuple):
    """What a plan does to any workload that stands as the template wants it."""

    operations: tuple[JSONObject, ...]
    lists: tuple[ListPlace, ...]

    def fits(self, workload: JSONObject) -> bool:
        """Return whether every index in the operations means in ``workload`` what it means in the template."""
        return all(_length(workload, tokens) == length for tokens, length in self.lists)


def compile_direct(bare: JSONObject, steps: tuple[Step, ...]) -> DirectPatch | None:
    """Return the direct patch of ``steps``, or None where each workload has to be rendered.

    Args:
        bare: The template's workload, to which ``steps`` are known to apply.
        steps: What the plan does.
    """
    operations = tuple(_operations(bare, steps))
    if any(operation["path"].startswith(_CREATE_ONLY) for operation in operations):
        return None
    places = {place for operation in operations for place in _lists_on(bare, operation["path"])}
    return DirectPatch(operations, tuple(sorted(places)))


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
    tokens = parse_pointer(path)
    for position, token in enumerate(tokens):
        if isinstance(document, list):
            yield ListPlace(tokens[:position], len(document))
            document = document[int(token)] if token.isdecimal() and int(token) < len(document) else None
        else:
            document = document.get(token) if isinstance(document, dict) else None


def _length(document: JSON, tokens: tuple[str, ...]) -> int:
    for token in tokens:
        document = document[int(token)] if type(document) is list else document.get(token)
    return len(document)


def direct_operations(
    patch: DirectPatch, workload: JSONObject, annotations: Mapping[str, str]
) -> list[JSONObject] | None:
    """Return the operations for ``workload``, or None if it has to be rendered.

    Args:
        patch: The direct patch of the workload's plan.
        workload: A workload that the template would not change.
        annotations: The annotations that a render leaves on it.
    """
    present = workload["metadata"].get("annotations")
    if type(present) is not dict or not patch.fits(workload):
        return None
    operations: list[JSONObject] = []
    for name, value in annotations.items():
        if (known := present.get(name)) != value:
            path = f"/metadata/annotations/{name.replace('/', '~1')}"
            operations.append({"op": "add" if known is None else "replace", "path": path, "value": value})
    if not operations:
        # Rendered before: the difference may well be nothing, which only rendering shows.
        return None
    operations += patch.operations
    return operations
