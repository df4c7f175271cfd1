"""Applies items: overrides of common fields that need no JSON pointer.

``image`` and ``replicas`` come from OpenYurt (v1.5, docs/proposals/20230706-yurtappoverrider.md). The other items have
the names and shapes of the Kubernetes API. An item for a container has ``containerName`` and a field of the container,
and applies to containers and init containers of that name. ``labels`` and ``annotations`` change the pod template.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from fleethook.engines.overrider.render.overlay import overlay
from fleethook.model.json import JSON, JSONObject, as_object
from fleethook.model.merge_keys import WORKLOAD, MergeSchema

REPLICAS: Final = "replicas"
"""The only field that an item can leave to another owner."""
CONTAINER_LISTS: Final = ("containers", "initContainers")
_POD_SPEC: Final = WORKLOAD.fields["spec"].fields["template"].fields["spec"]
_CONTAINER: Final = _POD_SPEC.fields["containers"]
_NO_SCHEMA: Final = MergeSchema()

Apply = Callable[[JSONObject], JSONObject]


class ItemEffect(NamedTuple):
    """The effect of an item."""

    apply: Apply
    """Returns the workload with the item applied, or the same workload if nothing changes."""
    container: str
    """The name of the container that the item changes, ``""`` for an item of the pod or workload."""
    idle: str
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
    # Without an image, a container is invalid. The rules for items report a missing claim.
    wanted = {"image": claim} if claim else {}
    return _make_container_effect(name, wanted, f"container {name} has image {claim} already")


def _make_container_maker(member: str) -> Callable[[JSON], ItemEffect]:
    def make(value: JSON) -> ItemEffect:
        name = str(as_object(value).get("containerName", ""))
        wanted = {member: as_object(value).get(member)}
        return _make_container_effect(name, wanted, f"container {name} has these {member} already")

    return make


def _make_args(value: JSON) -> ItemEffect:
    name, args = str(as_object(value).get("containerName", "")), as_object(value).get("args")

    def apply(workload: JSONObject) -> JSONObject:
        return _change_containers(
            workload, name, lambda element: element if element.get("args") == args else {**element, "args": args}
        )

    return ItemEffect(apply, name, f"container {name} has these args already")


def _make_container_effect(name: str, wanted: JSONObject, idle: str) -> ItemEffect:
    def apply(workload: JSONObject) -> JSONObject:
        return _change_containers(workload, name, lambda element: merge_desired(element, wanted, _CONTAINER))

    return ItemEffect(apply, name, idle)


def _make_leave(value: JSON) -> ItemEffect:
    return ItemEffect(lambda workload: workload, "", "", leaves_replicas=isinstance(value, list) and REPLICAS in value)


def _make_replicas(value: JSON) -> ItemEffect:
    def apply(workload: JSONObject) -> JSONObject:
        present = workload["spec"].get("replicas")
        # In Python, True equals 1.
        if present == value and type(present) is type(value):
            return workload
        return {**workload, "spec": {**workload["spec"], "replicas": value}}

    return ItemEffect(apply, "", f"replicas is {value} already")


def _make_pod_maker(
    member: str, *, part: str = "spec", schema: MergeSchema = _POD_SPEC
) -> Callable[[JSON], ItemEffect]:
    """Return the maker of an effect on a member of the pod template's spec or metadata."""

    def make(value: JSON) -> ItemEffect:
        def apply(workload: JSONObject) -> JSONObject:
            return _change_pod(workload, part, lambda before: merge_desired(before, {member: value}, schema))

        return ItemEffect(apply, "", f"the pod has these {member} already")

    return make


_EFFECTS: Final[dict[str, Callable[[JSON], ItemEffect]]] = {
    "image": _make_image,
    "replicas": _make_replicas,
    "initialReplicas": lambda value: _make_replicas(value)._replace(idle="", leaves_replicas=True),
    "leave": _make_leave,
    "env": _make_container_maker("env"),
    "args": _make_args,
    "resources": _make_container_maker("resources"),
    "volumeMounts": _make_container_maker("volumeMounts"),
    "volumes": _make_pod_maker("volumes"),
    "nodeSelector": _make_pod_maker("nodeSelector"),
    "tolerations": _make_pod_maker("tolerations"),
    "annotations": _make_pod_maker("annotations", part="metadata", schema=_NO_SCHEMA),
    "labels": _make_pod_maker("labels", part="metadata", schema=_NO_SCHEMA),
}
ITEMS: Final = tuple(_EFFECTS)
"""The members that an item may have. Each item has one of them."""


def merge_desired(current: JSONObject, desired: JSONObject, schema: MergeSchema) -> JSONObject:
    """Return ``current`` with ``desired`` merged into it: objects by member, lists by element. Null unsets a member."""
    merged: JSONObject = overlay(current, desired, schema)
    kept: JSONObject = _drop_nulls(current, merged, desired)
    return kept


def _drop_nulls(before: JSON, merged: JSON, desired: JSON) -> JSON:
    """Return ``merged`` without the nulls of ``desired``, and without objects that only had such nulls."""
    if not isinstance(desired, dict) or not isinstance(merged, dict):
        return merged
    known = as_object(before)
    made: JSONObject = {}
    for name, value in merged.items():
        kept = _drop_nulls(known.get(name), value, desired[name]) if name in desired else value
        if kept is not None and not (kept == {} and name not in known and desired[name] != {}):
            made[name] = kept
    same = len(made) == len(known) and all(known.get(name) is value for name, value in made.items())
    return before if same and isinstance(before, dict) else made


def _change_containers(workload: JSONObject, name: str, change: Apply) -> JSONObject:
    def in_spec(spec: JSONObject) -> JSONObject:
        changed: JSONObject = {}
        for member in CONTAINER_LISTS:
            elements = spec.get(member)
            if not isinstance(elements, list):
                continue
            made = [change(element) if _is_named(element, name) else element for element in elements]
            if any(left is not right for left, right in zip(made, elements, strict=True)):
                changed[member] = made
        return {**spec, **changed} if changed else spec

    return _change_pod(workload, "spec", in_spec)


def _is_named(element: JSON, name: str) -> bool:
    return isinstance(element, dict) and element.get("name") == name


def _change_pod(workload: JSONObject, part: str, change: Apply) -> JSONObject:
    """Return ``workload`` with its pod template's spec or metadata changed, or itself if nothing changes."""
    template = workload["spec"].get("template")
    if not isinstance(template, dict):
        return workload
    present = template.get(part)
    before: JSONObject = present if isinstance(present, dict) else {}
    after = change(before)
    if after is before or after == before:
        return workload
    return {**workload, "spec": {**workload["spec"], "template": {**template, part: after}}}


def container_names(workload: JSONObject) -> list[str]:
    """Return the names of the workload's containers and init containers."""
    pod_spec = as_object(as_object(workload["spec"].get("template")).get("spec"))
    lists = (pod_spec.get(member) for member in CONTAINER_LISTS)
    return [str(element.get("name")) for elements in lists for element in elements or () if isinstance(element, dict)]
