"""Merges desired members into an object that also has members of other clients.

An overlay is like a strategic merge patch without deletions, with three differences that rendering needs:

- Every present element keeps its place, so templates and overriders do not move elements of other webhooks.
- Missing members of the desired object never delete anything.
- A member that excludes another one, such as a second volume source or probe handler, replaces it.

`matches` checks whether an overlay would change nothing, without building the merged object.

`settle` keeps the defaults and the order of a stored workload where a render lays a part of it anew. kube-apiserver
adds the same defaults to the same values again, so removing them would be a write without an effect.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from fleethook.engines.overrider.render.list_elements_and_order import Identity, index_elements, merge_elements
from fleethook.model.json import ABSENT, JSON, JSONObject, as_object, as_text
from fleethook.model.merge_keys import WORKLOAD, MergeSchema
from fleethook.workload_schema.container_and_volume_rules import load_choices
from fleethook.workload_schema.defaults import differs_by_defaults, find_default, find_pull_policy
from fleethook.workload_schema.go_structs import ZEROS, find_field, load_structs
from fleethook.workload_schema.pool_value_marks import PoolValues

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


def overlay(current: JSON, desired: JSON, schema: MergeSchema) -> JSON:
    """Return ``current`` with all members of ``desired`` set.

    Args:
        current: A stored object or a part of it. It is not modified.
        desired: The desired members of this part.
        schema: The merge schema of this part.

    Returns:
        ``current`` itself if nothing differs. Otherwise the result shares unchanged branches with ``current``.
    """
    if type(desired) is dict and type(current) is dict:
        return overlay_object(current, desired, schema)
    if type(desired) is list and type(current) is list:
        return _overlay_list(current, desired, schema)
    return current if current == desired else desired


def overlay_object(current: JSONObject, desired: JSONObject, schema: MergeSchema) -> JSONObject:
    """Return the result of `overlay` for two objects."""
    result: JSONObject | None = None
    fields = schema.fields
    for name, value in desired.items():
        present = current.get(name, ABSENT)
        # `==` compares equal branches in C, and most branches are equal. In Python 1 equals 1.0 and True, but a field
        # of the API has one type, so these never meet.
        if present == value:
            continue
        if type(value) is dict or type(value) is list:
            new = value if present is ABSENT else overlay(present, value, fields.get(name, _NO_SCHEMA))
        else:
            new = value
        if new is not present:
            if result is None:
                result = dict(current)
            if present is ABSENT and name in EXCLUSIVE:
                _make_room(result, EXCLUSIVE[name])
            result[name] = new
    if result is None:
        return current
    if schema.retain_keys and chooses_anew(current, desired, schema):
        return {name: value for name, value in result.items() if name in desired}
    return result


def chooses_anew(current: JSONObject, desired: JSONObject, schema: MergeSchema) -> bool:
    """Return whether ``desired`` chooses another member of a union, which removes the members of the former choice.

    If the choice is the same, members that an apiserver defaulted stay.

    Args:
        current: The union as it is.
        desired: The wanted union.
        schema: Its schema. An element of a list chooses by its members, a strategy by its type.
    """
    if schema.identity:
        chosen, wanted = (set(one) - {member for member, _ in schema.identity} for one in (current, desired))
        return not wanted <= chosen
    return bool(current.get("type", DEFAULT_STRATEGY) != desired.get("type", DEFAULT_STRATEGY))


def _make_room(target: JSONObject, group: frozenset[str]) -> None:
    for other in group:
        target.pop(other, None)


def _overlay_list(current: list[JSON], desired: list[JSON], schema: MergeSchema) -> list[JSON]:
    requested = index_elements(desired, schema)
    present = None if requested is None else index_elements(current, schema)
    if requested is not None and present is not None:
        return _overlay_elements(current, present, requested, schema)
    if len(current) == len(desired) and all(map(covers, current, desired)):
        return current
    return desired


def _overlay_elements(
    current: list[JSON],
    present: dict[Identity, JSONObject],
    requested: dict[Identity, JSONObject],
    schema: MergeSchema,
) -> list[JSON]:
    merged = dict(present)
    for identity, element in requested.items():
        before = present.get(identity)
        if before is None:
            merged[identity] = element
        elif before != element:
            merged[identity] = overlay_object(before, element, schema)
    return merge_elements(current, present, merged, list(requested))


def covers(current: JSON, desired: JSON) -> bool:
    """Return whether ``current`` equals ``desired``, except for members that the apiserver may have defaulted."""
    if current == desired:
        return True
    if type(desired) is dict:
        return type(current) is dict and all(
            name in current and covers(current[name], value) for name, value in desired.items()
        )
    if type(desired) is list:
        return type(current) is list and len(current) == len(desired) and all(map(covers, current, desired))
    return False


Path = tuple[str | int, ...]


def matches(current: JSON, desired: JSONObject, values: PoolValues) -> bool:
    """Return whether ``current`` has all members of ``desired`` with the same values. It may have others.

    Args:
        current: A workload, or any other value.
        desired: The desired object, with or without marks.
        values: The values of the workload's node pool.
    """
    return type(current) is dict and _matches_object(current, desired, values)


def _matches_object(current: JSONObject, desired: JSONObject, values: PoolValues) -> bool:
    for name, value in desired.items():
        if name not in current:
            return False
        present = current[name]
        # `!=` compares in C first. It ends at once if the apiserver added defaults.
        if present != value:
            if type(value) is dict:
                if type(present) is not dict:
                    return False
                # The subset is found in C, too, unless a member inside has a mark or further members.
                if not (value.items() <= present.items() or _matches_object(present, value, values)):
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


def _matches_list(current: list[JSON], desired: list[JSON], values: PoolValues) -> bool:
    """Compare lists by index. A longer list may have foreign elements, which only `overlay` matches by merge key."""
    if len(current) != len(desired):
        return False
    for present, value in zip(current, desired, strict=True):
        if present != value and not _matches_value(present, value, values):
            return False
    return True


def value_of(document: JSON, path: Path) -> JSON:
    """Return the value at a path; raises KeyError, IndexError or TypeError if there is none."""
    for token in path:
        document = document[token]
    return document


PULL_POLICIES: Final = ("imagePullPolicy", "pullPolicy")
"""The members whose default depends on an image."""
_NO_SCHEMA: Final = MergeSchema()
_Tokens = tuple[str, ...]


def settle(
    workload: JSONObject, before: JSONObject, rendered: JSONObject, *, target: JSON, keeps_order: bool = False
) -> JSONObject:
    """Return ``rendered`` with the defaults that ``workload`` has, and with its order of list elements.

    Args:
        workload: The workload of the request.
        before: The workload without overrides.
        rendered: The rendered workload.
        target: The rendered form of the template, if the last render had the same one, otherwise None. Further members
            of the objects that it added are then defaults, or other clients have added them since.
        keeps_order: Whether elements keep the order of ``workload`` although the last render had another target.
    """
    return _Settling(target is not None, keeps_order).objects(workload, before, rendered, target, WORKLOAD, ())


class _Settling:
    def __init__(self, is_same: bool, keeps_order: bool) -> None:  # noqa: FBT001 - see settle
        self._is_same: Final = is_same
        self._keeps_order: Final = keeps_order

    def objects(
        self, stored: JSONObject, before: JSON, rendered: JSONObject, target: JSON, schema: MergeSchema, tokens: _Tokens
    ) -> JSONObject:
        if stored is rendered:
            return rendered
        result: JSONObject | None = None
        known, wanted = (as_object(one) for one in (before, target))
        for name, value in rendered.items():
            present = stored.get(name, ABSENT)
            if present is value or present is ABSENT:
                continue
            child = schema.fields.get(name, _NO_SCHEMA)
            new = self._value(present, known.get(name, ABSENT), value, wanted.get(name), child, (*tokens, name))
            if new is not value:
                result = dict(rendered) if result is None else result
                result[name] = new
        for name, value in stored.items():
            if name not in rendered and self._keeps(name, value, before, rendered, schema, tokens):
                result = dict(rendered) if result is None else result
                result[name] = value
        if result is None:
            return rendered
        return stored if result == stored else result

    def _keeps(
        self, name: str, value: JSON, before: JSON, rendered: JSONObject, schema: MergeSchema, tokens: _Tokens
    ) -> bool:
        """Return whether a member of the stored object stays although the rendered one lacks it."""
        if schema.retain_keys:
            chooses = (
                len(rendered) > len(schema.identity)
                if schema.identity
                else rendered.get("type", DEFAULT_STRATEGY) != DEFAULT_STRATEGY
            )
            if chooses:
                return False
        if any(other in rendered for other in EXCLUSIVE.get(name, ())):
            return False
        if value is None or (self._is_same and before is ABSENT):
            return True
        if name in PULL_POLICIES:
            return bool(value == find_pull_policy(as_text(rendered.get("image") or rendered.get("reference"))))
        default = find_default((*tokens, name))
        if default is None:
            default = _find_zero((*tokens, name))
        return default is not ABSENT and type(default) is type(value) and bool(default == value)

    def _value(
        self, stored: JSON, before: JSON, rendered: JSON, target: JSON, schema: MergeSchema, tokens: _Tokens
    ) -> JSON:
        if type(stored) is dict and type(rendered) is dict:
            return self.objects(stored, before, rendered, target, schema, tokens)
        if type(stored) is not list or type(rendered) is not list:
            return rendered
        present, wanted = index_elements(stored, schema), index_elements(rendered, schema)
        if present is None or wanted is None:
            is_kept = self._is_same and before is ABSENT and covers(stored, rendered)
            return stored if is_kept or differs_by_defaults(stored, rendered) else rendered
        known, ordered = (index_elements(one, schema) or {} for one in (before, target))
        merged = {
            identity: element
            if (there := present.get(identity)) is None
            else self.objects(
                there, known.get(identity, ABSENT), element, ordered.get(identity), schema, (*tokens, "*")
            )
            for identity, element in wanted.items()
        }
        order = list(ordered)
        if self._keeps_order:
            ranked = iter([identity for identity in present if identity in wanted])
            order = [next(ranked) if identity in present else identity for identity in wanted]
        return merge_elements(stored if order else rendered, present if order else wanted, merged, order)


_ZEROS: Final[dict[str, JSON]] = {**ZEROS, "Quantity": "0"}


@lru_cache(4096)
def _find_zero(tokens: _Tokens) -> JSON:
    """Return the zero value with which Go encodes an absent member, ABSENT if it omits it."""
    for root in ("apps.v1.Deployment", "apps.v1.StatefulSet"):
        if (last := find_field(tokens, root)) is not None:
            if last.type in load_structs():
                return {}
            printed = last.omit == "" or last.type == "Quantity"
            return _ZEROS.get(last.type, None if last.type.startswith("[]") else ABSENT) if printed else ABSENT
    return ABSENT
