"""The difference between a template and its rendered form, which can be applied to any workload of that template.

Patches and items run once, on the workload that the bare template describes. The plan keeps their result as a
difference that addresses list elements by identity. Applied to a stored workload, it finds the elements of the template
at any index, and does not change the elements of users and other webhooks. It is idempotent.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from fleethook.engines.overrider.render.list_elements_and_order import (
    Identity,
    describe_identity,
    index_elements,
    is_shared,
    merge_elements,
)
from fleethook.engines.overrider.render.overlay_and_defaults import chooses_anew, overlay, overlay_object
from fleethook.model.json import ABSENT, JSON, JSONObject
from fleethook.model.merge_keys import WORKLOAD, MergeSchema
from fleethook.patch import format_pointer, identical, parse_pointer

_NO_SCHEMA: Final = MergeSchema()


class Assign(NamedTuple):
    """A member or an element that is set, or removed where ``after`` is ABSENT."""

    before: JSON
    """The template's value, ABSENT if it has none."""
    after: JSON
    schema: MergeSchema


class Element(NamedTuple):
    """The change of one element of a list."""

    identity: Identity
    before_at: int | None
    """The index in the template's list, None if the element is new."""
    after_at: int | None
    """The index in the result, None if the element is removed."""
    change: "Change"


class ListDelta(NamedTuple):
    """The changes of the elements of a list."""

    elements: tuple[Element, ...]
    order: tuple[Identity, ...]
    """The identities of the result."""
    length: int
    """The length of the template's list."""
    former: tuple[Identity, ...]
    """The remaining elements in the order of the template if that changes, otherwise empty."""
    schema: MergeSchema
    removed: bool = False
    """Whether the list is removed, except for the elements of other clients."""

    @property
    def reordered(self) -> bool:
        """Whether remaining elements change their order."""
        return bool(self.former)


class ObjectDelta(NamedTuple):
    """The changes of the members of an object."""

    members: tuple[tuple[str, "Change"], ...]
    schema: MergeSchema
    removed: bool = False
    """Whether the object, a map, is removed, except for the members of other clients."""


Change = Assign | ListDelta | ObjectDelta
Token = str | Identity
"""A member's name, or an element's identity."""

NOTHING: Final = ObjectDelta((), _NO_SCHEMA)


def delta_of(before: JSONObject, after: JSONObject, schema: MergeSchema) -> ObjectDelta:
    """Return the difference between two objects, without members if they are equal."""
    members: list[tuple[str, Change]] = []
    for name, value in after.items():
        present = before.get(name, ABSENT)
        child = schema.fields.get(name, _NO_SCHEMA)
        if present is value or (present is ABSENT and not value and is_shared(name, value, child)):
            continue
        change = _compare_values(present, value, child)
        if change is not None:
            members.append((name, change))
    for name, value in before.items():
        if name not in after:
            members.append((name, _make_removal(name, value, schema.fields.get(name, _NO_SCHEMA))))
    return ObjectDelta(tuple(members), schema)


def _make_removal(name: str, value: JSON, schema: MergeSchema) -> Change:
    """Return the removal of a member. For a list or a map that other clients write too, it removes single elements."""
    if is_shared(name, value, schema):
        if isinstance(value, dict):
            return delta_of(value, {}, schema)._replace(removed=True)
        elements = index_elements(value, schema)
        delta = _compare_lists(elements, {}, schema) if elements else None
        if delta is not None:
            return delta._replace(removed=True)
    return Assign(value, ABSENT, schema)


def _compare_values(before: JSON, after: JSON, schema: MergeSchema) -> Change | None:
    if (
        type(before) is dict
        and type(after) is dict
        and not (schema.retain_keys and chooses_anew(before, after, schema))
    ):
        delta = delta_of(before, after, schema)
        return delta if delta.members else None
    present = index_elements(before, schema)
    elements = None if present is None else index_elements(after, schema)
    if present is not None and elements is not None:
        return _compare_lists(present, elements, schema)
    return None if identical(before, after) else Assign(before, after, schema)


def _compare_lists(
    before: dict[Identity, JSONObject], after: dict[Identity, JSONObject], schema: MergeSchema
) -> ListDelta | None:
    before_at = {identity: position for position, identity in enumerate(before)}
    elements = [
        Element(identity, before_at[identity], None, Assign(element, ABSENT, schema))
        for identity, element in before.items()
        if identity not in after
    ]
    for position, (identity, element) in enumerate(after.items()):
        present = before.get(identity)
        if present is None:
            elements.append(Element(identity, None, position, Assign(ABSENT, element, schema)))
        elif (change := _compare_elements(present, element, schema)) is not None:
            elements.append(Element(identity, before_at[identity], position, change))
    kept = tuple(one for one in before if one in after)
    former = () if kept == tuple(one for one in after if one in before) else kept
    if not elements and not former:
        return None
    return ListDelta(tuple(elements), tuple(after), len(before), former, schema)


def _compare_elements(before: JSONObject, after: JSONObject, schema: MergeSchema) -> Change | None:
    if schema.retain_keys and chooses_anew(before, after, schema):
        return Assign(before, after, schema)
    delta = delta_of(before, after, schema)
    return delta if delta.members else None


def apply_delta(current: JSONObject, delta: ObjectDelta) -> JSONObject:
    """Return ``current`` with the difference applied, or ``current`` itself if nothing changes.

    Args:
        current: A workload that has all members of the template, and possibly others. It is not modified.
        delta: The difference.
    """
    result: JSONObject | None = None
    for name, change in delta.members:
        present = current.get(name, ABSENT)
        new = _apply_change(present, change)
        if new is present:
            continue
        if result is None:
            result = dict(current)
        if new is ABSENT:
            result.pop(name, None)  # An exclusive member that was set before may have removed it already.
        elif present is ABSENT:
            # `overlay_object` removes the alternatives of an exclusive member.
            result = overlay_object(result, {name: new}, _NO_SCHEMA)
        else:
            result[name] = new
    return current if result is None else result


def _apply_change(present: JSON, change: Change) -> JSON:
    if type(change) is Assign:
        return _assign(present, change.after, change.schema)
    if type(change) is ObjectDelta:
        before: JSONObject = present if type(present) is dict else {}
        made = apply_delta(before, change)
        if change.removed and not made:
            return ABSENT
        return present if made is before else made
    assert type(change) is ListDelta
    return _apply_list(present, change)


def _assign(present: JSON, after: JSON, schema: MergeSchema) -> JSON:
    if after is ABSENT or present is ABSENT or present == after:
        return after if present != after else present
    if type(present) is dict and type(after) is dict:
        anew = schema.retain_keys and chooses_anew(present, after, schema)
        return after if anew else overlay(present, after, schema)
    return after if index_elements(after, schema) is None else overlay(present, after, schema)


def _apply_list(present: JSON, change: ListDelta) -> JSON:
    current: list[JSON] = present if type(present) is list else []
    known = index_elements(current, change.schema)
    if known is None:
        return present  # An apiserver does not store such a list.
    merged = dict(known)
    for identity, _, after_at, inner in change.elements:
        before = known.get(identity, ABSENT)
        if after_at is None:
            merged.pop(identity, None)
        elif before is not ABSENT or type(inner) is Assign:
            merged[identity] = _apply_change(before, inner)
    made = merge_elements(current, known, merged, change.order)
    if change.removed and not made:
        return ABSENT
    return present if made is current else made


def without_removed(template_fields: JSON, change: Change, schema: MergeSchema = WORKLOAD) -> JSON:
    """Return a template without the members and elements that a difference removes.

    If an overlay added these elements only to remove them later, other elements could change their order.
    """
    if type(change) is ObjectDelta and isinstance(template_fields, dict):
        remaining = dict(template_fields)
        for name, inner in change.members:
            if name not in remaining:
                continue
            if type(inner) is Assign and inner.after is ABSENT:
                del remaining[name]
            else:
                remaining[name] = without_removed(remaining[name], inner, schema.fields.get(name, _NO_SCHEMA))
        return remaining
    elements = index_elements(template_fields, schema)
    if type(change) is not ListDelta or elements is None:
        return template_fields
    for element in change.elements:
        if element.after_at is None:
            elements.pop(element.identity, None)
        elif element.identity in elements:
            elements[element.identity] = without_removed(
                elements[element.identity], element.change, MergeSchema(schema.fields)
            )
    return list(elements.values())


class Leaf(NamedTuple):
    """One difference, for messages."""

    tokens: tuple[Token, ...]
    """The path, with elements by identity."""
    pointer: str
    """The path, with elements by index: in the result, or in the template for a removed element."""
    before: JSON
    after: JSON
    reorders: bool = False
    """Whether elements that a list keeps change their order. Then the values are their names in both orders."""

    @property
    def values(self) -> tuple[JSON, JSON]:
        """``before`` and ``after``, None for an absent one."""
        return None if self.before is ABSENT else self.before, None if self.after is ABSENT else self.after


def leaves(delta: ObjectDelta) -> Iterator[Leaf]:
    """Yield each single difference, with ABSENT for an absent value."""
    yield from _walk(delta, (), ())


def _walk(change: Change, tokens: tuple[Token, ...], path: tuple[str, ...]) -> Iterator[Leaf]:
    if type(change) is Assign:
        yield Leaf(tokens, format_pointer(path), change.before, change.after)
    elif type(change) is ObjectDelta:
        for name, inner in change.members:
            yield from _walk(inner, (*tokens, name), (*path, name))
    elif type(change) is ListDelta:
        for identity, before_at, after_at, inner in change.elements:
            position = before_at if after_at is None else after_at
            yield from _walk(inner, (*tokens, identity), (*path, str(position)))
        if change.reordered:
            before, after = ([describe_identity(one, change.schema) for one in order] for order in _list_orders(change))
            yield Leaf(tokens, format_pointer(path), before, after, reorders=True)


def _list_orders(change: ListDelta) -> tuple[Sequence[Identity], Sequence[Identity]]:
    """Return the elements that a list keeps, in the order of the template and in that of the result."""
    new = {element.identity for element in change.elements if element.before_at is None}
    return change.former, [one for one in change.order if one not in new]


def name_tokens(document: JSON, pointer: str) -> tuple[Token, ...]:
    """Return a JSON pointer with elements by identity, up to the first token that the document does not have."""
    tokens: list[Token] = []
    schema = WORKLOAD
    for token in parse_pointer(pointer):
        elements = index_elements(document, schema)
        if elements is not None and token.isdecimal() and int(token) < len(elements):
            identity = list(elements)[int(token)]
            tokens.append(identity)
            document = elements[identity]
        elif isinstance(document, dict):
            tokens.append(token)
            document, schema = document.get(token), schema.fields.get(token, _NO_SCHEMA)
        else:
            break
    return tuple(tokens)


def schema_at(tokens: tuple[Token, ...]) -> MergeSchema:
    """Return the merge schema of the value at a path of a workload."""
    schema = WORKLOAD
    for token in tokens:
        if isinstance(token, str):
            schema = schema.fields.get(token, _NO_SCHEMA)
    return schema


def value_at(document: JSON, tokens: tuple[Token, ...], schema: MergeSchema = WORKLOAD) -> JSON:
    """Return the value at a path of a document, ABSENT if there is none."""
    for token in tokens:
        if isinstance(token, str):
            if not isinstance(document, dict) or token not in document:
                return ABSENT
            document, schema = document[token], schema.fields.get(token, _NO_SCHEMA)
        else:
            elements = index_elements(document, schema)
            if elements is None or token not in elements:
                return ABSENT
            document = elements[token]
    return document
