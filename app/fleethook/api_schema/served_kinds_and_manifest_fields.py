"""The kinds, versions and members that an apiserver serves, and findings about others.

CustomResourceDefinitions in the files decide about their kinds. For all others, the package data has the versions that
a supported apiserver serves. Nothing is known about other groups.

kube-apiserver drops a member that it does not know, and kubectl refuses the object ("unknown field"). Member names are
case-sensitive for both. Rules about single values are left to the checks of each kind.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import msgspec

from fleethook.model.formats.text import nearest
from fleethook.model.gvk import DEFINITION, GroupKind, gvk_of, parse_api_version
from fleethook.model.json import JSON, JSONObject, as_object, as_text, enumerate_objects
from fleethook.model.kcp import cluster_of
from fleethook.model.openyurt import YURT_APP_OVERRIDER
from fleethook.workload_schema.formats_and_messages import describe_enum, describe_type

Level = Literal["error", "warning"]

CODES: Final[Mapping[str, str]] = {
    "unknown-kind": "No supported apiserver serves the kind in this version.",
    "unknown-field": "The API has no field of that name. kubectl refuses the object, and an apiserver drops the field.",
    "invalid": "A value has a wrong type.",
    "unsupported": "A value is none of those that the field supports.",
}
"""The codes of findings, with their meanings."""


class SchemaFinding(NamedTuple):
    """A part of an object that its API lacks, or that has a wrong type."""

    level: Level
    code: str
    """One of `CODES`."""
    field: str
    """The path of the member, such as ``webhooks[0].rules[1].scope``."""
    message: str


Definitions = Mapping[tuple[str, GroupKind], Mapping[str, JSONObject | None]]
"""The schemas of custom resources by logical cluster, kind and served version; None for an unknown schema."""
NO_DEFINITIONS: Final[Definitions] = {}


class _Content(msgspec.Struct, frozen=True):
    """A file of the package data.

    Attributes:
        kinds: Names of definitions by version and kind, ``""`` for an unknown schema.
        definitions: Schemas by name.
        removed: Releases of Kubernetes that removed kinds, by version and kind.
        release: The release of Kubernetes with these kinds, ``""`` for other projects.
    """

    kinds: dict[str, dict[str, str]]
    definitions: dict[str, dict[str, Any]]
    removed: dict[str, dict[str, str]] = {}
    release: str = ""


class Served(NamedTuple):
    """The package data.

    Attributes:
        definitions: Schemas by name.
        names: Names of definitions by kind and version, the oldest version first; ``""`` for an unknown schema.
        removed: Releases of Kubernetes that removed kinds, by version and kind.
        built_in: The API groups of kube-apiserver.
        built_in_versions: The API versions of kube-apiserver.
        release: The release of Kubernetes with these kinds, such as ``1.36``.
    """

    definitions: Mapping[str, JSONObject]
    names: Mapping[GroupKind, Mapping[str, str]]
    removed: Mapping[str, Mapping[str, str]]
    built_in: frozenset[str]
    built_in_versions: frozenset[str]
    release: str


# msgspec describes a type at its first use. In two threads at once, this crashes the process.
_decode: Final = msgspec.json.Decoder(_Content).decode


@cache
def load_served() -> Served:
    """Return the package data."""
    built_in, projects = (
        _decode(Path(__file__).with_name(name).read_bytes()) for name in ("built_in.json", "projects.json")
    )
    names: dict[GroupKind, dict[str, str]] = {}
    for api_version, kinds in sorted({**built_in.kinds, **projects.kinds}.items(), key=lambda one: _rank(one[0])):
        group, version = parse_api_version(api_version)
        for kind, name in kinds.items():
            names.setdefault(GroupKind(group, kind), {})[version] = name
    versions = frozenset((*built_in.kinds, *built_in.removed))
    groups = frozenset(parse_api_version(one)[0] for one in versions)
    release = ".".join(built_in.release.removeprefix("v").split(".")[:2])
    return Served(built_in.definitions | projects.definitions, names, built_in.removed, groups, versions, release)


def _rank(api_version: str) -> tuple[bool, bool, str]:
    """Return the sort key of a version: alpha before beta before stable."""
    version = parse_api_version(api_version)[1]
    return "alpha" not in version, is_stable(version), version


def is_stable(version: str) -> bool:
    """Return whether a version is neither alpha nor beta."""
    return "alpha" not in version and "beta" not in version


# Built-in kinds that decide about the answers of fleethook. It would not read a member of a newer Kubernetes either.
_DECIDING: Final = frozenset(
    {
        DEFINITION,
        GroupKind("", "Namespace"),
        GroupKind("admissionregistration.k8s.io", "MutatingWebhookConfiguration"),
        GroupKind("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"),
    }
)
_POLICIES: Final = "policy.karmada.io"
"""An API group of Karmada whose objects fleethook does not read."""
# Kinds of which other projects have one of the same name.
_COMMON_NAMES: Final = frozenset({"NodePool", "Shard", "Workspace", "WorkspaceType"})
_RESERVED: Final = ".k8s.io"
"""The end of the groups of Kubernetes."""


def is_deciding(group_kind: GroupKind) -> bool:
    """Return whether fleethook answers by objects of a kind; a newer apiserver may know more about all others."""
    served = load_served()
    others = group_kind in served.names and group_kind.group not in (*served.built_in, _POLICIES)
    return group_kind in _DECIDING or others


def read_definitions(documents: Iterable[JSONObject]) -> Definitions:
    """Return the schemas of the CustomResourceDefinitions among objects."""
    found: dict[tuple[str, GroupKind], dict[str, JSONObject | None]] = {}
    for document in documents:
        if gvk_of(document).group_kind == DEFINITION:
            spec = as_object(document.get("spec"))
            key = GroupKind(as_text(spec.get("group")), as_text(as_object(spec.get("names")).get("kind")))
            versions = found.setdefault((cluster_of(document), key), {})
            for _, version in enumerate_objects(spec.get("versions")):
                if version.get("served") is True:
                    schema = as_object(version.get("schema")).get("openAPIV3Schema")
                    versions[as_text(version.get("name"))] = dict(schema) if isinstance(schema, dict) else None
    return found


def check_kind(document: JSONObject, definitions: Definitions = NO_DEFINITIONS) -> SchemaFinding | None:
    """Return a finding if no apiserver serves the apiVersion and kind of an object.

    Args:
        document: An object with apiVersion and kind.
        definitions: The CustomResourceDefinitions of the files.
    """
    _, version, kind = gvk = gvk_of(document)
    served, own = load_served(), definitions.get((cluster_of(document), gvk.group_kind))
    known = served.names.get(gvk.group_kind, {}) if own is None else own
    if version in known:
        return None
    if (release := served.removed.get(gvk.api_version, {}).get(kind)) and own is None:
        instead = _list_versions(kind, served)
        write = f": write {instead}" if instead else ""
        return _make("error", "apiVersion", f"Kubernetes {release} removed {kind} of {gvk.api_version}{write}")
    if known:
        level: Level = "error"
        if own is None and not is_deciding(gvk.group_kind) and not (is_stable(version) or any(map(is_stable, known))):
            level = "warning"
        return _make(level, "apiVersion", f"{kind} has no version {version!r}; write {_join(gvk.group, known)}")
    return None if own is not None else _check_unknown(gvk.group_kind, gvk.api_version, served)


def _check_unknown(group_kind: GroupKind, api_version: str, served: Served) -> SchemaFinding | None:
    """Return a finding about a kind that the package data does not have in its group."""
    group, kind = group_kind
    kinds = {one.kind for one in served.names if one.group == group}
    others = [one for one in served.names if one.kind == kind]
    is_reserved = "." not in group or "/" in group or group.endswith(_RESERVED)
    is_misplaced = any(other.group not in served.built_in for other in others) and kind not in _COMMON_NAMES
    if others and (is_reserved or is_misplaced):
        return _make("error", "apiVersion", f"{kind} is in {_list_versions(kind, served)}, not in {api_version!r}")
    if not kinds:
        return None
    name = group or "v1"
    meant = nearest(kind, kinds)
    if meant is not None:
        return _make("error", "kind", f"{name} has no kind {kind!r}; did you mean {meant}?")
    if api_version in served.built_in_versions:
        return _make("warning", "kind", f"{name} has no kind {kind!r} in Kubernetes {served.release}")
    return None


def _list_versions(kind: str, served: Served) -> str:
    """Return the versions of a kind in all groups."""
    return " or ".join(_join(one.group, known) for one, known in served.names.items() if one.kind == kind)


def _join(group: str, versions: Iterable[str]) -> str:
    """Return the versions of a group; only stable ones if there are any."""
    all_of_them = [*versions]
    named = [one for one in all_of_them if is_stable(one)] or all_of_them
    return " or ".join(f"{group}/{one}" if group else one for one in named)


def _make(level: Level, field: str, message: str) -> SchemaFinding:
    return SchemaFinding(level, "unknown-kind", field, message)


_INT_OR_STRING: Final = "x-kubernetes-int-or-string"
_PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
_EMBEDDED: Final = "x-kubernetes-embedded-resource"
_OF_EVERY_OBJECT: Final[Mapping[str, JSONObject]] = {"apiVersion": {}, "kind": {}, "metadata": {}}
_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "object": (dict,), "array": (list,), "string": (str,), "boolean": (bool,), "integer": (int,),
    "number": (int, float),
}  # fmt: skip
_OWN_RULES: Final = frozenset({YURT_APP_OVERRIDER})
"""Kinds whose rules at admission find the same, with more advice."""
_DIRECTIVE: Final = "$"
"""The begin of members of strategic merge patches, such as ``$patch``: patches of kustomize may be beside manifests."""
_VARIABLE: Final = "${"
"""A variable of Flux or envsubst, which may stand for a value of another type."""
_MAX_NAMES: Final = 12


class _Node(NamedTuple):
    """A value with its schema.

    Attributes:
        field: Its path.
        value: The value.
        schema: Its schema.
        owner: The name of its type in messages.
        around: The names of types around it, with their members, the nearest first.
        is_entry: Whether it is a value of a map or a list.
    """

    field: str
    value: JSON
    schema: JSONObject
    owner: str
    around: tuple[tuple[str, JSONObject], ...] = ()
    is_entry: bool = False


def check_object(
    document: JSONObject, definitions: Definitions = NO_DEFINITIONS, *, is_request: bool = False
) -> list[SchemaFinding]:
    """Return the findings about the kind, the version and the members of an object.

    Args:
        document: An object with apiVersion and kind.
        definitions: The CustomResourceDefinitions of the files, which decide about their kinds.
        is_request: Whether the object is that of a request, not of a file, which may be a patch: a null in a map or a
            list is a finding, because kube-apiserver stores an empty value there, and the metadata of a kind without a
            known schema are checked.
    """
    if (unserved := check_kind(document, definitions)) is not None:
        return [unserved]
    gvk, served = gvk_of(document), load_served()
    if gvk.group_kind in _OWN_RULES and not is_request:
        return []
    own = definitions.get((cluster_of(document), gvk.group_kind), {}).get(gvk.version)
    schema = served.definitions.get(served.names.get(gvk.group_kind, {}).get(gvk.version, "")) if own is None else None
    if schema is None:
        if own is None and not is_request:
            return []
        own = own or {_PRESERVE: True}
        metadata = served.definitions["meta.v1.ObjectMeta"]
        schema = {**own, "properties": {**_OF_EVERY_OBJECT, **own.get("properties", {}), "metadata": metadata}}
    decides = is_deciding(gvk.group_kind)
    release = f" in Kubernetes {served.release}" if gvk.group in served.built_in and not decides else ""
    return [
        _make_finding(node, name, release=release, decides=decides)
        for node, name in _find_mistakes(_Node("", document, schema, gvk.kind), nulls=is_request)
    ]


def _find_mistakes(root: _Node, *, nulls: bool) -> Iterator[tuple[_Node, str]]:
    """Yield the values of a wrong type or outside of an enumeration, and each unknown member with the node around."""
    todo = [root]
    while todo:
        node = _resolve(todo.pop())
        value, schema = node.value, node.schema
        takes_null = not (nulls and node.is_entry) or schema.get("nullable") or schema.get(_PRESERVE)
        is_absent = value is None and takes_null
        if is_absent or (isinstance(value, str) and _VARIABLE in value):
            continue
        if value is None or not _has_type(value, schema) or ("enum" in schema and value not in ("", *schema["enum"])):
            yield node, ""
        elif isinstance(value, list):
            items = schema.get("items", {})
            items = {**items, _PRESERVE: True} if schema.get(_PRESERVE) else items
            of_each = node._replace(schema=items, is_entry=True)
            todo += [of_each._replace(field=f"{node.field}[{at}]", value=one) for at, one in enumerate(value)]
        elif isinstance(value, dict):
            members, others = _list_members(schema), schema.get("additionalProperties")
            around = ((node.owner, members), *node.around)
            is_open = schema.get(_PRESERVE) or "type" not in schema or others is True
            for name, inner in value.items():
                field = f"{node.field}.{name}" if node.field else name
                if name in members:
                    todo.append(_Node(field, inner, members[name], name, around))
                elif isinstance(others, dict):
                    todo.append(_Node(field, inner, others, name, around, is_entry=True))
                elif not is_open and not name.startswith(_DIRECTIVE):
                    yield node, name


def describe_mistake(
    document: JSONObject, schema: JSONObject, path: Sequence[str | int], name: str = ""
) -> SchemaFinding:
    """Return the finding about a value of a wrong type or outside of an enumeration, or about an unknown member.

    Args:
        document: The object.
        schema: Its schema.
        path: The path of the value.
        name: The unknown member of the value, ``""`` for the value itself.
    """
    node = _Node("", document, schema, str(document.get("kind")))
    for step in path:
        node = _enter(_resolve(node), step)
    return _make_finding(_resolve(node), name, release="", decides=True)


def _enter(node: _Node, step: str | int) -> _Node:
    """Return an element or a member of a node."""
    if isinstance(step, int):
        items = node.schema.get("items", {})
        return node._replace(field=f"{node.field}[{step}]", value=node.value[step], schema=items)
    members, field = _list_members(node.schema), f"{node.field}.{step}" if node.field else step
    schema = members[step] if step in members else node.schema["additionalProperties"]
    return _Node(field, node.value[step], schema, step, ((node.owner, members), *node.around))


def _resolve(node: _Node) -> _Node:
    """Return a node with the schema that its reference names."""
    while isinstance(name := node.schema.get("$ref"), str):
        owner = node.owner if name.startswith("shared.") else name.rpartition(".")[2]
        node = _Node(node.field, node.value, load_served().definitions[name], owner, node.around, node.is_entry)
    return node


def _list_members(schema: JSONObject) -> JSONObject:
    members: JSONObject = schema.get("properties", {})
    return {**_OF_EVERY_OBJECT, **members} if schema.get(_EMBEDDED) else members


def _list_types(schema: JSONObject) -> list[str]:
    return ["integer", "string"] if schema.get(_INT_OR_STRING) else [schema["type"]] if "type" in schema else []


def _has_type(value: JSON, schema: JSONObject) -> bool:
    types = _list_types(schema)
    fitting = [one for one in types if isinstance(value, _TYPES.get(one, object))]
    return not types or "boolean" in fitting or (bool(fitting) and not isinstance(value, bool))


def _make_finding(node: _Node, name: str, *, release: str, decides: bool) -> SchemaFinding:
    level: Level = "error" if decides else "warning"
    if name:
        field = f"{node.field}.{name}" if node.field else name
        return SchemaFinding(
            level, "unknown-field", field, f"is not a field of {node.owner}{release}{_advise(node, name)}"
        )
    if _has_type(node.value, node.schema) and "enum" in node.schema:
        return SchemaFinding(level, "unsupported", node.field, describe_enum(node.value, node.schema["enum"]))
    message = describe_type(node.value, _list_types(node.schema), node.schema.get("properties", {}), ())
    return SchemaFinding("error", "invalid", node.field, message)


def _advise(node: _Node, name: str) -> str:
    """Return the end of the message about an unknown member, with the remedy."""
    members, value = _list_members(node.schema), node.value[name]
    longer = [member for member in members if member.lower().startswith(name.lower())]
    if meant := nearest(name, members) or (longer[0] if len(longer) == 1 else None):
        return f"; did you mean {meant}?"
    for owner, others in node.around:
        if name in others:
            return f": it is a field of {owner}, check the indentation"
    inner = [one for one, schema in members.items() if name in _get_properties(schema)]
    if inner:
        return f": it belongs in {' or '.join(inner)}"
    maps = [one for one, schema in members.items() if schema.get("additionalProperties") == {"type": "string"}]
    if isinstance(value, str) and len(maps) == 1:
        return f": put it into {maps[0]}"
    return f"; the fields are {', '.join(sorted(members))}" if 0 < len(members) <= _MAX_NAMES else ""


def _get_properties(schema: JSONObject) -> Mapping[str, Any]:
    if isinstance(name := schema.get("$ref"), str):
        schema = load_served().definitions[name]
    return _list_members(schema.get("items", schema))
