"""Build CustomResourceDefinitions and JSON Schemas from the API types; schemas/generate.py writes them.

kube-apiserver accepts structural schemas only (apiextensions.k8s.io/v1, "Specifying a structural schema"): each node
has a type or preserves unknown fields, there are no references, and alternatives have no types. The types use only
features that a structural schema can express.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from docsite.docstrings import read_attribute_texts
from fleethook.model import crd_tarball, karmada, openyurt
from fleethook.model.admission import AdmissionReview
from fleethook.model.json import JSON, JSONObject
from schemas import karmada_types, openyurt_types

_REF: Final = "#/$defs/{name}"
_PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
_KEPT: Final = (
    "type", "format", "enum", "pattern", "minimum", "maximum", "minLength", "maxLength", "minItems", "minProperties",
    "description", "nullable", _PRESERVE,
)  # fmt: skip


class Column(NamedTuple):
    """A column that ``kubectl get`` prints."""

    name: str
    type: str
    json_path: str
    description: str


class Resource(NamedTuple):
    """A kind with the properties of its CustomResourceDefinition."""

    type: type[msgspec.Struct]
    plural: str
    short_names: tuple[str, ...]
    columns: tuple[Column, ...]
    namespaced: bool = True
    group: str = openyurt.GROUP
    version: str = openyurt.VERSION
    engine: str = "overrider"
    status: bool = True
    categories: tuple[str, ...] = ()
    selectable_fields: tuple[str, ...] = ()
    """Paths for field selectors, supported since Kubernetes 1.31."""


_AGE: Final = Column("Age", "date", ".metadata.creationTimestamp", "Time since the object was created.")


def _condition(name: str) -> str:
    return f'.status.conditions[?(@.type=="{name}")].status'


RESOURCES: Final = (
    Resource(
        openyurt_types.YurtAppOverrider,
        "yurtappoverriders",
        # The short names of the proposal and of OpenYurt v1.4.
        ("yacr", "yao"),
        (
            Column("Subject", "string", ".subject.kind", "Kind of the subject."),
            Column("Name", "string", ".subject.name", "Name of the subject."),
            Column("Bound", "string", _condition("Bound"), "Whether the overrider is in effect for its subject."),
            Column("Rendered", "string", _condition("Rendered"), "Whether all workloads match the overrider."),
            Column(
                "Workloads",
                "string",
                ".status.summary",
                "Workloads that match the overrider, of all expected workloads.",
            ),
            _AGE,
        ),
        selectable_fields=(".subject.kind", ".subject.name"),
    ),
    Resource(
        openyurt_types.YurtAppSet,
        "yurtappsets",
        ("yas",),
        (
            Column("Ready", "integer", ".status.readyReplicas", "Number of ready pods."),
            Column("Template", "string", ".status.templateType", "Kind of the workloads."),
            _AGE,
        ),
    ),
    Resource(
        openyurt_types.YurtAppDaemon,
        "yurtappdaemons",
        ("yad",),
        (Column("Template", "string", ".status.templateType", "Kind of the workloads."), _AGE),
    ),
    Resource(
        openyurt_types.NodePool,
        "nodepools",
        ("np",),
        (
            Column("Type", "string", ".spec.type", "Edge or Cloud."),
            Column("ReadyNodes", "integer", ".status.readyNodeNum", "Number of ready nodes."),
            _AGE,
        ),
        namespaced=False,
    ),
    Resource(
        karmada_types.ResourceExploringWebhookConfiguration,
        "resourceexploringwebhookconfigurations",
        (),
        (_AGE,),
        namespaced=False,
        group=karmada.GROUP,
        version=karmada.VERSION,
        engine="interpret",
        status=False,
    ),
)


FOREIGN_RESOURCES: Final = (
    Resource(
        karmada_types.Karmada,
        "karmadas",
        (),
        (
            Column("READY", "string", _condition("Ready"), "Whether the instance is ready."),
            _AGE._replace(name="AGE"),
        ),
        group=crd_tarball.GROUP,
        version=crd_tarball.VERSION,
        engine="crds",
        categories=("karmada-io",),
    ),
)
"""Kinds that another project owns and installs. These definitions are for clusters without that project, and for
fleethook's extension fields, which the project's definition would prune. Neither the server nor the chart installs
them. They preserve unknown fields."""


def custom_resource_definition(resource: Resource) -> JSONObject:
    """Return the CustomResourceDefinition of ``resource``."""
    kind = resource.type.__name__
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{resource.plural}.{resource.group}"},
        "spec": {
            "group": resource.group,
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": resource.plural,
                "singular": kind.lower(),
                **({"shortNames": list(resource.short_names)} if resource.short_names else {}),
                **({"categories": list(resource.categories)} if resource.categories else {}),
            },
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "versions": [_version(resource)],
        },
    }


def _version(resource: Resource) -> JSONObject:
    version: JSONObject = {
        "name": resource.version,
        "served": True,
        "storage": True,
        "additionalPrinterColumns": [
            {"name": name, "type": kind, "jsonPath": path, "description": text}
            for name, kind, path, text in resource.columns
        ],
        "schema": {"openAPIV3Schema": structural_schema(resource.type)},
    }
    if resource.selectable_fields:
        version["selectableFields"] = [{"jsonPath": path} for path in resource.selectable_fields]
    return {**version, "subresources": {"status": {}}} if resource.status else version


def structural_schema(api_type: type[msgspec.Struct]) -> JSONObject:
    """Return the structural schema of ``api_type``: its JSON Schema without references and alternatives."""
    (root,), definitions = msgspec.json.schema_components((api_type,), ref_template=_REF)
    _describe_fields(definitions)
    schema: JSONObject = _convert(root, definitions)
    # kube-apiserver validates these three fields, and a schema must not describe them further.
    schema["properties"]["apiVersion"] = {"type": "string"}
    schema["properties"]["kind"] = {"type": "string"}
    schema["properties"]["metadata"] = {"type": "object"}
    return schema


_DESCRIBED: Final = {
    name: found
    for module in (openyurt_types, karmada_types, crd_tarball)
    for name, found in vars(module).items()
    if isinstance(found, type) and issubclass(found, msgspec.Struct) and found.__module__ == module.__name__
}


def _describe_fields(schemas: Mapping[str, JSONObject]) -> None:
    """Add the docstrings of the fields to the schemas of types, by name."""
    for name, schema in schemas.items():
        if (described := _DESCRIBED.get(name)) is not None:
            encoded = {one.name: one.encode_name for one in msgspec.structs.fields(described)}
            for field, text in read_attribute_texts(described):
                schema["properties"][encoded[field]]["description"] = text


def _convert(node: JSONObject, definitions: Mapping[str, JSONObject]) -> JSONObject:
    node = _resolve(node, definitions)
    made: JSONObject = {name: node[name] for name in _KEPT if name in node}
    if "enum" in made:
        made.setdefault("type", "string")
    if node.get("default") is not None and node["default"] != {}:
        made["default"] = node["default"]
    if "properties" in node:
        made["properties"] = {name: _convert(inner, definitions) for name, inner in node["properties"].items()}
        if node.get("required"):
            made["required"] = list(node["required"])
    elif isinstance(node.get("additionalProperties"), dict) and node["additionalProperties"]:
        inner = node["additionalProperties"]
        made["additionalProperties"] = _convert(inner, definitions)
    if "items" in node:
        made["items"] = _convert(node["items"], definitions)
    return made


def _resolve(node: JSONObject, definitions: Mapping[str, JSONObject]) -> JSONObject:
    """Return ``node`` with its reference resolved and without ``or null``; members beside either take precedence."""
    beside = {name: value for name, value in node.items() if name not in ("$ref", "anyOf", "title")}
    if "$ref" in node:
        target = definitions[node["$ref"].rpartition("/")[2]]
        return {**_resolve(target, definitions), **beside}
    if "anyOf" in node:
        (only,) = (choice for choice in node["anyOf"] if choice != {"type": "null"})
        # The default of an optional field is its absence, which a structural schema does not express.
        beside.pop("default", None)
        return {**_resolve(only, definitions), **beside}
    return beside


def json_schema(api_type: type[msgspec.Struct]) -> JSONObject:
    """Return the JSON Schema (draft 2020-12) of ``api_type``."""
    schema = msgspec.json.schema(api_type)
    _describe_fields(schema["$defs"])
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def openapi_components() -> JSONObject:
    """Return an OpenAPI 3.1 document with every API type as a component."""
    types: tuple[Any, ...] = (*(resource.type for resource in RESOURCES), AdmissionReview)
    _, components = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    _describe_fields(components)
    information: JSON = {"title": "fleethook API types", "version": openyurt.VERSION}
    return {"openapi": "3.1.0", "info": information, "paths": {}, "components": {"schemas": components}}


def json_schemas() -> dict[str, JSONObject]:
    """Return the JSON Schema of each type, by name."""
    types: list[type[msgspec.Struct]] = [*(resource.type for resource in RESOURCES), AdmissionReview]
    return {api_type.__name__: json_schema(api_type) for api_type in types}
