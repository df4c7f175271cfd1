"""Patches a workload after an edit of single values of its overrider, without rendering it.

Most edits of an overrider change only values that replace values of the template, such as images. A workload that the
former overrider rendered then differs from its new render in these values only, so their operations are the patch.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from app.model.json import JSON, JSONObject
from app.overrider.delta import MISSING, Assign, Change, ListDelta, ObjectDelta
from app.overrider.pool_mark import PoolValues
from app.overrider.template_match import Path, value_of
from app.patch import format_pointer

_SCALARS: Final = (str, int, float, bool)


class EditedValue(NamedTuple):
    """A value that replaces a value of the template with the same type."""

    path: Path
    """The path in the rendered workload, with the indexes of list elements."""
    pointer: str
    value: JSON
    """The value, with marks in place of the values of a pool."""


def find_edited_values(delta: ObjectDelta) -> tuple[EditedValue, ...]:
    """Return the values of a difference that replace values of the template.

    Args:
        delta: The difference between the template's workload and the rendered one; no list in it is reordered.
    """
    return tuple(_find(delta, ()))


def _find(change: Change, path: Path) -> Iterator[EditedValue]:
    if type(change) is ObjectDelta:
        for name, inner in change.members:
            yield from _find(inner, (*path, name))
    elif type(change) is ListDelta:
        for one in change.elements:
            if one.before_at is not None and one.after_at is not None:
                yield from _find(one.change, (*path, one.after_at))
    elif type(change) is Assign and change.before is not MISSING and is_replaceable(change.before, change.after):
        yield EditedValue(path, format_pointer(list(map(str, path))), change.after)


def is_replaceable(present: JSON, value: JSON) -> bool:
    """Return whether both are scalars or lists of strings, which have a single owner."""
    if type(present) is not type(value):
        return False
    if type(value) is list:
        return all(type(one) is str for one in (*present, *value))
    return type(value) in _SCALARS


def set_values(
    workload: JSONObject, edited: Sequence[EditedValue], values: PoolValues
) -> tuple[JSONObject, list[JSONObject]] | None:
    """Return a workload with these values, and the operations that set them; None if it lacks one of their members.

    Args:
        workload: The workload. It is not modified.
        edited: The values.
        values: The values of the workload's pool.
    """
    operations: list[JSONObject] = []
    for path, pointer, marked in edited:
        value = values.fill(marked)
        try:
            present = value_of(workload, path)
        except (KeyError, IndexError, TypeError):
            return None
        if not is_replaceable(present, value):
            return None
        if present != value:
            workload = _replace_value(workload, path, value)
            operations.append({"op": "replace", "path": pointer, "value": value})
    return workload, operations


def _replace_value(document: JSON, path: Path, value: JSON) -> JSON:
    """Return a copy of ``document`` with another value at a path that it has."""
    if not path:
        return value
    copied = document.copy()
    copied[path[0]] = _replace_value(document[path[0]], path[1:], value)
    return copied
