"""Defaults and refusals by the schemas of custom resources, as of a kube-apiserver."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleethook.workload_schema.custom_resource_schema import (
    CustomVersion,
    find_version,
    find_violation,
    read_defaults,
    set_schema_defaults,
)

FACTS = yaml.safe_load((Path(__file__).parents[1] / "conformance" / "structural_schemas.yaml").read_text())
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
    assert find_version(definition, "v2") == CustomVersion({}, has_status=False)
    assert find_version(definition, "v3") is None


@pytest.mark.parametrize("wrapped", [False, True], ids=["APIResourceSchema", "definition"])
def test_a_schema_can_be_reduced_to_its_defaults(wrapped: bool) -> None:
    properties = {
        "a": {"type": "string", "description": "d", "default": "x", "nullable": True},
        "b": {"items": {"properties": {"c": {"default": {"d": 1}}, "e": {"type": "string"}}}},
        "f": {"additionalProperties": {"default": 2}, "additionalItems": False},
        "g": {"additionalProperties": True, "properties": {"default": {"type": "string"}}},
    }
    text = json.dumps({"openAPIV3Schema": {"properties": properties}} if wrapped else {"properties": properties})
    keeps = {"x-kubernetes-preserve-unknown-fields": True}
    assert read_defaults(text.encode()) == {
        "properties": {
            "a": {"default": "x", "nullable": True, **keeps},
            "b": {"items": {"properties": {"c": {"default": {"d": 1}, **keeps}}, **keeps}, **keeps},
            "f": {"additionalProperties": {"default": 2, **keeps}, **keeps},
        },
        **keeps,
    }


@pytest.mark.parametrize(
    "text", ['{"type": "object"}', '{"properties": {"default": {}}}', '{"default": 1, "items": [1]}']
)
def test_a_schema_without_usable_defaults_has_none(text: str) -> None:
    assert read_defaults(text.encode()) is None


def test_defaults_are_bounded() -> None:
    schema = {"items": {"properties": {name: {"default": 0} for name in "abcdefghij"}}}
    assert set_schema_defaults([{}] * 10, schema, max_members=100) == [dict.fromkeys("abcdefghij", 0)] * 10
    with pytest.raises(ValueError, match="too many members"):
        set_schema_defaults([{}] * 11, schema, max_members=100)
    deep: Any = {}
    for _ in range(600):
        deep = {"a": deep}
    nested: Any = {"default": 1}
    for _ in range(600):
        nested = {"properties": {"a": nested}}
    with pytest.raises(ValueError, match="nested too deep"):
        set_schema_defaults(deep, nested)


def judge(schema: dict[str, Any], value: Any, old: Any = None) -> str:
    whole = {"type": "object", "properties": {"v": schema}}
    document = set_schema_defaults({"v": value}, whole, prune=True)
    return find_violation(document, whole, None if old is None else {"v": old})


@pytest.mark.parametrize("fact", FACTS["created"], ids=lambda fact: str(fact["schema"]))
def test_values_are_refused_as_by_an_apiserver(fact: dict[str, Any]) -> None:
    assert [one for one in fact.get("accepted", ()) if judge(fact["schema"], one)] == []
    assert [one for one in fact.get("refused", ()) if not judge(fact["schema"], one)] == []


def test_an_update_may_keep_invalid_values() -> None:
    fact = FACTS["updated"]
    assert [one for one in fact["accepted"] if judge(fact["schema"], one, fact["stored"])] == []
    assert [one for one in fact["refused"] if not judge(fact["schema"], one, fact["stored"])] == []


@pytest.mark.parametrize(
    "rule", ["oldSelf == self", "self.a__dash__b", "self.nosuch(", "self.startsWith(1)"], ids=lambda rule: rule
)
def test_a_rule_that_cannot_be_evaluated_refuses_nothing(rule: str) -> None:
    assert judge({"type": "string", "x-kubernetes-validations": [{"rule": rule}]}, "a") == ""


def test_the_message_names_the_field() -> None:
    schema = {"type": "array", "items": {"type": "object", "properties": {"size": {"type": "integer", "minimum": 0}}}}
    assert judge(schema, [{"size": 1}, {"size": -1}]) == "v.1.size: -1 is less than the minimum of 0"
    assert find_violation({}, {"type": "object", "required": ["spec"]}) == 'the object: "spec" is a required property'


def test_a_value_that_is_nested_too_deeply_is_not_refused() -> None:
    value: Any = []
    for _ in range(5_000):
        value = [value]
    assert find_violation({"v": value}, {"type": "object", "required": ["w"]}) == ""
    schema: dict[str, Any] = {}
    for _ in range(5_000):
        schema = {"type": "array", "items": schema}
    assert find_violation({"v": []}, {"type": "object", "properties": {"v": schema}}) == ""
