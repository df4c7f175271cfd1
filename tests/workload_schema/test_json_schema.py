"""Tests of the schema of workloads. tests/e2e/test_workload_rules.py compares its findings with a kube-apiserver's."""

from typing import Any

import pytest

from fleethook.workload_schema.json_schema import FORMATS, load_json_schema

VALID = {
    "driver-name": ["csi.example.com", "CSI.Example"],
    "search-domain": [".", "a.example.", "_tcp.a_b.example"],
    "sysctl": ["net.core.somaxconn", "net/ipv4/conf/eth0_1"],
    "absolute-path": ("/", "/a"), "config-map-key": ("a.b", "A_1", ".a"), "descending-path": ("", "a/b", "a..b", "..."),
    "environment-name": ("A", "a.b-c", "1A", "a b"), "file-path": ("a/b", ".a"), "header": ("X-A",),
    "ip": ("10.0.0.1", "::1", "010.0.0.1"), "label": ("a", "1-a", "a" * 63), "label-value": ("", "A_1.b"),
    "optional-label": ("", "a"), "optional-subdomain": ("", "a.b"), "percent": ("0%", "150%"), "port": ("http", "a-1"), "port-name": ("http", "a-1"),
    "qualified-name": ("a", "a.b/C_d"), "quantity": ("1", " 1Gi "), "steps": ("/a", "..a"), "subdomain": ("a.b", "a"),
}  # fmt: skip
REFUSED = {
    "driver-name": ["a b", "-a"],
    "search-domain": ["A.example", "a!", "a..b", "-a"],
    "sysctl": ["bad name", ".a", "a" * 254],
    "absolute-path": ("", "a"), "config-map-key": ("", "a b", ".", "..a", "a" * 254), "descending-path": ("/a", "a/../b"),
    "environment-name": ("", "A=B", "ä", "a\t"), "file-path": ("..a", "/a", "../a"), "header": ("", "a b", "a:"),
    "ip": ("", "example", "::x"), "label": ("", "A", "a.b", "a-", "a" * 64), "label-value": ("a b", "-a", "a" * 64),
    "optional-label": ("A", "a.b"), "optional-subdomain": ("A",), "percent": ("", "1", "-1%", "1.5%"), "port": ("80", "HTTP", "a--b", "a" * 16),
    "port-name": ("80", "-a", "a-", "a_b"), "qualified-name": ("", "a b", "a/b/c", "A/b"), "quantity": ("1gb", ""),
    "steps": ("..", "/a/.."), "subdomain": ("", "A", "a..b", "a_b"),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_accepts_and_refuses(name: str) -> None:
    assert [text for text in VALID[name] if FORMATS[name](text) is not None] == []
    assert [text for text in REFUSED[name] if FORMATS[name](text) is None] == []


SCHEMA = load_json_schema("Deployment")
DEFINITIONS = SCHEMA["definitions"]


def test_the_schema_is_that_of_the_kind() -> None:
    assert SCHEMA["$ref"] == "#/definitions/apps.v1.Deployment"
    assert load_json_schema("StatefulSet")["$ref"] == "#/definitions/apps.v1.StatefulSet"


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
