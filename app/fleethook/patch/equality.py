"""Compares JSON values: by type and value (`identical`), or as RFC 6902 does (`equal`)."""

from typing import Final

from fleethook.model.json import JSON, JSONObject

_MISSING: Final = object()


def identical(left: JSON, right: JSON) -> bool:
    """Return whether both values have the same JSON text: ``1``, ``1.0`` and ``true`` all differ."""
    if left is right:
        return True
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return len(left) == len(right) and _same_members(left, right)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(identical, left, right))
    return bool(left == right)


def _same_members(left: JSONObject, right: JSONObject) -> bool:
    # This is the inner loop of every diff, and the generator of all() costs more than the comparison.
    for name, value in left.items():  # noqa: SIM110
        if not identical(value, right.get(name, _MISSING)):
            return False
    return True


def equal(left: JSON, right: JSON) -> bool:
    """Return whether both values are equal by RFC 6902 section 4.6: numbers by value, and true is not a number."""
    if left is right:
        return True
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return len(left) == len(right) and all(
            name in right and equal(value, right[name]) for name, value in left.items()
        )
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(equal, left, right))
    return bool(left == right)
