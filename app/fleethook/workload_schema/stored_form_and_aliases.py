"""Computes the form in which kube-apiserver stores a Deployment or StatefulSet, before it adds its defaults.

The apiserver decodes a document into Go structs and encodes them again. It drops unknown members, nulls, and zero
values of fields with ``omitempty``, and it rewrites quantities.
"""

from collections.abc import Callable, Mapping
from functools import cache
from operator import is_
from typing import Final, NamedTuple

import msgspec

from fleethook.model.formats.quantity import stored_quantity, stored_resource
from fleethook.model.json import ABSENT, JSON, JSONObject
from fleethook.workload_schema.go_structs import ZEROS, Field, Kind, load_structs, root_name


def normalize_workload(document: JSONObject, kind: Kind) -> JSONObject:
    """Return a workload as kube-apiserver stores it, without the defaults that it adds.

    Values of a wrong type stay unchanged, because the apiserver refuses them. Times stay unchanged, too, although the
    apiserver rewrites them in UTC. Objects without changes are the given objects.
    """
    normalized: JSONObject = _compile_rules(kind)(document, _Decoding({}, keeps_unknown=False))
    return normalized


def encode_workload(document: JSONObject, kind: Kind) -> JSONObject:
    """Return a workload like `normalize_workload`, but as a client with Go types encodes it.

    Such a client neither rounds quantities, as the defaults of kube-apiserver do, nor sets aliases.
    """
    encoded: JSONObject = _compile_rules(kind)(document, _Decoding({}, keeps_unknown=False, converts=False))
    return encoded


def normalize_struct(struct: str, value: JSONObject) -> JSONObject:
    """Return a value of a struct, such as ``core.v1.PodSpec``, as `normalize_workload` does."""
    normalized: JSONObject = _compile_named(struct)(value, _Decoding({}, keeps_unknown=False))
    return normalized


def decode_workload(document: JSONObject, kind: Kind) -> JSONObject:
    """Return a workload like `normalize_workload`, but with unknown members."""
    decoded: JSONObject = _compile_rules(kind)(document, _Decoding({}))
    return decoded


class DecodedParts:
    """The decoded parts of a workload. Other workloads that share these parts need not decode them again."""

    __slots__ = ("_known", "document")

    def __init__(self, document: JSONObject, kind: Kind) -> None:
        """Decode a workload as `decode_workload` does, and remember its parts."""
        self._known: Final[dict[int, _Known]] = {}
        self.document: Final[JSONObject] = _compile_rules(kind)(document, _Decoding(self._known, remembers=True))
        """The decoded workload."""

    def decode(self, document: JSONObject, kind: Kind) -> JSONObject:
        """Decode another workload like `decode_workload`, and reuse the decoded parts."""
        decoded: JSONObject = _compile_rules(kind)(document, _Decoding(self._known))
        return decoded


class _Known(NamedTuple):
    """An object that was decoded before. Keeping it ensures that no other object gets its id."""

    given: JSONObject
    stored: JSON
    members: "Mapping[str, _Member]"
    """The members of its struct."""


class _Decoding(NamedTuple):
    """The choices of one caller."""

    known: dict[int, _Known]
    """The objects that were decoded before, by their ids."""
    remembers: bool = False
    keeps_unknown: bool = True
    converts: bool = True
    """Whether the conversions and defaults of kube-apiserver are part of the result."""


_Rule = Callable[[JSON, _Decoding], JSON]
"""Returns the stored form of a value."""


class _Member(NamedTuple):
    """The normalization of a member of a struct."""

    rule: _Rule | None
    """The rule for the value, None if it is stored unchanged."""
    omitted: type | None
    """The type whose zero value is dropped, None if none is."""


def _compile_rules(kind: Kind) -> _Rule:
    return _compile_named(root_name(kind))


@cache
def _compile_named(struct: str) -> _Rule:
    """Return the rule for a struct, compiled once."""
    return _compile_struct(struct, {})


def _compile_struct(name: str, compiled: dict[str, _Rule]) -> _Rule:
    if name not in compiled:
        members: dict[str, _Member] = {}
        # Registered before its members are compiled, because a struct may contain itself.
        rule = _make_struct_rule(members)
        compiled[name] = _CONVERSIONS[name](rule) if name in _CONVERSIONS else rule
        members.update(
            (json_name, _compile_member(field, compiled)) for json_name, field in load_structs()[name].items()
        )
    return compiled[name]


def _compile_member(field: Field, compiled: dict[str, _Rule]) -> _Member:
    # Protobuf does not distinguish an empty list from an absent one. Without `omitempty`, Go encodes it as null, so it
    # is dropped as well.
    is_omitted = field.omit != "" or field.type.startswith("[]")
    return _Member(_compile_type(field.type, compiled), _find_zero_type(field.type) if is_omitted else None)


def _compile_type(type_: str, compiled: dict[str, _Rule]) -> _Rule | None:
    if type_ in _LEAVES:
        return _LEAVES[type_]
    if type_.startswith("*"):
        return _compile_type(type_[1:], compiled)
    for prefix, make_rule in (("[]", _make_list_rule), ("map[string]", _make_map_rule)):
        if type_.startswith(prefix):
            inner = type_.removeprefix(prefix)
            return make_rule(_compile_type(inner, compiled), ZEROS.get(inner, {}))
    return _compile_struct(type_, compiled)


def _find_zero_type(type_: str) -> type | None:
    """Return the type of the value that ``omitempty`` drops; pointers and structs have none."""
    if type_.startswith("[]"):
        return list
    if type_.startswith("map[string]") or type_ == "ResourceList":
        return dict
    return type(ZEROS[type_]) if type_ in ZEROS else None


def _make_struct_rule(members: Mapping[str, _Member]) -> _Rule:
    def normalize(value: JSON, decoding: _Decoding) -> JSON:
        if not isinstance(value, dict):
            return value
        before = decoding.known.get(id(value))
        if before is not None and before.members is members:
            return before.stored
        changes = _find_changes(value, members, decoding)
        stored = _apply_changes(value, changes) if changes else value
        if decoding.remembers:
            decoding.known[id(value)] = _Known(value, stored, members)
        return stored

    return normalize


def _find_changes(value: JSONObject, members: Mapping[str, _Member], decoding: _Decoding) -> dict[str, JSON]:
    """Return the members of a struct whose stored form differs from the given value."""
    changes: dict[str, JSON] = {}
    for name, given in value.items():
        member = members.get(name)
        if member is None:
            if not decoding.keeps_unknown:
                changes[name] = ABSENT
        elif given is None or (not given and type(given) is member.omitted):
            changes[name] = ABSENT
        elif member.rule is not None:
            stored = member.rule(given, decoding)
            if stored is not given:
                changes[name] = stored
    return changes


def _apply_changes(value: JSONObject, changes: Mapping[str, JSON]) -> JSONObject:
    merged = {name: changes.get(name, given) for name, given in value.items()}
    return {name: given for name, given in merged.items() if given is not ABSENT}


def _make_list_rule(rule: _Rule | None, zero: JSON) -> _Rule:
    def normalize(value: JSON, decoding: _Decoding) -> JSON:
        if not isinstance(value, list):
            return value
        stored = [_store_element(given, rule, zero, decoding) for given in value]
        return value if all(map(is_, stored, value)) else stored

    return normalize


def _make_map_rule(rule: _Rule | None, zero: JSON) -> _Rule:
    def normalize(value: JSON, decoding: _Decoding) -> JSON:
        if not isinstance(value, dict):
            return value
        stored = {key: _store_element(given, rule, zero, decoding) for key, given in value.items()}
        return value if all(map(is_, stored.values(), value.values())) else stored

    return normalize


def _store_element(given: JSON, rule: _Rule | None, zero: JSON, decoding: _Decoding) -> JSON:
    """Return an element of a list or a map, where null means the zero value."""
    if given is None:
        return zero
    return given if rule is None else rule(given, decoding)


def _make_quantity_rule(text_of: Callable[[str], str]) -> _Rule:
    def normalize(value: JSON, decoding: _Decoding) -> JSON:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            return value
        try:
            written = value if isinstance(value, str) else msgspec.json.encode(value).decode()
            text = text_of(written) if decoding.converts else stored_quantity(written)
        except ValueError:
            return value
        return value if text == value else text

    return normalize


def _add_alias_rule(normalize: _Rule) -> _Rule:
    """Copy ``serviceAccountName`` to its deprecated alias, like Kubernetes' conversion of PodSpec."""

    def with_alias(value: JSON, decoding: _Decoding) -> JSON:
        spec = normalize(value, decoding)
        if not decoding.converts:
            return spec
        names = (spec.get("serviceAccount"), spec.get("serviceAccountName")) if isinstance(spec, dict) else ()
        if names and all(isinstance(name, str) for name in names) and names[0] != names[1]:
            return {**spec, "serviceAccount": names[1]}
        return spec

    return with_alias


def _add_claim_type_rule(normalize: _Rule) -> _Rule:
    """Set the type of a volume claim template, like Kubernetes' conversion of StatefulSetSpec."""

    def with_type(value: JSON, decoding: _Decoding) -> JSON:
        claim = normalize(value, decoding)
        if not isinstance(claim, dict) or not decoding.converts:
            return claim
        changes = {
            name: type_
            for name, type_ in _CLAIM_TYPE.items()
            if isinstance(claim.get(name), str) and claim[name] != type_
        }
        return {**claim, **changes} if changes else claim

    return with_type


_CLAIM_TYPE: Final = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}

_CONVERSIONS: Final[Mapping[str, Callable[[_Rule], _Rule]]] = {
    "core.v1.PersistentVolumeClaim": _add_claim_type_rule,
    "core.v1.PodSpec": _add_alias_rule,
}

_LEAVES: Final[Mapping[str, _Rule | None]] = {
    "string": None, "bool": None, "int32": None, "int64": None, "IntOrString": None, "Time": None, "Raw": None,
    "Quantity": _make_quantity_rule(stored_quantity),
    "ResourceList": _make_map_rule(_make_quantity_rule(stored_resource), "0"),
}  # fmt: skip
