"""What a stored workload lacks of what was requested, member by member.

An apiserver does not store an object exactly as it was sent: it adds defaults, drops empty members and members that it
does not know, and writes quantities in canonical form. So a stored object is compared by what it says: quantities by
value, list elements by their merge key, nulls as absent members.
"""

import re
from collections.abc import Iterator, Sequence
from enum import Enum
from hashlib import sha256
from typing import Final, NamedTuple

import msgspec

from app.model.json import JSON, JSONObject
from app.model.merge_keys import WORKLOAD, MergeSchema
from app.model.quantity import Quantity
from app.overrider.elements import Identity, describe_identity, index_elements
from app.patch import format_pointer

_NO_SCHEMA: Final = MergeSchema()
# Members of type resource.Quantity in k8s.io/api core/v1.
_QUANTITY: Final = re.compile(r"/(resources/(limits|requests)|overhead)/[^/]+$|/(sizeLimit|divisor)$")


class Absent(Enum):
    """A member that is not there, which is something else than null."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT


class Difference(NamedTuple):
    """One member that is not stored as it was requested."""

    pointer: str
    """Where, as JSON pointer into the stored workload (into the requested one for what is not stored)."""
    address: tuple[str, ...]
    """The same with list elements by merge key, so that it survives that an element is put before."""
    requested: JSON
    """`ABSENT` for a member that is to be removed."""
    stored: JSON
    """`ABSENT` for a member that is not stored."""

    @property
    def insignificant(self) -> bool:
        """Whether it is only a default or an empty value, as any apiserver adds and drops them.

        A removed member that is there again was defaulted. A removed list element never comes back as a default.
        """
        if self.requested is ABSENT:
            return not self.address[-1].startswith("[")
        return is_empty(self.requested)


def is_empty(value: JSON) -> bool:
    """Return whether ``value`` is null, false, zero, or holds nothing else: what Go leaves out with ``omitempty``."""
    if isinstance(value, dict):
        return all(map(is_empty, value.values()))
    if isinstance(value, list):
        return all(map(is_empty, value))
    return not value


def find_differences(
    stored: JSONObject, requested: JSONObject, *, schema: MergeSchema = WORKLOAD, leaves: bool = False
) -> tuple[Difference, ...]:
    """Return where ``stored`` does not say what ``requested`` says.

    Args:
        stored: The workload as the apiserver holds it.
        requested: The workload as it should be.
        schema: Merge keys.
        leaves: Whether to name the leaves of objects and keyed lists that are not stored, and not to mind the order
            of list elements.
    """
    return tuple(_Comparison(leaves).objects(stored, requested, _Location((), (), schema)))


def fingerprint(differences: Sequence[Difference]) -> str:
    """Return a short text that is equal for equal differences, whatever the order."""
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
            # Equal branches are compared in C; an object or list is only taken apart where it differs.
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
