"""Defaults: the members that kube-apiserver adds to an object when it decodes it, before it asks any webhook.

``defaults.json`` has those of built-in kinds, and the members that Go always encodes. The source is k8s.io/kubernetes
v1.36 pkg/apis, defaults.go and zz_generated.defaults.go of each version. Under a kind, or a part that several kinds
have (``@pod``), it has rows:

- A path. ``a/*/b`` is the member ``b`` of each element of ``a``, if ``a`` exists. ``a/`` is the object ``a`` itself.
  ``a[m]`` stands for an ``a`` with the member ``m``, ``a[!m]`` without it, ``a[m=v]`` with this value, and ``a[alone]``
  for one without members besides ``name``. After ``b~``, zero counts as absent.
- A default. Members of an object are added to an existing one. ``@pod`` applies the rows of a part. ``=m`` copies the
  member ``m`` beside it, ``=/a/b`` one of the whole object. ``&m`` adds the members of ``m`` that are missing. ``?m``
  is the pull policy for the image ``m``. ``-`` drops a zero or an empty map, ``--`` any value.

Rows under ``CREATE`` and a kind are those of admission plugins of kube-apiserver's default set, which new objects pass
before webhooks. Rows under ``STORE`` are set before validating webhooks, with the members that every new object gets.

tests/conformance/admission_objects.yaml has objects that a kube-apiserver showed to webhooks.
"""

import base64
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import msgspec

from fleethook.model.formats.names_and_labels import NAMESPACE_LABEL
from fleethook.model.json import JSON, JSONObject, as_list, as_object, as_text, copy_json
from fleethook.workload_schema.stored_form_and_aliases import normalize_struct

_STRUCTS: Final = {
    "apps/v1 Deployment": "apps.v1.Deployment", "apps/v1 StatefulSet": "apps.v1.StatefulSet",
    "@pod": "core.v1.PodSpec", "@claim": "core.v1.PersistentVolumeClaimSpec",
}  # fmt: skip
METADATA: Final = "meta.v1.ObjectMeta"
"""The struct of metadata."""
_TOKEN: Final = re.compile(r"([^\[]*)((?:\[[^\]]+\])*)")


class _Step(NamedTuple):
    """A token of a path."""

    name: str
    """A member, ``*`` for each element, ``""`` for the value itself."""
    conditions: tuple[str, ...]


class _Row(NamedTuple):
    """A default and its place."""

    steps: tuple[_Step, ...]
    """The way to the object that gets the default."""
    member: str
    """The member of this object, ``""`` for the object itself."""
    default: JSON


def knows_defaults(document: Mapping[str, JSON]) -> bool:
    """Return whether the object is of a built-in kind whose defaults are known."""
    return _name_kind(document) in _load_rows()


def set_defaults(document: JSONObject) -> JSONObject:
    """Return an object of a built-in kind as kube-apiserver decodes it; an object of another kind stays unchanged.

    Unknown members, and zero values that Go leaves out, are dropped where the types are known: in metadata,
    Deployments, StatefulSets, and specs of Pods and PersistentVolumeClaims.
    """
    kind = _name_kind(document)
    if not knows_defaults(document):
        return document
    shown: JSONObject = copy_json(document)
    if isinstance(shown.get("metadata"), dict):
        _normalize(shown["metadata"], METADATA)
    _apply(kind, shown, shown)
    if kind in _CONVERSIONS:
        _CONVERSIONS[kind](shown)
    return shown


def add_defaults(document: JSONObject) -> JSONObject:
    """Return an object with the defaults of its built-in kind. It keeps all members: an apiserver may be newer."""
    added: JSONObject = _add_missing(document, set_defaults(document))
    return added


def _add_missing(value: JSON, shown: JSON) -> Any:
    if isinstance(value, dict) and isinstance(shown, dict):
        added = {name: one for name, one in shown.items() if value.get(name) is None}
        return {**{name: _add_missing(one, shown.get(name)) for name, one in value.items()}, **added}
    if isinstance(value, list) and isinstance(shown, list) and len(value) == len(shown):
        return [_add_missing(one, other) for one, other in zip(value, shown, strict=True)]
    return value


def set_created(document: JSONObject, *, step: Literal["CREATE", "STORE"]) -> None:
    """Set the members that kube-apiserver sets in a new object, in this object."""
    part = f"{step} {_name_kind(document)}"
    if part in _load_rows():
        _apply(part, document, document)


def _label_namespace(namespace: JSONObject) -> None:
    metadata = as_object(namespace.get("metadata"))
    if metadata.get("name"):
        namespace["metadata"]["labels"] = {**as_object(metadata.get("labels")), NAMESPACE_LABEL: metadata["name"]}


def _encode_data(secret: JSONObject) -> None:
    """Move ``stringData`` into ``data``."""
    if texts := as_object(secret.pop("stringData", None)):
        data = {name: base64.b64encode(as_text(text).encode()).decode() for name, text in texts.items()}
        secret["data"] = {**as_object(secret.get("data")), **data}


def _name_definition(definition: JSONObject) -> None:
    names = as_object(as_object(definition.get("spec")).get("names"))
    if kind := as_text(names.get("kind")):
        _merge(definition["spec"]["names"], {"singular": kind.lower(), "listKind": f"{kind}List"})


_CONVERSIONS: Final[Mapping[str, Callable[[JSONObject], None]]] = {
    "v1 Namespace": _label_namespace,
    "v1 Secret": _encode_data,
    "apiextensions.k8s.io/v1 CustomResourceDefinition": _name_definition,
}


def _name_kind(document: Mapping[str, JSON]) -> str:
    return f"{document.get('apiVersion')} {document.get('kind')}"


# msgspec describes a type at its first use. In two threads at once, this crashes the process.
_decode_table: Final = msgspec.json.Decoder(dict[str, dict[str, JSON]]).decode


@cache
def _load_rows() -> Mapping[str, tuple[_Row, ...]]:
    text = Path(__file__).with_name("defaults.json").read_bytes()
    return {part: tuple(_make_row(*one) for one in rows.items()) for part, rows in _decode_table(text).items()}


def _make_row(path: str, default: JSON) -> _Row:
    steps = []
    for token in path.split("/"):
        found = _TOKEN.fullmatch(token)
        assert found is not None, path
        steps.append(_Step(found[1], tuple(found[2][1:-1].split("][")) if found[2] else ()))
    return _Row(tuple(steps[:-1]), steps[-1].name, default)


def _apply(part: str, holder: JSONObject, root: JSONObject) -> None:
    """Set the defaults of a part in an object that belongs to this module."""
    if part in _STRUCTS:
        _normalize(holder, _STRUCTS[part])
    for row in _load_rows()[part]:
        for found in _reach(holder, row.steps):
            _set(found, row, root)


def _reach(value: JSON, steps: Sequence[_Step]) -> Iterator[JSONObject]:
    """Yield the objects at the end of a path."""
    if not steps:
        if isinstance(value, dict):
            yield value
        return
    name, conditions = steps[0]
    inner = [value] if name == "" else [as_object(value).get(name)]
    if name == "*":
        inner = as_list(value)
    for one in inner:
        if all(_holds(as_object(one), condition) for condition in conditions):
            yield from _reach(one, steps[1:])


def _holds(holder: Mapping[str, JSON], condition: str) -> bool:
    member, is_compared, wanted = condition.partition("=")
    if condition == "alone":
        return not holder.keys() - {"name"}
    if is_compared:
        value = holder.get(member)
        return value == wanted or (value is True and wanted == "true")
    return _is_absent(holder.get(member.removeprefix("!"))) == member.startswith("!")


def _set(holder: JSONObject, row: _Row, root: JSONObject) -> None:
    member, default = row.member, row.default
    mark = default[:1] if isinstance(default, str) else ""
    if mark == "@":
        _apply(default, holder, root)
    elif mark == "-":
        if default == "--" or not holder.get(member):
            holder.pop(member, None)
    elif mark in ("=", "&", "?"):
        for source in default.split():
            is_set = source[0] != "&" and holder.get(member.removesuffix("~"))
            if not is_set and (derived := _derive(source, holder, root)) is not None:
                _fill(holder, member, derived)
    elif member:
        _fill(holder, member, default)
    else:
        _merge(holder, default)


def _derive(source: str, holder: JSONObject, root: JSONObject) -> JSON:
    """Return a default that depends on other members; None if they are absent."""
    mark, path = source[0], source[1:]
    found: JSON = holder
    for token in path.split("/"):
        found = as_object(found).get(token) if token else root
    if mark == "?":
        return find_pull_policy(as_text(found))
    return found or None


def find_pull_policy(image: str) -> str:
    """Return the default pull policy: Always for an image that has the tag latest, or neither tag nor digest."""
    name, _, digest = image.partition("@")
    _, _, tag = name.rpartition("/")[2].partition(":")
    return "Always" if tag == "latest" or not (tag or digest or not name) else "IfNotPresent"


def _merge(holder: JSONObject, defaults: Mapping[str, JSON]) -> None:
    for name, default in defaults.items():
        _fill(holder, name, default)


def _fill(holder: JSONObject, member: str, default: JSON) -> None:
    """Set a default of a member, or those of the members of an object."""
    name = member.removesuffix("~")
    given = holder.get(name)
    if _is_absent(given) or (member != name and given == 0):
        holder[name] = {} if isinstance(default, dict) else copy_json(default)
    if isinstance(default, dict) and isinstance(holder[name], dict):
        _merge(holder[name], default)


def _is_absent(value: JSON) -> bool:
    return value is None or value in ("", [])


def _normalize(holder: JSONObject, struct: str) -> None:
    stored = {**normalize_struct(struct, holder)}
    holder.clear()
    holder.update(stored)


# These have defaults that depend on other members.
_DERIVED: Final = frozenset({"hostPort", "imagePullPolicy", "pullPolicy", "requests", "serviceAccount"})
# Go encodes these always.
_REQUIRED: Final = frozenset({"", "metadata", "serviceName", "spec", "status", "template"})
_ELEMENT: Final = "*"
"""One element of a list."""


# The paths of a fleet's templates are few, but a template may have any.
@lru_cache(maxsize=4096)
def find_default(tokens: tuple[str, ...]) -> JSON:
    """Return the value that kube-apiserver fills in for an absent member of a workload, None if it fills in none.

    Args:
        tokens: The names of the members on the way to it, ``*`` for an element of a list. A default that depends on
            other members, such as that of ``imagePullPolicy``, is not known.
    """
    if not tokens or tokens[-1] in _DERIVED | _REQUIRED:
        return None
    sample: JSON = {}
    for token in reversed(tokens[:-1]):
        sample = [sample] if token == _ELEMENT else {token: sample}
    for kind in ("Deployment", "StatefulSet"):
        found: JSON = set_defaults({"apiVersion": "apps/v1", "kind": kind, **as_object(sample)})
        for token in tokens:
            found = found[0] if token == _ELEMENT and isinstance(found, list) else as_object(found).get(token)
        if found is not None:
            return found
    return None


def parse_place(pointer: str) -> tuple[str, ...]:
    """Return the tokens of a JSON pointer for `find_default`.

    List elements may be addressed by index or by ``[name=app]``. No field has a ``/`` or ``~`` in its name, so the
    tokens need no unescaping.
    """
    tokens = pointer.split("/")[1:]
    return tuple(_ELEMENT if token.isdecimal() or token.startswith("[") else token for token in tokens)


def explain_missing(pointer: str) -> str:
    """Return the hint for a ``replace`` or ``remove`` of a field that the template does not have, ``""`` for none.

    Args:
        pointer: The JSON pointer of the missing field in the workload.
    """
    tokens = parse_place(pointer)
    if find_default(tokens) is None and (not tokens or tokens[-1] not in _DERIVED):
        return ""
    return f"Kubernetes fills in {tokens[-1]} later and the template does not set it: to set it, use operation add"


# The defaults of kube-apiserver in the elements of atomic lists: fieldRef, resourceFieldRef, serviceAccountToken, HTTP
# headers.
_DEFAULTS_IN_LISTS: Final[Mapping[str, JSON]] = {
    "apiVersion": "v1", "divisor": "0", "expirationSeconds": 3600, "value": ""
}  # fmt: skip


def differs_by_defaults(current: JSON, desired: JSON) -> bool:
    """Return whether ``current``, an element of an atomic list, equals ``desired`` except for defaults."""
    if current == desired:
        return True
    if type(desired) is dict:
        return (
            type(current) is dict
            and desired.keys() <= current.keys()
            and all(
                differs_by_defaults(value, desired[name]) if name in desired else _DEFAULTS_IN_LISTS.get(name) == value
                for name, value in current.items()
            )
        )
    if type(desired) is list:
        return (
            type(current) is list and len(current) == len(desired) and all(map(differs_by_defaults, current, desired))
        )
    return False
