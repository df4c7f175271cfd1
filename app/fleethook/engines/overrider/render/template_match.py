"""Checks whether a workload already matches its template, without building the merged object as `overlay` does.

Most reviews need this check, and most workloads match: OpenYurt's controller writes them from the same template. The
check may fail although `overlay` would change nothing, but it never succeeds if `overlay` would change something. It
reads the document of the template. Compiled checks were no faster, and took ten times the memory of the template.
"""

from fleethook.engines.overrider.entries.value_marks import PoolValues
from fleethook.model.json import JSON, JSONObject

Path = tuple[str | int, ...]


def matches(current: JSON, named: JSONObject, values: PoolValues) -> bool:
    """Return whether ``current`` has all members of ``named`` with the same values. It may have others.

    Args:
        current: A workload, or any other value.
        named: The desired object, with or without marks.
        values: The values of the workload's node pool.
    """
    return type(current) is dict and _matches_object(current, named, values)


def _matches_object(current: JSONObject, named: JSONObject, values: PoolValues) -> bool:
    for name, value in named.items():
        if name not in current:
            return False
        present = current[name]
        # `!=` compares in C first. It ends at once if the apiserver added defaults.
        if present != value:
            if type(value) is dict:
                if type(present) is not dict or not _matches_object(present, value, values):
                    return False
            elif not _matches_value(present, value, values):
                return False
    return True


def _matches_value(present: JSON, value: JSON, values: PoolValues) -> bool:
    if type(value) is dict:
        return type(present) is dict and _matches_object(present, value, values)
    if type(value) is list:
        return type(present) is list and _matches_list(present, value, values)
    filled: JSON = values.fill_text(value) if type(value) is str else None
    if type(value) is int:
        filled = values.fill_number(value)
    return filled is not None and type(present) is type(filled) and bool(present == filled)


def _matches_list(current: list[JSON], named: list[JSON], values: PoolValues) -> bool:
    """Compare lists by index. A longer list may have foreign elements, which only `overlay` matches by merge key."""
    if len(current) != len(named):
        return False
    for present, value in zip(current, named, strict=True):
        if present != value and not _matches_value(present, value, values):
            return False
    return True


def value_of(document: JSON, path: Path) -> JSON:
    """Return the value at a path; raises KeyError, IndexError or TypeError if there is none."""
    for token in path:
        document = document[token]
    return document
