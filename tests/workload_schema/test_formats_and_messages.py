"""Formats of texts and messages. tests/e2e/test_workload_rules.py compares findings with a kube-apiserver's."""

from typing import Any

import pytest

from fleethook.workload_schema.formats_and_messages import (
    FORMATS,
    WorkloadFinding,
    describe_enum,
    describe_type,
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


@pytest.mark.parametrize(("pointer", "text"), [("/spec/x", "/spec/x: is wrong"), ("", "the workload: is wrong")])
def test_the_text_names_the_member_or_the_workload(pointer: str, text: str) -> None:
    assert str(WorkloadFinding(pointer, "value", "is wrong")) == text


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
