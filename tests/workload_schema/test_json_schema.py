"""Tests of the schema of workloads. tests/e2e/test_workload_rules.py compares its findings with a kube-apiserver's."""

from typing import Any

import pytest

from fleethook.workload_schema.json_schema import (
    FORMATS,
    WorkloadFinding,
    describe_enum,
    describe_type,
    describe_unknown,
    load_json_schema,
    nearest,
    shown_value,
)

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


@pytest.mark.parametrize(("pointer", "text"), [("/spec/x", "/spec/x: is wrong"), ("", "the workload: is wrong")])
def test_the_text_names_the_member_or_the_workload(pointer: str, text: str) -> None:
    assert str(WorkloadFinding(pointer, "value", "is wrong")) == text


@pytest.mark.parametrize(
    ("name", "struct", "parents", "message"),
    [
        ("imagePulPolicy", "core.v1.Container", (), ': did you mean "imagePullPolicy"?'),
        ("NODENAME", "core.v1.PodSpec", (), ': did you mean "nodeName"?'),
        ("tolerations", "core.v1.Container", ("core.v1.PodSpec",), ": it is a field of PodSpec"),
        ("volumeMounts", "core.v1.PodSpec", (), ": it is a field of containers (Container)"),
        ("zzz", "core.v1.EnvVar", (), ": it has name, value, valueFrom"),
        ("zzz", "core.v1.PodSpec", (), ": correct the name or remove it"),
    ],
)
def test_an_unknown_field_has_a_suggestion(name: str, struct: str, parents: tuple[str, ...], message: str) -> None:
    kind = struct.rpartition(".")[2]
    assert describe_unknown(name, struct, parents) == f'{kind} has no field "{name}"{message}'


@pytest.mark.parametrize(
    ("name", "found"), [("relicas", "replicas"), ("REPLICAS", "replicas"), ("size", None), ("", None)]
)
def test_the_nearest_name_is_found_in_any_case(name: str, found: str | None) -> None:
    assert nearest(name, ["replicas", "selector"]) == found


def test_the_nearest_name_is_returned_as_it_is_written() -> None:
    assert nearest("tcp", ["TCP", "UDP"]) == "TCP"


@pytest.mark.parametrize(
    ("value", "types", "message"),
    [
        (1, ["string"], "must be a string, not the number 1: quote it"),
        ("1", ["integer"], 'must be an integer, not the string "1": remove the quotes'),
        ("x", ["integer"], 'must be an integer, not the string "x"'),
        ("true", ["boolean"], 'must be true or false, not the string "true": remove the quotes'),
        ([], ["integer", "string"], "must be a string or an integer, not a list"),
        (None, ["object"], "must be an object, not null"),
    ],
)
def test_a_wrong_type_is_named_with_advice_on_quotes(value: Any, types: list[str], message: str) -> None:
    assert describe_type(value, types, {}, ()) == message


def test_the_members_of_an_object_are_listed_the_required_ones_first() -> None:
    members = {name: {} for name in "abcdefghijklmnop"}
    assert describe_type("x", ["object"], members, ["p", "c"]) == (
        'must be an object (p, c, a, b, d, e, f, g, h, i, j, k, …), not the string "x"'
    )


def test_allowed_values_are_listed_unless_they_are_many() -> None:
    assert describe_enum("always", ["", "Always", "Never"]) == (
        'must be one of Always, Never, not the string "always": did you mean Always?'
    )
    assert describe_enum(1, ["Always", "Never"]) == "must be one of Always, Never, not the number 1"
    many = [f"Option{number}" for number in range(13)]
    assert describe_enum("Option", many).startswith('the string "Option" is not a value that Kubernetes knows: did you')
    assert describe_enum("x", many) == 'the string "x" is not a value that Kubernetes knows'


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "null"), (True, "true"), ({}, "an object"), ([1], "a list"), (1.5, "the number 1.5"),
        ("ü", 'the string "ü"'), ("x" * 99, f'the string "{"x" * 59}…'),
    ],
)  # fmt: skip
def test_a_value_is_shown_with_its_type(value: Any, shown: str) -> None:
    assert shown_value(value) == shown
