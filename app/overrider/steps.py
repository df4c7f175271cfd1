"""The entries of an overrider, compiled for one pool and applied in order.

Later entries win over earlier ones; inside an entry items come first and then its patches, which are one RFC 6902
document: all of them or none.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from app.model.json import JSON, JSONObject, as_object
from app.model.openyurt import NODEPOOL_TOKEN
from app.overrider.pools import applies_to
from app.patch import CompiledPatch, PatchError, compile_patch

CONTAINER_LISTS: Final = ("containers", "initContainers")


class RenderError(ValueError):
    """An entry that does not fit the workload.

    Attributes:
        field: Which part of the overrider, such as ``entries[1].patches[0]``.
        reason: What is wrong with it, with operation and path.
    """

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason


class SetImage(NamedTuple):
    """An image item: every container and init container of that name gets the image."""

    field: str
    container: str
    image: str


class SetReplicas(NamedTuple):
    """A replicas item."""

    field: str
    replicas: int


class ApplyPatches(NamedTuple):
    """The patches of one entry.

    ``origins[i]`` is the index in the entry of the patch that operation ``i`` comes from.
    """

    field: str
    patch: CompiledPatch
    origins: tuple[int, ...]
    operations: tuple[JSONObject, ...]


Step = SetImage | SetReplicas | ApplyPatches


def compile_steps(entries: JSON, pool: str) -> tuple[Step, ...]:
    """Return what the entries that apply to ``pool`` do, in order.

    ``{{nodepool}}`` is replaced by the pool's name in images, patch values and patch paths (upstream: values only).

    Raises:
        RenderError: A patch that no workload could take: a bad pointer, an unknown operation, a missing value.
    """
    steps: list[Step] = []
    for number, entry in enumerate(entries if isinstance(entries, list) else ()):
        if isinstance(entry, dict) and applies_to(entry.get("pools"), pool):
            steps += _entry_steps(f"entries[{number}]", entry, pool)
    return tuple(steps)


def _entry_steps(field: str, entry: Mapping[str, JSON], pool: str) -> Iterator[Step]:
    for number, item in enumerate(entry.get("items") or ()):
        yield from _item_steps(f"{field}.items[{number}]", as_object(item), pool)
    if patches := entry.get("patches"):
        yield _patch_step(field, patches, pool)


def _patch_step(field: str, patches: Sequence[JSON], pool: str) -> ApplyPatches:
    operations: list[JSONObject] = []
    origins: list[int] = []
    for number, patch in enumerate(patches):
        expanded = _operations(as_object(patch), pool)
        operations += expanded
        origins += [number] * len(expanded)
    try:
        compiled = compile_patch(operations)
    except PatchError as error:
        raise _patch_error(field, origins, error) from error
    return ApplyPatches(field, compiled, tuple(origins), tuple(operations))


def _item_steps(field: str, item: Mapping[str, JSON], pool: str) -> Iterator[Step]:
    image = as_object(item.get("image"))
    if image:
        claim = _with_pool(str(image.get("imageClaim", "")), pool)
        yield SetImage(field, str(image.get("containerName", "")), claim)
    if item.get("replicas") is not None:
        yield SetReplicas(field, item["replicas"])


def _operations(patch: Mapping[str, JSON], pool: str) -> list[JSONObject]:
    operation: JSONObject = {"op": patch.get("operation"), "path": _with_pool(patch.get("path", ""), pool)}
    if operation["op"] == "remove":
        return [operation]
    if "value" in patch:
        operation["value"] = _with_pool(patch["value"], pool)
    if operation.get("value", operation) is None and not _is_index(operation["path"]):
        # In the Kubernetes API a null member is an absent one; leaving it in would fail the check of its type.
        return [operation, {"op": "remove", "path": operation["path"]}]
    return [operation]


def _is_index(path: str) -> bool:
    last = path.rpartition("/")[2]
    return last == "-" or last.isdecimal()


def _with_pool(value: JSON, pool: str) -> JSON:
    if isinstance(value, str):
        return value.replace(NODEPOOL_TOKEN, pool)
    if isinstance(value, dict):
        return {_with_pool(name, pool): _with_pool(inner, pool) for name, inner in value.items()}
    if isinstance(value, list):
        return [_with_pool(inner, pool) for inner in value]
    return value


def _patch_error(field: str, origins: Sequence[int], error: PatchError) -> RenderError:
    if error.index is None:
        return RenderError(f"{field}.patches", error.reason)
    return RenderError(f"{field}.patches[{origins[error.index]}]", f"{error.op} {error.path}: {error.reason}")


def trace(workload: JSONObject, steps: tuple[Step, ...]) -> Iterator[tuple[Step, JSONObject]]:
    """Yield each step with the workload as it is after it.

    Raises:
        RenderError: The first patch that does not apply.
    """
    for step in steps:
        if type(step) is SetImage:
            workload = _set_image(workload, step)
        elif type(step) is SetReplicas:
            workload = _set_replicas(workload, step.replicas)
        elif type(step) is ApplyPatches:
            try:
                workload = step.patch.apply(workload)
            except PatchError as error:
                raise _patch_error(step.field, step.origins, error) from error
        yield step, workload


def run_steps(workload: JSONObject, steps: tuple[Step, ...]) -> JSONObject:
    """Return ``workload`` with all steps applied; raises RenderError as `trace` does."""
    for _, rendered in trace(workload, steps):
        workload = rendered
    return workload


def container_names(workload: JSONObject) -> list[str]:
    """Return the names of the workload's containers and init containers."""
    pod_spec = as_object(as_object(workload["spec"].get("template")).get("spec"))
    lists = (pod_spec.get(member) for member in CONTAINER_LISTS)
    return [str(element.get("name")) for elements in lists for element in elements or () if isinstance(element, dict)]


def _set_replicas(workload: JSONObject, replicas: int) -> JSONObject:
    if workload["spec"].get("replicas") == replicas:
        return workload
    return {**workload, "spec": {**workload["spec"], "replicas": replicas}}


def _set_image(workload: JSONObject, step: SetImage) -> JSONObject:
    spec = workload["spec"]
    pod_template = spec.get("template")
    pod_spec = pod_template.get("spec") if isinstance(pod_template, dict) else None
    if not isinstance(pod_spec, dict):
        return workload
    changed: JSONObject = {}
    for member in CONTAINER_LISTS:
        elements = pod_spec.get(member)
        if elements and any(_wants_image(element, step) for element in elements):
            changed[member] = [
                {**element, "image": step.image} if _wants_image(element, step) else element for element in elements
            ]
    if not changed:
        return workload
    pod_template = {**pod_template, "spec": {**pod_spec, **changed}}
    return {**workload, "spec": {**spec, "template": pod_template}}


def _wants_image(element: JSON, step: SetImage) -> bool:
    return isinstance(element, dict) and element.get("name") == step.container and element.get("image") != step.image
