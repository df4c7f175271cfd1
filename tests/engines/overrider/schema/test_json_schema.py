"""Tests of the schema of workloads. tests/e2e/test_workload_rules.py compares its findings with a kube-apiserver's."""

from typing import Any

import pytest

from fleethook.engines.overrider.schema.json_schema import json_schema, load_openapi, short_name

SCHEMA = json_schema(load_openapi(), "Deployment")
DEFINITIONS = SCHEMA["definitions"]


def test_the_schema_is_that_of_the_kind() -> None:
    assert SCHEMA["$ref"] == "#/definitions/apps.v1.Deployment"
    assert json_schema(load_openapi(), "StatefulSet")["$ref"] == "#/definitions/apps.v1.StatefulSet"


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("io.k8s.api.core.v1.Container", "core.v1.Container"),
        ("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", "meta.v1.ObjectMeta"),
        ("io.k8s.apimachinery.pkg.util.intstr.IntOrString", "util.intstr.IntOrString"),
    ],
)
def test_names_are_those_of_the_structs(name: str, short: str) -> None:
    assert short_name(name) == short
    assert short in DEFINITIONS


def test_structs_have_no_other_members() -> None:
    container = DEFINITIONS["core.v1.Container"]
    assert container["additionalProperties"] is False
    assert container["properties"]["env"] == {"type": "array", "items": {"$ref": "#/definitions/core.v1.EnvVar"}}
    assert DEFINITIONS["meta.v1.OwnerReference"] == DEFINITIONS["apps.v1.DeploymentStatus"] == {"type": "object"}


def test_required_texts_must_not_be_empty_unless_kubernetes_accepts_their_zero_value() -> None:
    assert DEFINITIONS["core.v1.Container"]["required"] == ["name", "image"]
    assert DEFINITIONS["core.v1.Container"]["properties"]["name"]["minLength"] == 1
    assert "minLength" not in DEFINITIONS["core.v1.Container"]["properties"]["workingDir"]
    assert "required" not in DEFINITIONS["core.v1.SleepAction"]
    assert DEFINITIONS["core.v1.HTTPHeader"]["required"] == ["name"]


def test_integers_have_the_limits_of_their_format_and_counts_are_not_negative() -> None:
    spec = DEFINITIONS["apps.v1.DeploymentSpec"]["properties"]
    assert (spec["replicas"]["minimum"], spec["replicas"]["maximum"]) == (0, 2**31 - 1)
    priority = DEFINITIONS["core.v1.PodSpec"]["properties"]["priority"]
    assert (priority["minimum"], priority["maximum"]) == (-(2**31), 2**31 - 1)
    grace_period = DEFINITIONS["core.v1.PodSpec"]["properties"]["terminationGracePeriodSeconds"]
    assert (grace_period["minimum"], grace_period["maximum"]) == (-(2**63), 2**63 - 1)


@pytest.mark.parametrize(
    ("name", "definition"),
    [
        ("api.resource.Quantity", {"type": ["string", "number"], "format": "quantity"}),
        ("util.intstr.IntOrString", {"type": ["integer", "string"], "minimum": -(2**31), "maximum": 2**31 - 1}),
    ],
)
def test_types_with_a_decoder_of_their_own_are_described(name: str, definition: dict[str, Any]) -> None:
    assert DEFINITIONS[name] == definition
