"""The kinds and versions that an apiserver serves, with their schemas, and findings about others.

CustomResourceDefinitions in the files decide about their kinds. For all others, the package data has the versions that
a supported apiserver serves. Nothing is known about other groups.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import msgspec

from fleethook.model.formats.text import nearest
from fleethook.model.gvk import DEFINITION, GroupKind, gvk_of, parse_api_version
from fleethook.model.json import JSONObject, as_object, as_text, enumerate_objects
from fleethook.model.kcp import cluster_of

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
    for one in documents:
        if gvk_of(one).group_kind == DEFINITION:
            spec = as_object(one.get("spec"))
            key = GroupKind(as_text(spec.get("group")), as_text(as_object(spec.get("names")).get("kind")))
            versions = found.setdefault((cluster_of(one), key), {})
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
    is_misplaced = any(one.group not in served.built_in for one in others) and kind not in _COMMON_NAMES
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
