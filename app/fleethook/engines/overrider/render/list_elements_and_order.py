"""Lists whose elements have an identity: their index, their order, and the merge of their elements.

Rendering never addresses elements of such a list (containers, env, ports) by index, because other webhooks and users
add elements before, between and behind those of the template.
"""

import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from fleethook.model.json import ABSENT, JSON, JSONObject, as_object
from fleethook.model.merge_keys import MergeSchema

Identity = tuple[JSON, ...]
"""The values of the identifying members, and a number that counts the elements with the same values from 0."""


def index_elements(elements: JSON, schema: MergeSchema) -> dict[Identity, JSONObject] | None:
    """Return the elements by their identity, in their order.

    Args:
        elements: A list, or a value of another type.
        schema: The merge schema of the list.

    Returns:
        None if the value is no list, the list is atomic, or an element lacks an identifying member.
    """
    if not schema.identity or type(elements) is not list:
        return None
    if len(schema.identity) == 1:
        return _index_by_member(elements, *schema.identity[0])
    index: dict[Identity, JSONObject] = {}
    repeated: dict[Identity, int] = {}
    for element in elements:
        if type(element) is not dict:
            return None
        values = identify(element, schema)
        if values is None:
            return None
        identity = (*values, 0)
        if identity in index:
            repeated[values] = occurrence = repeated.get(values, 0) + 1
            identity = (*values, occurrence)
        index[identity] = element
    return index


def _index_by_member(elements: Sequence[JSON], member: str, default: JSON) -> dict[Identity, JSONObject] | None:
    """Return the result of `index_elements` for elements with one identifying member, the usual case."""
    index: dict[Identity, JSONObject] = {}
    repeated: dict[JSON, int] = {}
    for element in elements:
        if type(element) is not dict:
            return None
        value = element.get(member, default)
        if value is None or isinstance(value, (dict, list)):
            return None
        identity = (value, 0)
        if identity in index:
            repeated[value] = occurrence = repeated.get(value, 0) + 1
            identity = (value, occurrence)
        index[identity] = element
    return index


# Objects whose members several clients set. Any other object has one owner, and an apiserver adds defaults to it.
_MAPS: Final = frozenset({"labels", "annotations", "nodeSelector", "limits", "requests"})


def is_shared(name: str, value: JSON, schema: MergeSchema) -> bool:
    """Return whether a member is a map or a list in which each client sets and removes only its own elements."""
    return (name in _MAPS and isinstance(value, dict)) or (bool(schema.identity) and isinstance(value, list))


def identify(element: Mapping[str, JSON], schema: MergeSchema) -> Identity | None:
    """Return the values of the identifying members of ``element``, None if one is missing or not a scalar."""
    values: list[JSON] = []
    for member, default in schema.identity:
        value = element.get(member, default)
        if value is None or isinstance(value, (dict, list)):
            return None
        values.append(value)
    return tuple(values)


def describe_identity(identity: Identity, schema: MergeSchema) -> str:
    """Return an identity as a token of a path, such as ``[name=app]`` or ``[containerPort=53,protocol=UDP]``."""
    pairs = zip(schema.identity, identity, strict=False)
    shown = [f"{member}={value}" for (member, default), value in pairs if default is None or value != default]
    return f"[{','.join(shown)}]"


# An apiserver refuses two elements with the same name in these lists. In other lists the last one counts.
_UNIQUE: Final = frozenset({"containers", "initContainers", "ephemeralContainers", "volumes"})


def merge_repeated(before: JSON, after: JSON, schema: MergeSchema) -> JSON:
    """Return ``after`` with one element for each identity, merging elements that a change of ``before`` repeats.

    If an entry adds a variable that exists already, it means to set it, and Kubernetes uses the last variable of a
    name. With one element for each identity, the undo of the entry restores the former element.

    Args:
        before: A part of a workload.
        after: The same part after the change. It shares unchanged branches with ``before``.
        schema: The merge schema of this part.
    """
    if after is before:
        return after
    if isinstance(after, dict):
        return _merge_repeated_members(as_object(before), after, schema)
    if not schema.identity or not isinstance(after, list):
        return after
    known = index_elements(before, schema) or {}
    made: dict[Identity | int, JSON] = {}
    for number, element in enumerate(after):
        values = identify(element, schema) if isinstance(element, dict) else None
        made[number if values is None else values] = (
            element if values is None else merge_repeated(known.get((*values, 0)), element, _element_schema(schema))
        )
    same = len(made) == len(after) and all(map(operator.is_, made.values(), after))
    return after if same else list(made.values())


def _element_schema(schema: MergeSchema) -> MergeSchema:
    return MergeSchema(schema.fields)


def _merge_repeated_members(before: Mapping[str, JSON], after: JSONObject, schema: MergeSchema) -> JSONObject:
    changed: JSONObject = {}
    for name, value in after.items():
        child = schema.fields.get(name)
        if child is None or not isinstance(value, (dict, list)):
            continue
        made = (
            _merge_within_elements(before.get(name), value, child)
            if name in _UNIQUE
            else merge_repeated(before.get(name), value, child)
        )
        if made is not value:
            changed[name] = made
    return {**after, **changed} if changed else after


def _merge_within_elements(before: JSON, after: JSON, schema: MergeSchema) -> JSON:
    """Return a list of unique elements, with the lists inside its elements merged."""
    if after is before or not isinstance(after, list):
        return after
    known = index_elements(before, schema) or {}
    made = []
    for element in after:
        values = identify(element, schema) if isinstance(element, dict) else None
        present = None if values is None else known.get((*values, 0))
        made.append(merge_repeated(present, element, _element_schema(schema)))
    return after if all(map(operator.is_, made, after)) else made


def arrange_elements(
    present: Sequence[Identity], requested: Sequence[Identity], known: Iterable[Identity]
) -> list[Identity]:
    """Return the order of a list's elements after an overlay.

    Elements that only ``present`` has keep their place. Elements that both have change places among themselves if their
    order differs. A new element follows its predecessor in ``requested``.

    Args:
        present: The identities of the stored list, in order.
        requested: The identities of the overlay, in order.
        known: The identities of the result.
    """
    remaining = set(known)
    kept = [identity for identity in present if identity in remaining]
    common = set(kept).intersection(requested)
    ranked = iter([identity for identity in requested if identity in common])
    # The new elements after each element, and in `first` those before all others. Inserting them one by one would move
    # the rest of a long list each time.
    first: list[Identity] = []
    followers, new_of = first, dict[Identity, list[Identity]]()
    for identity in requested:
        if identity in common:
            followers = new_of[identity] = []
        elif identity in remaining:
            followers.append(identity)
    order = first
    for identity in kept:
        placed = next(ranked) if identity in common else identity
        order += (placed, *new_of.get(placed, ()))
    return order


def merge_elements(
    current: list[JSON],
    present: Mapping[Identity, JSONObject],
    merged: Mapping[Identity, JSONObject],
    order: Sequence[Identity],
) -> list[JSON]:
    """Return the merged elements in their order, or ``current`` itself if nothing changes."""
    if len(merged) == len(current):
        for position, (identity, element) in enumerate(merged.items()):
            if current[position] is not element or present.get(identity, ABSENT) is not element:
                break
        else:
            if _is_in_order(present, order):
                return current
    result: list[JSON] = [merged[identity] for identity in arrange_elements(list(present), order, merged)]
    same = len(result) == len(current) and all(map(operator.is_, result, current))
    return current if same else result


def _is_in_order(present: Mapping[Identity, JSONObject], requested: Sequence[Identity]) -> bool:
    remaining = iter(present)
    return all(identity in remaining for identity in requested if identity in present)


CONTAINER_LISTS: Final = ("containers", "initContainers")
