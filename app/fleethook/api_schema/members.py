"""Finds the members that the schema of a kind lacks, and values of a wrong type or outside of an enumeration.

kube-apiserver drops a member that it does not know, and kubectl refuses the object ("unknown field"). Member names are
case-sensitive for both. Rules about single values are left to the checks of each kind.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from fleethook.api_schema.served_kinds import (
    NO_DEFINITIONS,
    Definitions,
    Level,
    SchemaFinding,
    check_kind,
    is_deciding,
    load_served,
)
from fleethook.model.formats.text import nearest
from fleethook.model.gvk import gvk_of
from fleethook.model.json import JSON, JSONObject
from fleethook.model.kcp import cluster_of
from fleethook.model.openyurt import YURT_APP_OVERRIDER
from fleethook.workload_schema.findings import describe_enum, describe_type

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
        is_entry: Whether it is the value of a map.
    """

    field: str
    value: JSON
    schema: JSONObject
    owner: str
    around: tuple[tuple[str, JSONObject], ...] = ()
    is_entry: bool = False


def check_object(
    document: JSONObject, definitions: Definitions = NO_DEFINITIONS, *, nulls: bool = False
) -> list[SchemaFinding]:
    """Return the findings about the kind, the version and the members of an object.

    Args:
        document: An object with apiVersion and kind.
        definitions: The CustomResourceDefinitions of the files, which decide about their kinds.
        nulls: Whether a null in a map is a finding: kube-apiserver stores an empty value there. Files may be patches.
    """
    if (unserved := check_kind(document, definitions)) is not None:
        return [unserved]
    gvk, served = gvk_of(document), load_served()
    if gvk.group_kind in _OWN_RULES:
        return []
    schema = definitions.get((cluster_of(document), gvk.group_kind), {}).get(gvk.version)
    if schema is None:
        schema = served.definitions.get(served.names.get(gvk.group_kind, {}).get(gvk.version, ""))
    else:
        metadata = served.definitions["meta.v1.ObjectMeta"]
        schema = {**schema, "properties": {**_OF_EVERY_OBJECT, **schema.get("properties", {}), "metadata": metadata}}
    if schema is None:
        return []
    decides = is_deciding(gvk.group_kind)
    release = f" in Kubernetes {served.release}" if gvk.group in served.built_in and not decides else ""
    return [
        _make_finding(node, name, release=release, decides=decides)
        for node, name in _find_mistakes(_Node("", document, schema, gvk.kind), nulls=nulls)
    ]


def _find_mistakes(root: _Node, *, nulls: bool) -> Iterator[tuple[_Node, str]]:
    """Yield the values of a wrong type or outside of an enumeration, and each unknown member with the node around."""
    todo = [root]
    while todo:
        node = _resolve(todo.pop())
        value, schema = node.value, node.schema
        is_absent = value is None and not (nulls and node.is_entry)
        if is_absent or (isinstance(value, str) and _VARIABLE in value):
            continue
        if not _has_type(value, schema) or ("enum" in schema and value not in ("", *schema["enum"])):
            yield node, ""
        elif isinstance(value, list):
            items = schema.get("items", {})
            of_each = node._replace(schema={**items, _PRESERVE: True} if schema.get(_PRESERVE) else items)
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
        node = node._replace(schema=load_served().definitions[name], owner=owner)
    return node


def _list_members(schema: JSONObject) -> JSONObject:
    members: JSONObject = schema.get("properties", {})
    return {**_OF_EVERY_OBJECT, **members} if schema.get(_EMBEDDED) else members


def _list_types(schema: JSONObject) -> list[str]:
    return ["integer", "string"] if schema.get(_INT_OR_STRING) else [schema["type"]] if "type" in schema else []


def _has_type(value: JSON, schema: JSONObject) -> bool:
    types = _list_types(schema)
    allowed = tuple(one for name in types for one in _TYPES.get(name, (object,)))
    return not types or (isinstance(value, allowed) and (bool in allowed or not isinstance(value, bool)))


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
    longer = [one for one in members if one.lower().startswith(name.lower())]
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
