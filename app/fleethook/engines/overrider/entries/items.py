"""Applies items: overrides of the image and the replicas, which need no JSON pointer.

``image`` and ``replicas`` come from OpenYurt (v1.5, docs/proposals/20230706-yurtappoverrider.md). ``initialReplicas``
and ``leave`` leave the replicas to another owner. All other fields are changed by patches.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from fleethook.model.json import JSON, JSONObject, as_object

REPLICAS: Final = "replicas"
"""The only field that an item can leave to another owner."""
CONTAINER_LISTS: Final = ("containers", "initContainers")

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
    return ItemEffect(lambda workload: workload, "", "", leaves_replicas=isinstance(value, list) and REPLICAS in value)


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
        made = [
            {**one, "image": claim} if _is_named(one, name) and one.get("image") != claim else one for one in elements
        ]
        if any(left is not right for left, right in zip(made, elements, strict=True)):
            changed[member] = made
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
