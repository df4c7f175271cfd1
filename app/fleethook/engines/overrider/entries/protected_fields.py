"""Fields of a workload that no override may set, change or remove."""

from collections.abc import Iterator, Mapping
from typing import Final

from fleethook.engines.overrider.render.undo import RESERVED_PREFIX
from fleethook.model.json import JSON, JSONObject, as_object
from fleethook.model.openyurt import GROUP, POOL_NAME_LABEL
from fleethook.patch import format_pointer

# Pointers of fields that no override may write. Patches of a parent of such a field are refused, too.
_PROTECTED: Final[tuple[tuple[str, ...], ...]] = (
    ("apiVersion",),
    ("kind",),
    ("status",),
    ("spec", "selector"),
    ("metadata", "name"),
    ("metadata", "generateName"),
    ("metadata", "namespace"),
    ("metadata", "uid"),
    ("metadata", "resourceVersion"),
    ("metadata", "generation"),
    ("metadata", "creationTimestamp"),
    ("metadata", "deletionTimestamp"),
    ("metadata", "finalizers"),
    ("metadata", "managedFields"),
    ("metadata", "ownerReferences"),
    ("metadata", "labels", POOL_NAME_LABEL),
    ("spec", "template", "metadata", "labels", POOL_NAME_LABEL),
)
# These contain protected and other fields. A patch of them is allowed; `protected_change` compares the result.
_CHECKED_LATER: Final = frozenset(
    {("metadata", "labels"), ("spec", "template")}
    | {("spec", "template", "metadata")}
    | {("spec", "template", "metadata", "labels")}
)
_POD_LABELS: Final = ("spec", "template", "metadata", "labels")
METADATA_MAPS: Final[tuple[tuple[str, ...], ...]] = (
    ("metadata", "labels"),
    ("metadata", "annotations"),
    _POD_LABELS,
    ("spec", "template", "metadata", "annotations"),
)
"""Maps with keys of fleethook (the undo of the last render is an annotation) and of OpenYurt's controllers."""
_IDENTITY: Final = ("name", "generateName", "namespace", "uid", "ownerReferences", "finalizers", "deletionTimestamp")
_MISSING: Final = object()


def key_owner(key: str) -> str:
    """Return the only writer of a label or annotation, ``""`` if overrides may write it."""
    if key.startswith(RESERVED_PREFIX):
        return "fleethook"
    return "OpenYurt" if key.startswith(f"{GROUP}/") else ""


def protected_pointer(tokens: tuple[str, ...], value: JSON) -> str | None:
    """Return the pointer of the protected field that a patch at ``tokens`` would write, or None.

    Args:
        tokens: The patch's path.
        value: The patch's value; its keys count if the patch sets a map of labels or annotations.
    """
    for key in _find_owned_keys(tokens, value):
        return format_pointer(key)
    if tokens in _CHECKED_LATER:
        return None
    for protected in _PROTECTED:
        shared = min(len(tokens), len(protected))
        if tokens[:shared] == protected[:shared]:
            return format_pointer(protected)
    return None


def _find_owned_keys(tokens: tuple[str, ...], value: JSON) -> Iterator[tuple[str, ...]]:
    for place in METADATA_MAPS:
        if len(tokens) > len(place) and tokens[: len(place)] == place and key_owner(tokens[len(place)]):
            yield (*place, tokens[len(place)])
        elif len(tokens) <= len(place) and place[: len(tokens)] == tokens:
            inner = value
            for member in place[len(tokens) :]:
                inner = inner.get(member) if isinstance(inner, dict) else None
            # A patch of the map may repeat OpenYurt's keys with their values, so `protected_change` checks those.
            keys = inner if isinstance(inner, dict) else ()
            yield from ((*place, key) for key in keys if key.startswith(RESERVED_PREFIX))


def protected_change(before: JSONObject, after: JSONObject) -> str | None:
    """Return the pointer of the first protected member that differs, or None.

    Protected members identify the workload and its owner, select its pods, or are labels and annotations of OpenYurt's
    controllers. The author of an overrider must not be able to take a workload away from its owner.
    """
    for name in _IDENTITY:
        if before["metadata"].get(name, _MISSING) != after["metadata"].get(name, _MISSING):
            return f"/metadata/{name}"
    for name in ("apiVersion", "kind", "status"):
        if before.get(name, _MISSING) != after.get(name, _MISSING):
            return f"/{name}"
    if before["spec"].get("selector") != after["spec"].get("selector"):
        return "/spec/selector"
    selected = as_object(as_object(before["spec"].get("selector")).get("matchLabels"))
    for place in METADATA_MAPS:
        known, now = (_map_at(document, place) for document in (before, after))
        for key in (*known.keys(), *(now.keys() - known.keys())):
            owned = key.startswith(f"{GROUP}/") or (place == _POD_LABELS and key in selected)
            if owned and known.get(key) != now.get(key):
                return format_pointer((*place, key))
    return None


def find_reserved_keys(rendered: JSONObject) -> Iterator[str]:
    """Yield the pointers of fleethook's labels and annotations in a workload."""
    for place in METADATA_MAPS:
        for key in _map_at(rendered, place):
            if key.startswith(RESERVED_PREFIX):
                yield format_pointer((*place, key))


def _map_at(document: JSONObject, place: tuple[str, ...]) -> Mapping[str, JSON]:
    found: Mapping[str, JSON] = document
    for token in place:
        found = as_object(found.get(token))
    return found
