"""The elements of lists whose elements have an identity: containers, env, ports, volumes, tolerations.

Such a list is never addressed by index while a workload is rendered: other webhooks and people add elements of their
own, before, between and behind those of the template.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from app.model.json import JSON, JSONObject
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
    index: dict[Identity, JSONObject] = {}
    for element in elements:
        if type(element) is not dict:
            return None
        values = identify(element, schema)
        if values is None:
            return None
        occurrence = 0
        while (identity := (*values, occurrence)) in index:
            occurrence += 1
        index[identity] = element
    return index


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
    order = [next(ranked) if identity in common else identity for identity in kept]
    position = 0
    for identity in wanted:
        if identity in common:
            position = order.index(identity) + 1
        elif identity in remaining:
            order.insert(position, identity)
            position += 1
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
            if _in_order(present, wanted):
                return current
    made: list[JSON] = [merged[identity] for identity in arrange_elements(list(present), wanted, merged)]
    same = len(made) == len(current) and all(map(_is, made, current))
    return current if same else made


def _in_order(present: Mapping[Identity, JSONObject], wanted: Sequence[Identity]) -> bool:
    remaining = iter(present)
    return all(identity in remaining for identity in wanted if identity in present)


def _is(left: JSON, right: JSON) -> bool:
    return left is right
