"""Finds the values of an entry that often differ between node pools, while the rest of the entry is the same.

Rendering copies these values without inspecting them: images, replicas, arguments, and the values of environment
variables, labels, annotations and node selectors. An item or a patch sets them.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

from fleethook.engines.overrider.entries.value_marks import SMALLEST_MARK
from fleethook.model.formats.names import label_value_problem
from fleethook.model.json import JSON, JSONObject, as_object
from fleethook.model.openyurt import NODEPOOL_TOKEN

Change = Callable[[str | int], str | int]

# Values of these characters need no escaping in JSON, so they can replace a mark inside a JSON text.
_CLAIM: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]*")
_TEXT: Final = re.compile(r"[A-Za-z0-9 !#$%&()*+,./:;<=>?@^_|~-]+")
# The paths of patches that set such values.
_TEXT_PATH: Final = re.compile(
    r".*/(env/[^/]+/value|args/[^/]+|(annotations|labels|nodeSelector)/[^/]+|(containers|initContainers)/[^/]+/image)"
)
_LABEL_PATH: Final = re.compile(r".*/(labels|nodeSelector)/[^/]+")


def map_values(entry: Mapping[str, JSON], change: Change) -> JSONObject:
    """Return an entry with other values.

    Args:
        entry: The entry, which may have any shape.
        change: Called with each value, always in the same order. Returns its replacement.
    """
    made = dict(entry)
    if isinstance(entry.get("items"), list):
        made["items"] = [_map_item(item, change) for item in entry["items"]]
    if isinstance(entry.get("patches"), list):
        made["patches"] = [_map_patch(patch, change) for patch in entry["patches"]]
    return made


def _map_item(item: JSON, change: Change) -> JSON:
    if not isinstance(item, dict):
        return item
    return {name: _MAPPED[name](value, change) if name in _MAPPED else value for name, value in item.items()}


def _map_patch(patch: JSON, change: Change) -> JSON:
    path = as_object(patch).get("path")
    if not isinstance(path, str) or "value" not in patch or _TEXT_PATH.fullmatch(path) is None:
        return patch
    # A mark would hide a value that kube-apiserver refuses from the check of the rendered workload.
    if _LABEL_PATH.fullmatch(path) and not _is_label_value(patch["value"]):
        return patch
    return {**patch, "value": _map_text(patch["value"], change)}


def _is_label_value(value: JSON) -> bool:
    return isinstance(value, str) and label_value_problem(value) is None


def _map_image(value: JSON, change: Change) -> JSON:
    claim = as_object(value).get("imageClaim")
    if not isinstance(claim, str) or _CLAIM.fullmatch(claim.replace(NODEPOOL_TOKEN, "x")) is None:
        return value
    return {**value, "imageClaim": change(claim)}


def _map_replicas(value: JSON, change: Change) -> JSON:
    return change(value) if type(value) is int and 0 <= value < SMALLEST_MARK else value


def _map_env(value: JSON, change: Change) -> JSON:
    variables = as_object(value).get("env")
    if not isinstance(variables, list):
        return value
    made = [
        {**one, "value": _map_text(one["value"], change)} if isinstance(one, dict) and "value" in one else one
        for one in variables
    ]
    return {**value, "env": made}


def _map_args(value: JSON, change: Change) -> JSON:
    args = as_object(value).get("args")
    return {**value, "args": [_map_text(one, change) for one in args]} if isinstance(args, list) else value


def _map_annotations(value: JSON, change: Change) -> JSON:
    return {name: _map_text(one, change) for name, one in value.items()} if isinstance(value, dict) else value


def _map_labels(value: JSON, change: Change) -> JSON:
    if not isinstance(value, dict):
        return value
    return {name: _map_text(one, change) if _is_label_value(one) else one for name, one in value.items()}


def _map_text(value: JSON, change: Change) -> JSON:
    if not isinstance(value, str) or _TEXT.fullmatch(value.replace(NODEPOOL_TOKEN, "x")) is None:
        return value
    return change(value)


_MAPPED: Final[Mapping[str, Callable[[JSON, Change], JSON]]] = {
    "image": _map_image,
    "replicas": _map_replicas,
    "initialReplicas": _map_replicas,
    "env": _map_env,
    "args": _map_args,
    "annotations": _map_annotations,
    "labels": _map_labels,
    "nodeSelector": _map_labels,
}
