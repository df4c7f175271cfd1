"""Fields of a workload that no override may set, change or remove."""

from collections.abc import Iterator
from typing import Final

from app.model.json import JSON
from app.model.openyurt import GROUP, POOL_NAME_LABEL
from app.overrider.undo import RESERVED_PREFIX
from app.patch import format_pointer

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
# Maps with keys of fleethook (the undo of the last render is an annotation) and of OpenYurt's controllers.
_MAPS: Final[tuple[tuple[str, ...], ...]] = (
    ("metadata", "annotations"),
    ("metadata", "labels"),
    ("spec", "template", "metadata", "annotations"),
    ("spec", "template", "metadata", "labels"),
)


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
    for place in _MAPS:
        if len(tokens) > len(place) and tokens[: len(place)] == place and key_owner(tokens[len(place)]):
            yield (*place, tokens[len(place)])
        elif len(tokens) <= len(place) and place[: len(tokens)] == tokens:
            inner = value
            for member in place[len(tokens) :]:
                inner = inner.get(member) if isinstance(inner, dict) else None
            # A patch of the map may repeat OpenYurt's keys with their values, so `protected_change` checks those.
            keys = inner if isinstance(inner, dict) else ()
            yield from ((*place, key) for key in keys if key.startswith(RESERVED_PREFIX))
