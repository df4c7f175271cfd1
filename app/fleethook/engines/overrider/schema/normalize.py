"""Computes the form in which kube-apiserver stores a Deployment or StatefulSet, before it adds its defaults.

The apiserver decodes a document into Go structs and encodes them again. It drops unknown members, nulls, and zero
values of fields with ``omitempty``, and it rewrites quantities.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Final, NamedTuple

import msgspec

from fleethook.engines.overrider.schema.go_structs import Field, Kind, Struct, load_structs, root_name
from fleethook.model.formats.quantity_text import stored_quantity, stored_resource
from fleethook.model.json import JSON, JSONObject
from fleethook.patch import format_pointer


class Normalized(NamedTuple):
    """A document in stored form."""

    document: JSONObject
    """The stored form; objects without changes are the given objects."""
    pruned: tuple[str, ...]
    """JSON pointers of the unknown members in the given document, which the apiserver drops."""


def normalize_workload(document: JSONObject, kind: Kind) -> Normalized:
    """Return a workload as kube-apiserver stores it, without the defaults that it adds.

    Values of a wrong type stay unchanged, because the apiserver refuses them. Times stay unchanged, too, although the
    apiserver rewrites them in UTC.
    """
    pruned: list[str] = []
    normalized = _compile_rules(kind)(document, None, _Notes(pruned, {}, remember=False))
    return Normalized(normalized, tuple(pruned))


def decode_workload(document: JSONObject, kind: Kind) -> JSONObject:
    """Return a workload like `normalize_workload`, but with unknown members."""
    decoded: JSONObject = _compile_rules(kind)(document, None, _Notes(None, {}, remember=False))
    return decoded


class DecodedParts:
    """The decoded parts of a workload. Other workloads that share these parts need not decode them again."""

    __slots__ = ("_known", "document")

    def __init__(self, document: JSONObject, kind: Kind) -> None:
        """Decode a workload as `decode_workload` does, and remember its parts."""
        self._known: Final[dict[int, _Known]] = {}
        self.document: Final[JSONObject] = _compile_rules(kind)(
            document, None, _Notes(None, self._known, remember=True)
        )
        """The decoded workload."""

    def decode(self, document: JSONObject, kind: Kind) -> JSONObject:
        """Decode another workload like `decode_workload`, and reuse the decoded parts."""
        decoded: JSONObject = _compile_rules(kind)(document, None, _Notes(None, self._known, remember=False))
        return decoded


class _Path(NamedTuple):
    """The path of a value: built for each object on the way down, read only if a member is pruned."""

    parent: "_Path | None"
    token: str | int


class _Known(NamedTuple):
    """An object that was decoded before. Keeping it ensures that no other object gets its id."""

    given: JSONObject
    stored: JSON
    members: "Mapping[str, _Member]"
    """The members of its struct."""


class _Notes:
    """The results that rules collect while they normalize a document."""

    __slots__ = ("known", "pruned", "remember")

    def __init__(self, pruned: list[str] | None, known: dict[int, _Known], *, remember: bool) -> None:
        self.pruned: Final = pruned
        """Collects the pointers of unknown members, which are dropped; None to keep these members."""
        self.known: Final = known
        self.remember: Final = remember


_Rule = Callable[[JSON, _Path | None, _Notes], JSON]
"""Returns the stored form of a value at a path."""

_UNKNOWN: Final = object()


class _Member(NamedTuple):
    """The normalization of a member of a struct."""

    rule: _Rule | None
    """The rule for the value, None if it is stored unchanged."""
    zeros: tuple[JSON, ...]
    """Values that are dropped if value and type are equal."""


@cache
def _compile_rules(kind: Kind) -> _Rule:
    """Return the rule for a kind, compiled once."""
    compiler = _Compiler(load_structs())
    return compiler.struct(root_name(kind))


class _Compiler:
    """Turns the fields of structs into closures."""

    def __init__(self, structs: Mapping[str, Struct]) -> None:
        self._structs = structs
        self._compiled: dict[str, _Rule] = {}

    def struct(self, name: str) -> _Rule:
        if name not in self._compiled:
            members: dict[str, _Member] = {}
            # Registered before its members are compiled, because a struct may contain itself.
            self._compiled[name] = _CONVERSIONS.get(name, _keep_rule)(_make_struct_rule(members))
            members.update((json_name, self._member(field)) for json_name, field in self._structs[name].items())
        return self._compiled[name]

    def _member(self, field: Field) -> _Member:
        # Protobuf does not distinguish an empty list from an absent one. Without `omitempty`, Go encodes it as null, so
        # it is dropped as well.
        omitted = field.omit != "" or field.type.startswith("[]")
        return _Member(self._rule(field.type), _list_zeros(field.type) if omitted else ())

    def _rule(self, type_: str) -> _Rule | None:
        if type_ in _LEAVES:
            return _LEAVES[type_]
        for prefix, container in (("*", None), ("[]", _make_list_rule), ("map[string]", _make_map_rule)):
            if type_.startswith(prefix):
                inner = type_.removeprefix(prefix)
                return container(self._rule(inner), _get_zero(inner)) if container else self._rule(inner)
        return self.struct(type_)


def _list_zeros(type_: str) -> tuple[JSON, ...]:
    """Return the values that ``omitempty`` drops; pointers and structs have none."""
    if type_.startswith("[]"):
        return ([],)
    if type_.startswith("map[string]") or type_ == "ResourceList":
        return ({},)
    return (_SCALAR_ZEROS[type_],) if type_ in _SCALAR_ZEROS else ()


def _get_zero(type_: str) -> JSON:
    """Return the zero value of a type, which null means in a list and as the value of a key."""
    return _SCALAR_ZEROS.get(type_, {})


_SCALAR_ZEROS: Final[Mapping[str, JSON]] = {"string": "", "bool": False, "int32": 0, "int64": 0}


def _make_struct_rule(members: Mapping[str, _Member]) -> _Rule:
    def normalize(value: JSON, path: _Path | None, notes: _Notes) -> JSON:
        if not isinstance(value, dict):
            return value
        before = notes.known.get(id(value))
        if before is not None and before.members is members:
            return before.stored
        changes = _find_changes(value, members, path, notes)
        stored = _apply_changes(value, changes) if changes else value
        if notes.remember:
            notes.known[id(value)] = _Known(value, stored, members)
        return stored

    return normalize


def _find_changes(
    value: JSONObject, members: Mapping[str, _Member], path: _Path | None, notes: _Notes
) -> dict[str, JSON]:
    """Return the members of a struct whose stored form differs from the given value."""
    changes: dict[str, JSON] = {}
    for name, given in value.items():
        member = members.get(name)
        if member is None:
            if notes.pruned is not None:
                notes.pruned.append(_format_path(_Path(path, name)))
                changes[name] = _UNKNOWN
        elif given is None or (member.zeros and _is_zero(given, member.zeros)):
            changes[name] = _UNKNOWN
        elif member.rule is not None:
            stored = member.rule(given, _extend_path(path, name, notes), notes)
            if stored is not given:
                changes[name] = stored
    return changes


def _extend_path(path: _Path | None, token: str | int, notes: _Notes) -> _Path | None:
    """Return the path of a member, None if the caller collects no paths."""
    return None if notes.pruned is None else _Path(path, token)


def _is_zero(value: JSON, zeros: tuple[JSON, ...]) -> bool:
    return not value and type(value) is type(zeros[0])


def _apply_changes(value: JSONObject, changes: Mapping[str, JSON]) -> JSONObject:
    merged = {name: changes.get(name, given) for name, given in value.items()}
    return {name: given for name, given in merged.items() if given is not _UNKNOWN}


def _make_list_rule(rule: _Rule | None, zero: JSON) -> _Rule | None:
    def normalize(value: JSON, path: _Path | None, notes: _Notes) -> JSON:
        if not isinstance(value, list):
            return value
        stored = [
            zero if given is None else given if rule is None else rule(given, _extend_path(path, index, notes), notes)
            for index, given in enumerate(value)
        ]
        return value if all(map(_is_same, stored, value)) else stored

    return normalize


def _make_map_rule(rule: _Rule | None, zero: JSON) -> _Rule | None:
    def normalize(value: JSON, path: _Path | None, notes: _Notes) -> JSON:
        if not isinstance(value, dict):
            return value
        stored = {
            key: zero
            if given is None
            else given
            if rule is None
            else rule(given, _extend_path(path, key, notes), notes)
            for key, given in value.items()
        }
        return value if all(map(_is_same, stored.values(), value.values())) else stored

    return normalize


def _is_same(left: JSON, right: JSON) -> bool:
    return left is right


def _make_quantity_rule(text_of: Callable[[str], str]) -> _Rule:
    def normalize(value: JSON, _path: _Path | None, _notes: _Notes) -> JSON:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            return value
        try:
            text = text_of(value if isinstance(value, str) else msgspec.json.encode(value).decode())
        except ValueError:
            return value
        return value if text == value else text

    return normalize


def _add_alias_rule(normalize: _Rule) -> _Rule:
    """Copy ``serviceAccountName`` to its deprecated alias, like Kubernetes' conversion of PodSpec."""

    def with_alias(value: JSON, path: _Path | None, notes: _Notes) -> JSON:
        spec = normalize(value, path, notes)
        names = (spec.get("serviceAccount"), spec.get("serviceAccountName")) if isinstance(spec, dict) else ()
        if names and all(isinstance(name, str) for name in names) and names[0] != names[1]:
            return {**spec, "serviceAccount": names[1]}
        return spec

    return with_alias


def _add_claim_type_rule(normalize: _Rule) -> _Rule:
    """Set the type of a volume claim template, like Kubernetes' conversion of StatefulSetSpec."""

    def with_type(value: JSON, path: _Path | None, notes: _Notes) -> JSON:
        claim = normalize(value, path, notes)
        if not isinstance(claim, dict):
            return claim
        changes = {
            name: type_
            for name, type_ in _CLAIM_TYPE.items()
            if isinstance(claim.get(name), str) and claim[name] != type_
        }
        return {**claim, **changes} if changes else claim

    return with_type


_CLAIM_TYPE: Final = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}


def _keep_rule(normalize: _Rule) -> _Rule:
    return normalize


_CONVERSIONS: Final[Mapping[str, Callable[[_Rule], _Rule]]] = {
    "core.v1.PersistentVolumeClaim": _add_claim_type_rule,
    "core.v1.PodSpec": _add_alias_rule,
}

_LEAVES: Final[Mapping[str, _Rule | None]] = {
    "string": None, "bool": None, "int32": None, "int64": None, "IntOrString": None, "Time": None, "Raw": None,
    "Quantity": _make_quantity_rule(stored_quantity),
    "ResourceList": _make_map_rule(_make_quantity_rule(stored_resource), "0"),
}  # fmt: skip


def _format_path(path: _Path) -> str:
    tokens: list[str] = []
    at: _Path | None = path
    while at is not None:
        tokens.append(str(at.token))
        at = at.parent
    return format_pointer(tokens[::-1])
