"""Members of a workload that no override may set, change or remove."""

from collections.abc import Iterator
from typing import Final

from app.model.json import JSON
from app.model.openyurt import GROUP, POOL_NAME_LABEL
from app.overrider.undo import RESERVED_PREFIX
from app.patch import format_pointer

# The first tokens of a pointer that no override may write to; a pointer to something that contains one is refused too.
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
# These contain protected members and others; the dry run of the rendering finds a change of a protected one.
_DRY_RUN: Final = frozenset(
    {("metadata", "labels"), ("spec", "template")}
    | {("spec", "template", "metadata")}
    | {("spec", "template", "metadata", "labels")}
)
# Maps with keys of fleethook (the memory of the last rendering is in annotations) and of OpenYurt's controllers.
_KEYED: Final[tuple[tuple[str, ...], ...]] = (
    ("metadata", "annotations"),
    ("metadata", "labels"),
    ("spec", "template", "metadata", "annotations"),
    ("spec", "template", "metadata", "labels"),
)


def key_owner(key: str) -> str:
    """Return who alone writes a label or annotation, ``""`` if overrides may."""
    if key.startswith(RESERVED_PREFIX):
        return "fleethook"
    return "OpenYurt" if key.startswith(f"{GROUP}/") else ""


def protected_pointer(tokens: tuple[str, ...], value: JSON) -> str | None:
    """Return the pointer of the protected member that a patch at ``tokens`` would write, or None.

    Args:
        tokens: The patch's path.
        value: The patch's value; what it puts into a map of labels or annotations counts, too.
    """
    for key in _owned_keys(tokens, value):
        return format_pointer(key)
    if tokens in _DRY_RUN:
        return None
    for protected in _PROTECTED:
        shared = min(len(tokens), len(protected))
        if tokens[:shared] == protected[:shared]:
            return format_pointer(protected)
    return None


def _owned_keys(tokens: tuple[str, ...], value: JSON) -> Iterator[tuple[str, ...]]:
    for place in _KEYED:
        if len(tokens) > len(place) and tokens[: len(place)] == place and key_owner(tokens[len(place)]):
            yield (*place, tokens[len(place)])
        elif len(tokens) <= len(place) and place[: len(tokens)] == tokens:
            inner = value
            for member in place[len(tokens) :]:
                inner = inner.get(member) if isinstance(inner, dict) else None
            # OpenYurt's keys in a whole map are left to the dry run: with their own values they change nothing.
            keys = inner if isinstance(inner, dict) else ()
            yield from ((*place, key) for key in keys if key.startswith(RESERVED_PREFIX))
