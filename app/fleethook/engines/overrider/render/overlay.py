"""Merges desired members into an object that also has members of other clients.

An overlay is like a strategic merge patch without deletions, with three differences that rendering needs:

- Every present element keeps its place, so templates and overriders do not move elements of other webhooks.
- Missing members of the desired object never delete anything.
- A member that excludes another one, such as a second volume source or probe handler, replaces it.

`matches` checks whether an overlay would change nothing, without building the merged object.
"""

from collections.abc import Mapping
from typing import Final

from fleethook.engines.overrider.entries.value_marks import PoolValues
from fleethook.engines.overrider.render.keyed_elements import Identity, index_elements, merge_elements
from fleethook.engines.overrider.schema.violations import load_choices
from fleethook.model.json import JSON, JSONObject
from fleethook.model.merge_keys import MergeSchema

_NO_SCHEMA: Final = MergeSchema()
_MISSING: Final = object()

# The retain_keys of their schema cover volumes, resource claims and strategies.
_BY_NAME: Final = (
    "core.v1.Probe",
    "core.v1.LifecycleHandler",
    "core.v1.EnvVar",
    "core.v1.EnvVarSource",
    "core.v1.VolumeMount",
)


def _collect_exclusive() -> Mapping[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    for struct in _BY_NAME:
        members = load_choices()[struct].members
        found |= {name: members | found.get(name, frozenset()) for name in members}
    return found


EXCLUSIVE: Final = _collect_exclusive()
"""The members of a choice by each of them."""


DEFAULT_STRATEGY: Final = "RollingUpdate"
"""The default type of strategies and update strategies."""


def overlay(current: JSON, named: JSON, schema: MergeSchema) -> JSON:
    """Return ``current`` with all members of ``named`` set.

    Args:
        current: A stored object or a part of it. It is not modified.
        named: The desired members of this part.
        schema: The merge schema of this part.

    Returns:
        ``current`` itself if nothing differs. Otherwise the result shares unchanged branches with ``current``.
    """
    if type(named) is dict and type(current) is dict:
        return overlay_object(current, named, schema)
    if type(named) is list and type(current) is list:
        return _overlay_list(current, named, schema)
    return current if current == named else named


def overlay_object(current: JSONObject, named: JSONObject, schema: MergeSchema) -> JSONObject:
    """Return the result of `overlay` for two objects."""
    result: JSONObject | None = None
    fields = schema.fields
    for name, value in named.items():
        present = current.get(name, _MISSING)
        # `==` compares equal branches in C, and most branches are equal. In Python 1 equals 1.0 and True, but a field
        # of the API has one type, so these never meet.
        if present == value:
            continue
        if type(value) is dict or type(value) is list:
            new = value if present is _MISSING else overlay(present, value, fields.get(name, _NO_SCHEMA))
        else:
            new = value
        if new is not present:
            if result is None:
                result = dict(current)
            if present is _MISSING and name in EXCLUSIVE:
                _make_room(result, EXCLUSIVE[name])
            result[name] = new
    if result is None:
        return current
    if schema.retain_keys and chooses_anew(current, named, schema):
        return {name: value for name, value in result.items() if name in named}
    return result


def chooses_anew(current: JSONObject, named: JSONObject, schema: MergeSchema) -> bool:
    """Return whether ``named`` chooses another member of a union, which removes the members of the former choice.

    If the choice is the same, members that an apiserver defaulted stay.

    Args:
        current: The union as it is.
        named: The wanted union.
        schema: Its schema. An element of a list chooses by its members, a strategy by its type.
    """
    if schema.identity:
        chosen, wanted = (set(one) - {member for member, _ in schema.identity} for one in (current, named))
        return not wanted <= chosen
    return bool(current.get("type", DEFAULT_STRATEGY) != named.get("type", DEFAULT_STRATEGY))


def _make_room(target: JSONObject, group: frozenset[str]) -> None:
    for other in group:
        target.pop(other, None)


def _overlay_list(current: list[JSON], named: list[JSON], schema: MergeSchema) -> list[JSON]:
    wanted = index_elements(named, schema)
    present = None if wanted is None else index_elements(current, schema)
    if wanted is not None and present is not None:
        return _overlay_elements(current, present, wanted, schema)
    if len(current) == len(named) and all(map(covers, current, named)):
        return current
    return named


def _overlay_elements(
    current: list[JSON],
    present: dict[Identity, JSONObject],
    wanted: dict[Identity, JSONObject],
    schema: MergeSchema,
) -> list[JSON]:
    merged = dict(present)
    for identity, element in wanted.items():
        before = present.get(identity)
        if before is None:
            merged[identity] = element
        elif before != element:
            merged[identity] = overlay_object(before, element, schema)
    return merge_elements(current, present, merged, list(wanted))


def covers(current: JSON, named: JSON) -> bool:
    """Return whether ``current`` equals ``named``, except for members that the apiserver may have defaulted."""
    if current == named:
        return True
    if type(named) is dict:
        return type(current) is dict and all(
            name in current and covers(current[name], value) for name, value in named.items()
        )
    if type(named) is list:
        return type(current) is list and len(current) == len(named) and all(map(covers, current, named))
    return False


# The defaults of kube-apiserver in the elements of atomic lists: fieldRef, resourceFieldRef, serviceAccountToken, HTTP
# headers.
_DEFAULTS_IN_LISTS: Final[Mapping[str, JSON]] = {
    "apiVersion": "v1", "divisor": "0", "expirationSeconds": 3600, "value": ""
}  # fmt: skip


def differs_by_defaults(current: JSON, named: JSON) -> bool:
    """Return whether ``current``, an element of an atomic list, equals ``named`` except for defaults."""
    if current == named:
        return True
    if type(named) is dict:
        return (
            type(current) is dict
            and named.keys() <= current.keys()
            and all(
                differs_by_defaults(value, named[name]) if name in named else _DEFAULTS_IN_LISTS.get(name) == value
                for name, value in current.items()
            )
        )
    if type(named) is list:
        return type(current) is list and len(current) == len(named) and all(map(differs_by_defaults, current, named))
    return False


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
