"""Lists whose elements have an identity, and the comparison of a stored workload with the requested one.

Rendering never addresses elements of such a list (containers, env, ports) by index, because other webhooks and users
add elements before, between and behind those of the template. An apiserver does not store an object exactly as sent: it
adds defaults, drops empty members and unknown fields, and writes quantities in canonical form. So the comparison is by
meaning: quantities by value, list elements by merge key, and null as an absent member.
"""

import operator
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Final, NamedTuple

import msgspec

from fleethook.model.formats.quantity import Quantity, stored_quantity
from fleethook.model.json import ABSENT, JSON, JSONObject, as_object
from fleethook.model.merge_keys import WORKLOAD, MergeSchema
from fleethook.patch import format_pointer

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


_NO_SCHEMA: Final = MergeSchema()
# Members of type resource.Quantity in k8s.io/api core/v1.
_QUANTITY: Final = re.compile(r"/(resources/(limits|requests)|overhead)/[^/]+$|/(sizeLimit|divisor)$")


class MemberDifference(NamedTuple):
    """One member that the apiserver does not store as requested."""

    pointer: str
    """JSON pointer into the stored workload, or into the requested one if the member is not stored."""
    address: tuple[str, ...]
    """The path with list elements by merge key, so that it stays the same when indexes change."""
    requested: JSON
    """`ABSENT` for a removed member."""
    stored: JSON
    """`ABSENT` for a member that is not stored."""

    @property
    def insignificant(self) -> bool:
        """Whether the difference is a default or an empty value, which an apiserver adds and drops.

        If a removed member is stored, the apiserver defaulted it. It never adds a removed list element as a default.
        """
        if self.requested is ABSENT:
            return not self.address[-1].startswith("[")
        return is_empty(self.requested)


def is_empty(value: JSON) -> bool:
    """Return whether ``value`` is null, false, zero, or has only such members, as Go's ``omitempty`` drops them."""
    if isinstance(value, dict):
        return all(map(is_empty, value.values()))
    if isinstance(value, list):
        return all(map(is_empty, value))
    return not value


def find_differences(
    stored: JSONObject, requested: JSONObject, *, leaves: bool = False, by_text: bool = False
) -> tuple[MemberDifference, ...]:
    """Return the differences between ``stored`` and ``requested``.

    Args:
        stored: The workload as the apiserver returns it.
        requested: The workload as requested.
        leaves: Whether to list each leaf of an object or keyed list that is not stored, and to ignore the order of
            list elements.
        by_text: Whether the texts of quantities are compared in place of their values.
    """
    return tuple(_Comparison(leaves, by_text).objects(stored, requested, _Location((), (), WORKLOAD)))


def fingerprint(differences: Sequence[MemberDifference]) -> str:
    """Return a short text that is equal for equal differences in any order."""
    parts = sorted(
        msgspec.json.encode(
            [difference.address, _wrap_value(difference.requested), _wrap_value(difference.stored)],
            order="deterministic",
        )
        for difference in differences
    )
    return sha256(b"\n".join(parts)).hexdigest()[:16]


def _wrap_value(value: JSON) -> list[JSON]:
    return [] if value is ABSENT else [value]


class _Location(NamedTuple):
    tokens: tuple[str, ...]
    address: tuple[str, ...]
    schema: MergeSchema

    def member(self, name: str) -> "_Location":
        return _Location((*self.tokens, name), (*self.address, name), self.schema.fields.get(name, _NO_SCHEMA))

    def element(self, index: int, identity: Identity = ()) -> "_Location":
        named = describe_identity(identity, self.schema) if identity else f"[{index}]"
        # An element's members are in the fields of its list's schema.
        return _Location((*self.tokens, str(index)), (*self.address, named), MergeSchema(self.schema.fields))

    def difference(self, requested: JSON, stored: JSON) -> MemberDifference:
        return MemberDifference(format_pointer(self.tokens), self.address, requested, stored)


class _Comparison(NamedTuple):
    leaves: bool
    by_text: bool

    def values(self, stored: JSON, requested: JSON, place: _Location) -> Iterator[MemberDifference]:
        if self.leaves and stored is ABSENT:
            stored = _make_empty(requested, place.schema)
        if isinstance(requested, dict) and isinstance(stored, dict):
            yield from self.objects(stored, requested, place)
        elif isinstance(requested, list) and isinstance(stored, list):
            yield from self.lists(stored, requested, place)
        elif not _same_scalar(stored, requested, place.tokens, by_text=self.by_text):
            yield place.difference(requested, stored)

    def objects(self, stored: JSONObject, requested: JSONObject, place: _Location) -> Iterator[MemberDifference]:
        for name, value in requested.items():
            present = stored.get(name, ABSENT)
            # `!=` compares equal branches in C, so only differing objects and lists are compared member by member.
            if present != value and not (present is ABSENT and value is None):
                yield from self.values(present, value, place.member(name))
        for name, present in stored.items():
            if name not in requested and present is not None:
                yield place.member(name).difference(ABSENT, present)

    def lists(self, stored: list[JSON], requested: list[JSON], place: _Location) -> Iterator[MemberDifference]:
        present, wanted = index_elements(stored, place.schema), index_elements(requested, place.schema)
        if present is not None and wanted is not None:
            yield from self.elements(present, wanted, place)
        elif len(stored) == len(requested):
            for index, (before, after) in enumerate(zip(stored, requested, strict=True)):
                if before != after:
                    yield from self.values(before, after, place.element(index))
        else:
            yield place.difference(requested, stored)

    def elements(
        self, stored: dict[Identity, JSONObject], requested: dict[Identity, JSONObject], place: _Location
    ) -> Iterator[MemberDifference]:
        places = {identity: number for number, identity in enumerate(stored)}
        for number, (identity, value) in enumerate(requested.items()):
            present = stored.get(identity, ABSENT)
            if present != value:
                yield from self.values(present, value, place.element(places.get(identity, number), identity))
        for identity, element in stored.items():
            if identity not in requested:
                yield place.element(places[identity], identity).difference(ABSENT, element)
        order, stored_order = [one for one in requested if one in stored], [one for one in stored if one in requested]
        if order != stored_order and not self.leaves:
            yield place.difference(order, stored_order)


def _make_empty(requested: JSON, schema: MergeSchema) -> JSON:
    if isinstance(requested, dict):
        return {}
    return [] if isinstance(requested, list) and schema.identity else ABSENT


def _same_scalar(stored: JSON, requested: JSON, tokens: tuple[str, ...], *, by_text: bool) -> bool:
    if stored == requested or (stored is ABSENT and requested is None):
        return True
    are_scalars = all(isinstance(one, (str, int, float)) and not isinstance(one, bool) for one in (stored, requested))
    if not are_scalars or not _QUANTITY.search("/" + "/".join(tokens)):
        return False
    try:
        if by_text:
            return stored_quantity(str(stored)) == stored_quantity(str(requested))
        return Quantity.parse(stored) == Quantity.parse(requested)
    except ValueError:
        return False


CONTAINER_LISTS: Final = ("containers", "initContainers")
