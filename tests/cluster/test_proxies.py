from typing import Any
from urllib.parse import urlsplit

import pytest

from fleethook.cluster.proxies import bypasses_proxy, choose_proxy

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
        ("http://example.com/x", {}, {**ENV, "REQUEST_METHOD": "GET"}, ""),
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
        ("*", "http://anything/", True),
        ("", "http://anything/", False),
        ("example.com", "http://example.com/", True),
        ("example.com", "http://a.example.com/", True),
        ("example.com", "http://badexample.com/", False),
        (".example.com", "http://example.com/", False),
        (".example.com", "http://a.example.com/", True),
        ("*.example.com", "http://a.example.com/", True),
        ("EXAMPLE.com ", "http://example.COM/", True),
        ("example.com:8080", "http://example.com:8080/", True),
        ("example.com:8080", "http://example.com/", False),
        ("example.com:80", "http://example.com/", True),
        ("example.com:443", "https://example.com/", True),
        ("192.168.1.1", "http://192.168.1.1/", True),
        ("192.168.0.0/16", "http://192.168.7.1/", True),
        ("192.168.0.0/16", "http://example.com/", False),
        ("fd00::/8", "http://[fd00::1]/", True),
        ("fd00::1", "http://[fd00::1]/", True),
        ("[fd00::1]:81", "http://[fd00::1]:81/", True),
        ("[fd00::1]:81", "http://[fd00::1]:82/", False),
        ("not/a/network", "http://not/", False),
    ],
)
def test_which_addresses_a_pattern_is_of(pattern: str, url: str, skips: bool) -> None:
    assert bypasses_proxy(urlsplit(url), [pattern]) is skips


def test_an_invalid_port_matches_no_pattern() -> None:
    assert not bypasses_proxy(urlsplit("http://example.com:99999999/"), ["example.com"])
