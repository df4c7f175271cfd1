"""Derives the schemas by which fleethook finds members that the APIs of projects lack (`fleethook.api_schema`).

A schema has the parts that decide about members, types and enumerations.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from schemas.definitions import FOREIGN_RESOURCES, RESOURCES, Resource, structural_schema

PROJECTS: Final = Path(__file__).parent / "upstream" / "projects.json"
"""The CustomResourceDefinitions of other projects (`schemas.api_schemas`)."""
METADATA: Final = "meta.v1.ObjectMeta"
_INT_OR_STRING: Final = "x-kubernetes-int-or-string"
_PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
_KEPT: Final = ("type", "enum", "$ref", _INT_OR_STRING, _PRESERVE, "x-kubernetes-embedded-resource")
_PREFIXES: Final = ("io.k8s.api.", "io.k8s.apimachinery.pkg.apis.", "io.k8s.apimachinery.pkg.", "io.k8s.")
_MIN_SHARED: Final = 200
"""Characters of the smallest part that several schemas share."""

Schemas = dict[str, Any]


def compact(schema: Mapping[str, Any]) -> Schemas:
    """Return the parts of a schema that decide about members, types and enumerations."""
    if "allOf" in schema and "$ref" in schema["allOf"][0]:  # a reference with a default beside it
        schema = schema["allOf"][0]
    made: Schemas = {word: schema[word] for word in _KEPT if word in schema}
    if "$ref" in made:
        made["$ref"] = shorten(made["$ref"].rpartition("/")[2])
    if schema.get("format") == "int-or-string":
        made = {_INT_OR_STRING: True}
    for word in ("items", "additionalProperties"):
        if isinstance(schema.get(word), dict):
            made[word] = compact(schema[word])
    if "properties" in schema:
        made["properties"] = {name: compact(inner) for name, inner in schema["properties"].items()}
    return made


def shorten(name: str) -> str:
    """Return the name of a Kubernetes type without the package of its project: ``core.v1.Container``."""
    for prefix in _PREFIXES:
        name = name.removeprefix(prefix)
    return name


def complete(schema: Mapping[str, Any]) -> Schemas:
    """Return the schema of a custom resource with the members that each object has."""
    made = compact(schema)
    made["properties"] |= {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"$ref": METADATA}}
    return made | {"properties": made["properties"] | ({"status": {}} if "status" in made["properties"] else {})}


def derive_projects(projects: Schemas) -> Schemas:
    """Return the content of ``app/fleethook/api_schema/projects.json``: kinds of projects and of fleethook.

    Args:
        projects: The content of `PROJECTS`.
    """
    kinds = {version: dict(named) for version, named in projects.items()}
    for resource in RESOURCES:
        _name_version(kinds, resource).setdefault(resource.type.__name__, complete(structural_schema(resource.type)))
    for resource in FOREIGN_RESOURCES:
        own, named = complete(structural_schema(resource.type)), _name_version(kinds, resource)
        named[resource.type.__name__] = _unite(named[resource.type.__name__], own)
    schemas = {(version, kind): one for version, named in kinds.items() for kind, one in named.items() if one}
    counts = Counter(text for schema in schemas.values() for text in _list_parts(schema))
    repeated = sorted(text for text in counts if counts[text] > 1)
    shared = {text: f"shared.{number}" for number, text in enumerate(repeated)}
    definitions = {name: _share(json.loads(text), shared, top=True) for text, name in shared.items()}
    references: dict[str, dict[str, str]] = {}
    for version, named in sorted(kinds.items()):
        references[version] = {kind: f"{version}.{kind}" if one else "" for kind, one in sorted(named.items())}
    definitions |= {references[version][kind]: _share(one, shared) for (version, kind), one in sorted(schemas.items())}
    return {"kinds": references, "definitions": definitions}


def _name_version(kinds: dict[str, Schemas], resource: Resource) -> Schemas:
    return kinds.setdefault(f"{resource.group}/{resource.version}", {})


def _unite(one: Schemas, other: Schemas) -> Schemas:
    """Return a schema with the members of both. A type that preserves unknown members in one has those of the other."""
    made = {**other, **one}
    if "enum" in one and "enum" in other:
        made["enum"] = [*one["enum"], *(value for value in other["enum"] if value not in one["enum"])]
    if "properties" in one and "properties" in other:
        first, second = one["properties"], other["properties"]
        made["properties"] = {
            **first, **{name: _unite(first.get(name, {}), inner) for name, inner in second.items()}
        }  # fmt: skip
    if _PRESERVE in other and _PRESERVE not in one:
        made.pop(_PRESERVE, None)
    return made


def _list_parts(schema: Schemas) -> Iterator[str]:
    """Yield the large parts of a schema as texts."""
    text = json.dumps(schema, sort_keys=True)
    if len(text) < _MIN_SHARED:
        return
    yield text
    for inner in (*schema.get("properties", {}).values(), schema.get("items"), schema.get("additionalProperties")):
        if isinstance(inner, dict):
            yield from _list_parts(inner)


def _share(schema: Schemas, shared: Mapping[str, str], *, top: bool = False) -> Schemas:
    name = None if top else shared.get(json.dumps(schema, sort_keys=True))
    if name is not None:
        return {"$ref": name}
    made = dict(schema)
    for word in ("items", "additionalProperties"):
        if isinstance(made.get(word), dict):
            made[word] = _share(made[word], shared)
    if "properties" in made:
        made["properties"] = {one: _share(inner, shared) for one, inner in made["properties"].items()}
    return made


def print_schemas(content: Schemas) -> str:
    """Return JSON with a line for each member of the members."""
    parts = []
    for name, value in content.items():
        if isinstance(value, str):
            parts.append(f"{json.dumps(name)}:{json.dumps(value)}")
            continue
        lines = ",\n".join(f"{json.dumps(key)}:{json.dumps(one, separators=(',', ':'))}" for key, one in value.items())
        parts.append(f"{json.dumps(name)}:{{\n{lines}\n}}")
    return "{\n" + ",\n".join(parts) + "\n}\n"
