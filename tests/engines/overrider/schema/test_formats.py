"""Formats of texts. tests/conformance/workload_rules.yaml has the answers of kube-apiserver to some of each."""

import pytest

from fleethook.engines.overrider.schema.formats import FORMATS
from fleethook.engines.overrider.schema.json_schema import TEXTS

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


def test_members_have_formats_that_exist() -> None:
    assert {name for members in TEXTS.values() for name in members.values()} <= FORMATS.keys()
