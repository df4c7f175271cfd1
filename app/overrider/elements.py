"""The elements of lists whose elements have an identity: containers, env, ports, volumes, tolerations.

Such a list is never addressed by index while a workload is rendered: other webhooks and people add elements of their
own, before, between and behind those of the template.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from app.model.json import JSON, JSONObject, as_object
from app.model.merge_keys import MergeSchema

Identity = tuple[JSON, ...]
"""The values of the identifying members, and which of the elements that share them it is (0 for the first)."""

_MISSING: Final = object()


def index_elements(elements: JSON, schema: MergeSchema) -> dict[Identity, JSONObject] | None:
    """Return the elements by their identity, in their order.

    Returns None where the list has no identities: it is atomic, or an element lacks an identifying member.

    Args:
        elements: A list, or anything else, for which the answer is None.
        schema: How the list merges.
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
    """Return what `index_elements` does for elements with one identifying member, as most have."""
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


# Objects whose members several parties set. Any other object is one thing, of which an apiserver defaults the rest.
_MAPS: Final = frozenset({"labels", "annotations", "nodeSelector", "limits", "requests"})


def is_shared(name: str, value: JSON, schema: MergeSchema) -> bool:
    """Return whether a member is a map or a list of which each party sets and removes its own part only."""
    return (name in _MAPS and isinstance(value, dict)) or (bool(schema.identity) and isinstance(value, list))


def identify(element: Mapping[str, JSON], schema: MergeSchema) -> Identity | None:
    """Return the values of the identifying members of ``element``; None if one is missing or no scalar."""
    values: list[JSON] = []
    for member, default in schema.identity:
        value = element.get(member, default)
        if value is None or isinstance(value, (dict, list)):
            return None
        values.append(value)
    return tuple(values)


def describe_identity(identity: Identity, schema: MergeSchema) -> str:
    """Return an identity as a token of a path: ``[name=app]``, or ``[containerPort=53]`` with the further members."""
    pairs = zip(schema.identity, identity, strict=False)
    shown = [f"{member}={value}" for (member, default), value in pairs if default is None or value != default]
    return f"[{','.join(shown)}]"


# A second element of one name is a mistake that an apiserver refuses, in other lists the last one counts.
_UNIQUE: Final = frozenset({"containers", "initContainers", "ephemeralContainers", "volumes"})


def merge_repeated(before: JSON, after: JSON, schema: MergeSchema) -> JSON:
    """Return ``after`` without the repetitions that a change of ``before`` has made of a list's elements.

    An entry that adds a variable which is there means to set it, and Kubernetes takes the last one of a name. With one
    element for each identity, taking the entry back finds what was there before.

    Args:
        before: A part of a workload.
        after: The same part, changed; branches that did not change are shared.
        schema: Merge keys of this part.
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
    same = len(made) == len(after) and all(map(_is_same, made.values(), after))
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
    """Return a list that may not repeat names, with the lists in its elements merged."""
    if after is before or not isinstance(after, list):
        return after
    known = index_elements(before, schema) or {}
    made = []
    for element in after:
        values = identify(element, schema) if isinstance(element, dict) else None
        present = None if values is None else known.get((*values, 0))
        made.append(merge_repeated(present, element, _element_schema(schema)))
    return after if all(map(_is_same, made, after)) else made


def arrange_elements(
    present: Sequence[Identity], wanted: Sequence[Identity], known: Iterable[Identity]
) -> list[Identity]:
    """Return the order of a list's elements after others were laid over it.

    Every element that was there stays in its place. Elements of ``wanted`` that were there in another order change
    places among themselves; those that are new follow the one before them in ``wanted``.

    Args:
        present: The identities of the list as it was, in order.
        wanted: The identities that are laid over it, in order.
        known: The identities that the result has.
    """
    remaining = set(known)
    kept = [identity for identity in present if identity in remaining]
    common = set(kept).intersection(wanted)
    ranked = iter([identity for identity in wanted if identity in common])
    # The new elements that follow each one, and in `first` those before all others: insertions into a long list would
    # move its rest each time.
    first: list[Identity] = []
    followers, new_of = first, dict[Identity, list[Identity]]()
    for identity in wanted:
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
    wanted: Sequence[Identity],
) -> list[JSON]:
    """Return the merged elements in their order, ``current`` itself where that is what it says already."""
    if len(merged) == len(current):
        for position, (identity, element) in enumerate(merged.items()):
            if current[position] is not element or present.get(identity, _MISSING) is not element:
                break
        else:
            if _is_in_order(present, wanted):
                return current
    made: list[JSON] = [merged[identity] for identity in arrange_elements(list(present), wanted, merged)]
    same = len(made) == len(current) and all(map(_is_same, made, current))
    return current if same else made


def _is_in_order(present: Mapping[Identity, JSONObject], wanted: Sequence[Identity]) -> bool:
    remaining = iter(present)
    return all(identity in remaining for identity in wanted if identity in present)


def _is_same(left: JSON, right: JSON) -> bool:
    return left is right
