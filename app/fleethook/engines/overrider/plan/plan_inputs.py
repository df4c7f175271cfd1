"""Compares the inputs of plans: subjects, overriders and NodePools."""

from typing import Final

from fleethook.model.json import JSON, JSONObject

_NOT_INPUT: Final = frozenset({"metadata", "status"})


def same_input(known: JSONObject | None, now: JSONObject | None) -> bool:
    """Return whether two versions of a subject, overrider or NodePool are equal, apart from status."""
    if known is now:
        return True
    if known is None or now is None or get_identity(known) != get_identity(now):
        return False
    return all(known.get(name) == now.get(name) for name in (known.keys() | now.keys()) - _NOT_INPUT)


def get_identity(document: JSONObject) -> tuple[JSON, ...]:
    """Return the members of an input's metadata that a plan may depend on."""
    metadata = document["metadata"]
    return tuple(metadata.get(name) for name in ("name", "namespace", "uid", "labels", "annotations"))
