from typing import Any

import pytest

from fleethook.workload_schema.admission_objects import CustomVersion, find_version, set_schema_defaults, show_objects

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "spec": {"type": "object", "properties": {"size": {"type": "integer", "default": 3}}},
        "any": {"type": "object", "additionalProperties": True},
    },
}


def test_unknown_members_stay_unless_they_are_pruned() -> None:
    given = {"spec": {"color": "red"}, "any": {"a": {"b": 1}}, "extra": 1}
    whole = {"spec": {"color": "red", "size": 3}, "any": {"a": {"b": 1}}, "extra": 1}
    assert set_schema_defaults(given, SCHEMA) == whole
    assert set_schema_defaults(given, SCHEMA, prune=True) == {"spec": {"size": 3}, "any": {"a": {"b": 1}}}
    assert given == {"spec": {"color": "red"}, "any": {"a": {"b": 1}}, "extra": 1}


@pytest.mark.parametrize("schema", [{"openAPIV3Schema": SCHEMA}, SCHEMA], ids=["definition", "APIResourceSchema"])
def test_a_version_has_its_schema_and_its_subresource(schema: dict[str, Any]) -> None:
    versions = [{"name": "v2", "schema": {}}, {"name": "v1", "schema": schema, "subresources": {"status": {}}}]
    definition = {"spec": {"versions": versions}}
    assert find_version(definition, "v1") == CustomVersion(SCHEMA, has_status=True)
    assert find_version(definition, "v2") is None


@pytest.mark.parametrize("metadata", [None, "x", {"name": "p", "finalizers": None}])
def test_an_object_with_unusual_metadata_is_shown(metadata: Any) -> None:
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": {}}
    new, old = show_objects(claim, None, operation="CREATE", validating=True)
    assert new is not None
    assert (new["spec"]["volumeMode"], old) == ("Filesystem", None)
