from typing import Any

import pytest

from fleethook.cluster.proxies import choose_proxy

ENV = {"HTTPS_PROXY": "http://secure:1", "HTTP_PROXY": "http://plain:2", "NO_PROXY": "skipped.example.com,10.0.0.0/8"}


@pytest.mark.parametrize(
    ("url", "own", "environment", "proxy"),
    [
        ("https://example.com/x", {}, ENV, "http://secure:1"),
        ("http://example.com/x", {}, ENV, "http://plain:2"),
        ("https://skipped.example.com/x", {}, ENV, ""),
        ("https://sub.skipped.example.com/x", {}, ENV, ""),
        ("https://10.1.2.3/x", {}, ENV, ""),
        ("https://localhost/x", {}, ENV, ""),
        ("https://127.0.0.9/x", {}, ENV, ""),
        ("https://[::1]/x", {}, ENV, ""),
        ("https://example.com/x", {}, {}, ""),
        ("https://example.com/x", {}, {"https_proxy": "bare:3"}, "http://bare:3"),
        ("https://example.com/x", {}, {"ALL_PROXY": "http://all:4"}, ""),
        ("https://example.com/x", {"explicit": "http://own:5"}, ENV, "http://own:5"),
        # The environment's exceptions are for its own proxies.
        ("https://skipped.example.com/x", {"explicit": "http://own:5"}, ENV, "http://own:5"),
        ("https://127.0.0.1/x", {"explicit": "http://own:5"}, ENV, "http://own:5"),
        # Its own exceptions mean no proxy at all, not the environment's.
        ("https://a.example.com/x", {"explicit": "http://own:5", "exceptions": ("example.com",)}, ENV, ""),
    ],
)
def test_which_proxy_an_address_is_asked_through(url: str, own: dict[str, Any], environment: Any, proxy: str) -> None:
    assert choose_proxy(url, environment, **own) == proxy


@pytest.mark.parametrize(
    ("pattern", "url", "skips"),
    [
        ("*", "http://anything/", True), ("", "http://anything/", False), ("b.test, *", "http://a.test/", True),
        ("a.test", "http://a.test/", True), ("a.test", "http://b.a.test/", True), ("a.test", "http://ba.test/", False),
        (".a.test", "http://b.a.test/", True), ("*.a.test", "http://b.a.test/", True), ("A.TEST ", "http://a.Test/", True),
        ("a.test:8080", "http://a.test:8080/", True), ("a.test:8080", "http://a.test/", False),
        ("192.168.1.1", "http://192.168.1.1/", True), ("192.168.0.0/16", "http://192.168.7.1/", True),
        ("192.168.0.0/16", "http://a.test/", False), ("fd00::/8", "http://[fd00::1]/", True), ("not/a/network", "http://not/", False),
    ],
)  # fmt: skip
def test_hosts_in_no_proxy_are_reached_directly(pattern: str, url: str, skips: bool) -> None:
    assert choose_proxy(url, {"HTTP_PROXY": "http://p", "NO_PROXY": pattern}) == ("" if skips else "http://p")
