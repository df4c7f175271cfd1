"""CustomResourceDefinitions and schemas that kube-apiserver accepts."""

from collections.abc import Iterator
from typing import Annotated, Any

import msgspec

from schemas.definitions import Resource, custom_resource_definition, structural_schema


class Part(msgspec.Struct, rename="camel"):
    """A part."""

    part_name: Annotated[str, msgspec.Meta(description="Its name.", min_length=1)]
    mode: Annotated[str, msgspec.Meta(pattern="^a")] = "auto"


class Thing(msgspec.Struct, rename="camel"):
    """A thing."""

    metadata: dict[str, Any]
    first: Annotated[Part | None, msgspec.Meta(description="The first part.")] = None
    parts: list[Part] = []
    numbers: dict[str, int] = {}
    level: str | None = "low"
    api_version: str = "example.org/v1"
    kind: str = "Thing"


def iterate_nodes(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield a schema and the schemas of its members and elements."""
    yield schema
    for inner in (*schema.get("properties", {}).values(), schema.get("items"), schema.get("additionalProperties")):
        if isinstance(inner, dict):
            yield from iterate_nodes(inner)


def test_references_and_alternatives_are_resolved() -> None:
    found = structural_schema(Thing)["properties"]
    first = found["first"]
    assert (first["type"], first["description"], first["required"]) == ("object", "The first part.", ["partName"])
    assert first["properties"]["partName"] == {"type": "string", "minLength": 1, "description": "Its name."}
    assert first["properties"]["mode"] == {"type": "string", "pattern": "^a", "default": "auto"}
    assert found["level"] == {"type": "string"}, "an optional field is absent by default"
    assert found["parts"]["items"]["properties"].keys() == {"partName", "mode"}


def test_the_fields_that_kube_apiserver_validates_are_not_described() -> None:
    found = structural_schema(Thing)["properties"]
    assert [found[name] for name in ("apiVersion", "kind", "metadata")] == [
        {"type": "string"}, {"type": "string"}, {"type": "object"},
    ]  # fmt: skip


def test_optional_parts_of_a_definition_are_absent_without_a_value() -> None:
    bare = Resource(Thing, "things", (), (), namespaced=False, group="example.org", version="v1", status=False)
    document = custom_resource_definition(bare)
    assert document["metadata"] == {"name": "things.example.org"}
    spec = document["spec"]
    assert spec["names"] == {"kind": "Thing", "listKind": "ThingList", "plural": "things", "singular": "thing"}
    assert spec["scope"] == "Cluster"
    (version,) = spec["versions"]
    assert version.keys() == {"name", "served", "storage", "additionalPrinterColumns", "schema"}
    full = bare._replace(
        short_names=("t",), categories=("all",), status=True, selectable_fields=(".kind",), namespaced=True
    )
    spec = custom_resource_definition(full)["spec"]
    assert (spec["names"]["shortNames"], spec["names"]["categories"], spec["scope"]) == (["t"], ["all"], "Namespaced")
    assert spec["versions"][0]["subresources"] == {"status": {}}
    assert spec["versions"][0]["selectableFields"] == [{"jsonPath": ".kind"}]
