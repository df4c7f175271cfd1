"""Compares a stored workload with the requested one, member by member.

An apiserver does not store an object exactly as sent: it adds defaults, drops empty members and unknown fields, and
writes quantities in canonical form. So the comparison is by meaning: quantities by value, list elements by merge key,
and null as an absent member.
"""

import re
from collections.abc import Iterator, Sequence
from enum import Enum
from hashlib import sha256
from typing import Final, NamedTuple

import msgspec

from fleethook.engines.overrider.render.keyed_elements import Identity, describe_identity, index_elements
from fleethook.model.formats.quantity import Quantity
from fleethook.model.json import JSON, JSONObject
from fleethook.model.merge_keys import WORKLOAD, MergeSchema
from fleethook.patch import format_pointer

_NO_SCHEMA: Final = MergeSchema()
# Members of type resource.Quantity in k8s.io/api core/v1.
_QUANTITY: Final = re.compile(r"/(resources/(limits|requests)|overhead)/[^/]+$|/(sizeLimit|divisor)$")


class Absent(Enum):
    """The value of an absent member, which differs from null."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT


class Difference(NamedTuple):
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


def find_value(document: JSON, address: Sequence[str], schema: MergeSchema = WORKLOAD) -> JSON:
    """Return the value at the address of a difference, `ABSENT` if there is none."""
    for token in address:
        if isinstance(document, dict):
            document, schema = document.get(token, ABSENT), schema.fields.get(token, _NO_SCHEMA)
        elif isinstance(document, list):
            elements = index_elements(document, schema)
            named: dict[str, JSON] = (
                {f"[{index}]": element for index, element in enumerate(document)}
                if elements is None
                else {describe_identity(identity, schema): element for identity, element in elements.items()}
            )
            document, schema = named.get(token, ABSENT), MergeSchema(schema.fields)
        else:
            return ABSENT
    return document


def is_empty(value: JSON) -> bool:
    """Return whether ``value`` is null, false, zero, or has only such members, as Go's ``omitempty`` drops them."""
    if isinstance(value, dict):
        return all(map(is_empty, value.values()))
    if isinstance(value, list):
        return all(map(is_empty, value))
    return not value


def find_differences(
    stored: JSONObject, requested: JSONObject, *, schema: MergeSchema = WORKLOAD, leaves: bool = False
) -> tuple[Difference, ...]:
    """Return the differences between ``stored`` and ``requested``.

    Args:
        stored: The workload as the apiserver returns it.
        requested: The workload as requested.
        schema: Merge keys.
        leaves: Whether to list each leaf of an object or keyed list that is not stored, and to ignore the order of
            list elements.
    """
    return tuple(_Comparison(leaves).objects(stored, requested, _Location((), (), schema)))


def fingerprint(differences: Sequence[Difference]) -> str:
    """Return a short text that is equal for equal differences in any order."""
    parts = sorted(
        msgspec.json.encode([one.address, _wrap_value(one.requested), _wrap_value(one.stored)], order="deterministic")
        for one in differences
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

    def difference(self, requested: JSON, stored: JSON) -> Difference:
        return Difference(format_pointer(self.tokens), self.address, requested, stored)


class _Comparison(NamedTuple):
    leaves: bool

    def values(self, stored: JSON, requested: JSON, place: _Location) -> Iterator[Difference]:
        if self.leaves and stored is ABSENT:
            stored = _make_empty(requested, place.schema)
        if isinstance(requested, dict) and isinstance(stored, dict):
            yield from self.objects(stored, requested, place)
        elif isinstance(requested, list) and isinstance(stored, list):
            yield from self.lists(stored, requested, place)
        elif not _same_scalar(stored, requested, place.tokens):
            yield place.difference(requested, stored)

    def objects(self, stored: JSONObject, requested: JSONObject, place: _Location) -> Iterator[Difference]:
        for name, value in requested.items():
            present = stored.get(name, ABSENT)
            # `!=` compares equal branches in C, so only differing objects and lists are compared member by member.
            if present != value and not (present is ABSENT and value is None):
                yield from self.values(present, value, place.member(name))
        for name, present in stored.items():
            if name not in requested and present is not None:
                yield place.member(name).difference(ABSENT, present)

    def lists(self, stored: list[JSON], requested: list[JSON], place: _Location) -> Iterator[Difference]:
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
    ) -> Iterator[Difference]:
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


def _same_scalar(stored: JSON, requested: JSON, tokens: tuple[str, ...]) -> bool:
    if stored == requested or (stored is ABSENT and requested is None):
        return True
    if not (_may_be_quantity(stored) and _may_be_quantity(requested) and _QUANTITY.search("/" + "/".join(tokens))):
        return False
    try:
        return Quantity.parse(stored) == Quantity.parse(requested)
    except ValueError:
        return False


def _may_be_quantity(value: JSON) -> bool:
    return isinstance(value, (str, int, float)) and not isinstance(value, bool)
