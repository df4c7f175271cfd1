"""Compiles the entries of an overrider for one pool into steps, applies them in order, and traces their differences.

Later entries win over earlier ones. Inside an entry, items apply before patches. Either all steps apply or none.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from fleethook.engines.overrider.entries.patch_paths_and_protected_fields import (
    END,
    METADATA_MAPS,
    PathError,
    complete_element,
    find_target,
    missing_parent,
    pointer_of,
)
from fleethook.engines.overrider.render.list_elements_and_order import CONTAINER_LISTS, merge_repeated
from fleethook.engines.overrider.render.template_delta import Token, delta_of, leaves, schema_at, value_at
from fleethook.model.json import JSON, JSONObject, as_list, as_object
from fleethook.model.merge_keys import WORKLOAD
from fleethook.model.openyurt import GROUP
from fleethook.patch import PatchError, PatchLimits, apply, identical, parse_pointer, resolve_pointer
from fleethook.workload_schema.defaults import explain_missing

LIMITS: Final = PatchLimits(operations=1_000, moved=1_000_000)
"""kube-apiserver waits for the render, and other reviews wait behind it. A thousand patches take some 20 ms. OpenYurt
has no limit."""
MAX_VALUES: Final = 10_000
"""Values (texts, numbers, lists, objects) of one patch or item. A large Pod template has 500."""
LEAVABLE_FIELD: Final = "replicas"
"""The only field that an item can leave to another owner."""

NODEPOOL_TOKEN: Final = "{{nodepool}}"  # noqa: S105 - a placeholder, not a secret
TWEAK_POOL_TOKEN: Final = "{{nodepool-name}}"  # noqa: S105 - as above
"""The placeholder for the pool's name in the patches of a YurtAppSet v1beta1."""

Apply = Callable[[JSONObject], JSONObject]


class ItemEffect(NamedTuple):
    """The effect of an item."""

    apply: Apply
    """Returns the workload with the item applied, or the same workload if nothing changes."""
    container: str
    """The name of the container that the item changes, ``""`` for an item of the workload."""
    no_effect: str
    """The message for an item that changes nothing, ``""`` for an item that has an effect beyond changes."""
    leaves_replicas: bool = False
    """Whether the item leaves the replicas of existing workloads to another owner."""


def item_effect(item: Mapping[str, JSON]) -> ItemEffect | None:
    """Return the effect of an item, None if it has no known member.

    Args:
        item: The item, with ``{{nodepool}}`` replaced. Admission has checked its shape. The check of the rendered
            workload reports values that do not have the shape of the Kubernetes API.
    """
    for member, make in _EFFECTS.items():
        value = item.get(member)
        if value is not None:
            return make(value)
    return None


def _make_image(value: JSON) -> ItemEffect:
    name, claim = str(as_object(value).get("containerName", "")), str(as_object(value).get("imageClaim", ""))

    def apply(workload: JSONObject) -> JSONObject:
        # Without an image, a container is invalid. The rules for items report a missing claim.
        return _set_image(workload, name, claim) if claim else workload

    return ItemEffect(apply, name, f"container {name} has image {claim} already")


def _make_replicas(value: JSON) -> ItemEffect:
    def apply(workload: JSONObject) -> JSONObject:
        present = workload["spec"].get("replicas")
        # In Python, True equals 1.
        if present == value and type(present) is type(value):
            return workload
        return {**workload, "spec": {**workload["spec"], "replicas": value}}

    return ItemEffect(apply, "", f"replicas is {value} already")


def _make_leave(value: JSON) -> ItemEffect:
    return ItemEffect(
        lambda workload: workload, "", "", leaves_replicas=isinstance(value, list) and LEAVABLE_FIELD in value
    )


_EFFECTS: Final[dict[str, Callable[[JSON], ItemEffect]]] = {
    "image": _make_image,
    "replicas": _make_replicas,
    "initialReplicas": lambda value: _make_replicas(value)._replace(no_effect="", leaves_replicas=True),
    "leave": _make_leave,
}
ITEMS: Final = tuple(_EFFECTS)
"""The members that an item may have. Each item has one of them."""


def _set_image(workload: JSONObject, name: str, claim: str) -> JSONObject:
    """Return a workload with the image of the containers of a name, or the workload itself if nothing changes."""
    template = as_object(workload["spec"].get("template"))
    pod_spec = as_object(template.get("spec"))
    changed: JSONObject = {}
    for member in CONTAINER_LISTS:
        elements = pod_spec.get(member)
        if not isinstance(elements, list):
            continue
        images = [
            {**container, "image": claim}
            if _is_named(container, name) and container.get("image") != claim
            else container
            for container in elements
        ]
        if any(left is not right for left, right in zip(images, elements, strict=True)):
            changed[member] = images
    if not changed:
        return workload
    return {**workload, "spec": {**workload["spec"], "template": {**template, "spec": {**pod_spec, **changed}}}}


def _is_named(element: JSON, name: str) -> bool:
    return isinstance(element, dict) and element.get("name") == name


def container_names(workload: JSONObject) -> list[str]:
    """Return the names of the workload's containers and init containers."""
    pod_spec = as_object(as_object(workload["spec"].get("template")).get("spec"))
    lists = (pod_spec.get(member) for member in CONTAINER_LISTS)
    return [str(element.get("name")) for elements in lists for element in elements or () if isinstance(element, dict)]


_OPERATIONS: Final = ("add", "remove", "replace")
REPLICAS: Final = "/spec/replicas"
_NODE_SELECTOR: Final = ("spec", "template", "spec", "nodeSelector")


class RenderError(ValueError):
    """An entry that does not fit the workload.

    Attributes:
        field: The path of the step in the overrider, such as ``entries[1].patches[0]``.
        reason: The mistake, with operation and path.
    """

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason


class Remark(NamedTuple):
    """A warning about a step: a code of `fleethook.engines.overrider.rules.finding.MEANINGS`, and its text."""

    code: str
    text: str


class Step(NamedTuple):
    """One item or patch."""

    field: str
    """The path of the step in the overrider, such as ``entries[0].items[1]``."""
    run: Callable[[JSONObject], JSONObject]
    """Returns the workload with the step applied, the same object if nothing changes; raises RenderError."""
    no_effect: str
    """The text if the step changes nothing, ``""`` for a step that has an effect beyond changes."""
    container: str = ""
    """The container that an item changes, ``""`` for other steps."""
    path: str = ""
    """The path of a patch; ``/spec/replicas`` for an item that sets or leaves replicas."""
    adds: bool = False
    """Whether the step is a patch with the operation ``add``."""
    leaves: bool = False
    """Whether the step leaves the replicas of existing workloads to another owner."""

    @property
    def no_effect_remark(self) -> Remark:
        """The remark if the step changes nothing, with the path of the step."""
        return Remark("no-effect", f"{self.field}: {self.no_effect}")


def compile_steps(entries: JSON, pool: str, *, applying: Sequence[int]) -> tuple[Step, ...]:
    """Return the steps of the entries that apply to ``pool``, in order.

    The pool's name replaces ``{{nodepool}}`` in items, patch values and patch paths (OpenYurt: in values only).

    Args:
        entries: The overrider's entries.
        pool: The pool's name.
        applying: The numbers of the entries that apply.

    Raises:
        RenderError: A patch fits no workload, because of a bad pointer, an unknown operation or a missing value. Or
            more patches apply than `fleethook.engines.overrider.entries.patch_paths_and_protected_fields` allows.
    """
    listed = as_list(entries)
    chosen = [(f"entries[{number}]", as_object(listed[number])) for number in applying]
    _check_count(chosen, pool)
    return tuple(step for field, entry in chosen for step in _compile_entry(field, entry, pool))


def _check_count(entries: Iterable[tuple[str, Mapping[str, JSON]]], pool: str) -> None:
    """Raise RenderError if more patches apply to one pool than the limit allows."""
    count = 0
    for field, entry in entries:
        count += len(_read_list(entry, "patches", field))
        if count > LIMITS.operations:
            limit = LIMITS.operations
            raise RenderError(
                f"{field}.patches", f"more than {limit} patches apply to node pool {pool}, which is the limit"
            )


def _read_list(entry: Mapping[str, JSON], member: str, field: str) -> list[JSON]:
    """Return a list of an entry; raises RenderError if the value has another type."""
    value = entry.get(member) or []
    if not isinstance(value, list):
        raise RenderError(f"{field}.{member}", "must be a list")
    return value


def _compile_entry(field: str, entry: Mapping[str, JSON], pool: str) -> Iterator[Step]:
    for number, item in enumerate(_read_list(entry, "items", field)):
        effect = item_effect(as_object(fill_pool(item, pool)))
        if effect is not None:
            path, leaves = REPLICAS if "replicas" in item or effect.leaves_replicas else "", effect.leaves_replicas
            yield Step(
                f"{field}.items[{number}]", effect.apply, effect.no_effect, effect.container, path=path, leaves=leaves
            )
    for number, patch in enumerate(_read_list(entry, "patches", field)):
        yield _compile_patch(f"{field}.patches[{number}]", as_object(fill_pool(patch, pool)))


def fill_pool(value: JSON, pool: str, *, token: str = NODEPOOL_TOKEN) -> JSON:
    """Return a value with a pool's name in place of a token, also in names of members, as OpenYurt replaces text."""
    if isinstance(value, str):
        return value.replace(token, pool)
    if isinstance(value, dict):
        return {
            fill_pool(name, pool, token=token): fill_pool(inner, pool, token=token) for name, inner in value.items()
        }
    if isinstance(value, list):
        return [fill_pool(inner, pool, token=token) for inner in value]
    return value


def _compile_patch(field: str, patch: Mapping[str, JSON]) -> Step:
    operation, path = patch.get("operation"), patch.get("path", "")
    problem = _find_problem(operation, path, patch)
    if problem:
        raise RenderError(field, f"{operation} {path}: {problem}")

    def run(workload: JSONObject) -> JSONObject:
        try:
            return _run_patch(workload, str(operation), path, patch.get("value"))
        except PathError as error:
            hint = explain_missing(path) if operation != "add" else ""
            raise RenderError(field, f"{operation} {path}: {error}{hint and f'; {hint}'}") from None
        except PatchError as error:
            raise RenderError(field, f"{operation} {path}: {error.reason}") from None

    return Step(field, run, f"{operation} {path} changes nothing", path=path, adds=operation == "add")


def _find_problem(operation: JSON, path: JSON, patch: Mapping[str, JSON]) -> str:
    if operation not in _OPERATIONS:
        return f"op must be one of {', '.join(_OPERATIONS)}, not {operation!r}"
    if not isinstance(path, str):
        return "path is missing"
    try:
        parse_pointer(path)
    except ValueError as error:
        return str(error)
    return "value is missing" if operation != "remove" and "value" not in patch else ""


def _run_patch(workload: JSONObject, operation: str, path: str, value: JSON) -> JSONObject:
    if operation == "add" and value is not None and (parent := missing_parent(workload, path)) is not None:
        workload = apply(workload, [parent])
    target = find_target(workload, path, add=operation == "add")
    pointer = pointer_of(target)
    if operation == "remove":
        return _apply(workload, "remove", pointer)
    if value is None and not (target.last == END or target.last.isdecimal()):
        # Null means absent in the Kubernetes API.
        return _apply(workload, "remove", pointer) if operation == "replace" or _is_set(workload, pointer) else workload
    if target.filled:
        value = complete_element(value, target.filled)
        # `add` at an index would insert a second element before the existing one.
        operation = "add" if target.last == END else "replace"
    return _apply(workload, operation, pointer, value)


def _apply(workload: JSONObject, operation: str, pointer: str, value: JSON = None) -> JSONObject:
    patched: JSONObject = apply(workload, [{"op": operation, "path": pointer, "value": value}])
    return patched


def _is_set(workload: JSONObject, pointer: str) -> bool:
    try:
        resolve_pointer(workload, pointer)
    except LookupError:
        return False
    return True


class StepChange(NamedTuple):
    """A difference that a step made."""

    tokens: tuple[Token, ...]
    field: str
    """Path of the step in the overrider, such as ``entries[0].items[1]``."""
    before: JSON = None
    after: JSON = None

    def made(self, tokens: tuple[Token, ...]) -> bool:
        """Return whether the step changed the value at that path, or a value inside it.

        A step that replaces a list or object changes only the paths whose values differ afterwards.
        """
        shared = min(len(self.tokens), len(tokens))
        if self.tokens[:shared] != tokens[:shared]:
            return False
        schema, rest = schema_at(self.tokens), tokens[shared:]
        return not rest or not identical(value_at(self.before, rest, schema), value_at(self.after, rest, schema))


class Traced(NamedTuple):
    """The result of the steps of an overrider."""

    rendered: JSONObject
    sources: list[StepChange]
    """The differences with the steps that made them, in order."""
    remarks: list[Remark]
    """Remarks about steps that change nothing, or more than they name."""
    states: list[JSONObject]
    """The workload before the first step, and after each step."""


def run_traced(bare: JSONObject, steps: tuple[Step, ...]) -> Traced:
    """Return the result of the steps, and the differences that each made; raises RenderError."""
    sources: list[StepChange] = []
    remarks: list[Remark] = []
    states = [before := bare]
    for step in steps:
        after: JSONObject = merge_repeated(before, step.run(before), WORKLOAD)
        changes = [] if after is before else list(leaves(delta_of(before, after, WORKLOAD)))
        sources += [StepChange(leaf.tokens, step.field, leaf.before, leaf.after) for leaf in changes]
        if not changes and step.path == REPLICAS:
            sources.append(StepChange(("spec", "replicas"), step.field))
        if (lost := _find_lost_keys(before, after, step)) and changes:
            kept = f"to keep them, write add {step.path}/KEY for each key"
            text = f"{step.field}: add {step.path} replaces all of them and removes {', '.join(lost)}: {kept}"
            remarks.append(Remark("removed-keys", text))
        if not changes and step.no_effect and not (step.container and step.container not in container_names(before)):
            remarks.append(step.no_effect_remark)
        states.append(before := after)
    return Traced(_keep_bookkeeping(bare, before), sources, remarks, states)


def _find_lost_keys(before: JSONObject, after: JSONObject, step: Step) -> list[str]:
    """Return the labels, annotations or keys of a node selector that a patch with ``add`` removes."""
    place = tuple(step.path.split("/")[1:])
    if not step.adds or place not in (*METADATA_MAPS, _NODE_SELECTOR):
        return []
    known, now = (value_at(one, place, WORKLOAD) for one in (before, after))
    lost = as_object(known).keys() - as_object(now).keys()
    # `_keep_bookkeeping` restores those of OpenYurt.
    return sorted(key for key in lost if not key.startswith(f"{GROUP}/"))


def _keep_bookkeeping(bare: JSONObject, rendered: JSONObject) -> JSONObject:
    """Return ``rendered`` with the annotations of OpenYurt's controllers that it lost.

    ``add /metadata/annotations {a: b}`` replaces all annotations. Its author means those of the template, not those by
    which OpenYurt finds and compares its workloads.
    """
    annotations, known = (as_object(one["metadata"].get("annotations")) for one in (rendered, bare))
    lost = {name: known[name] for name in known if name.startswith(f"{GROUP}/") and name not in annotations}
    if not lost:
        return rendered
    return {**rendered, "metadata": {**rendered["metadata"], "annotations": {**annotations, **lost}}}


def warn_about_unknown_containers(bare: JSONObject, steps: tuple[Step, ...]) -> tuple[str, ...]:
    """Return a warning for each item of a container that the bare workload does not have."""
    known = container_names(bare)
    return tuple(
        f"{step.field}: no container is named '{step.container}'; there are {', '.join(known) or 'none'}"
        for step in steps
        if step.container and step.container not in known
    )
