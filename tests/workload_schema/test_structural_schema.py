"""Objects are refused by their schemas as a kube-apiserver refuses them."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from fleethook.workload_schema.schema_defaults import set_schema_defaults
from fleethook.workload_schema.structural_schema import find_violation

FACTS = yaml.safe_load((Path(__file__).parents[1] / "conformance" / "structural_schemas.yaml").read_text())


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
