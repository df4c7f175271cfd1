import ipaddress
import socket
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleethook.outbound.private_addresses_and_proxies import (
    PrivateAddressError,
    choose_proxy,
    is_private,
    public_socket,
    refuse_private_number,
)

PRIVATE = [
    "127.0.0.1", "127.255.255.254", "0.0.0.0", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "169.254.169.254",
    "100.64.0.1", "100.100.100.200", "168.63.129.16", "192.0.0.192", "192.0.2.1", "198.18.0.1", "224.0.0.1",
    "239.255.255.250", "240.0.0.1", "255.255.255.255",
    "::", "::1", "fe80::1", "fe80::1%eth0", "fe80::1%25eth0", "2606:4700::1111%eth0", "fc00::1", "fd00:ec2::254", "fec0::1",
    "ff02::1", "ff0e::1", "100::1", "2001:db8::1", "2001::1", "3fff::1", "5f00::1", "::ffff:127.0.0.1",
    "::ffff:169.254.169.254", "::127.0.0.1", "64:ff9b::127.0.0.1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::8.8.8.8",
    "2002:7f00:1::1", "2002:a9fe:a9fe::1",
    "", "localhost", "2130706433", "0x7f.1", "127.1", "0177.0.0.1",
]  # fmt: skip
PUBLIC = [
    "8.8.8.8", "1.1.1.1", "172.15.255.255", "172.32.0.1", "100.63.255.255", "100.128.0.1", "168.63.129.17", "223.255.255.255",
    "2606:4700:4700::1111", "2a00:1450::1", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2002:808:808::1",
]  # fmt: skip


@pytest.mark.parametrize("address", PRIVATE)
def test_special_purpose_addresses_are_private(address: str) -> None:
    assert is_private(address)


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_not_private(address: str) -> None:
    assert not is_private(address)


@given(st.ip_addresses(v=4))
def test_an_embedded_ipv4_address_decides(address: ipaddress.IPv4Address) -> None:
    number = int(address)
    embedded = (0xFFFF << 32 | number, 0x64FF9B << 96 | number, 0x2002 << 112 | number << 80)
    assert {is_private(str(ipaddress.IPv6Address(one))) for one in embedded} == {is_private(str(address))}


@given(st.one_of(st.ip_addresses(), st.text()))
def test_private_addresses_of_the_standard_library_are_private(address: object) -> None:
    try:
        private = ipaddress.ip_address(str(address)).is_private
    except ValueError:
        private = True
    assert is_private(str(address)) or not private


@pytest.mark.parametrize("host", ["127.0.0.1", "2130706433", "017700000001", "0x7f000001", "0x7f.1", "127.1", "0"])
def test_private_ipv4_addresses_are_refused_in_every_spelling(host: str) -> None:
    with pytest.raises(PrivateAddressError) as raised:
        refuse_private_number(host)
    assert raised.value.address == socket.inet_ntoa(socket.inet_aton(host))


@pytest.mark.parametrize("host", ["8.8.8.8", "134744072", "example.com", "::1", ""])
def test_names_are_checked_when_the_socket_is_created(host: str) -> None:
    refuse_private_number(host)


def test_sockets_are_created_for_public_addresses_only() -> None:
    public_socket((socket.AF_INET, socket.SOCK_STREAM, 6, "", ("8.8.8.8", 443))).close()
    with pytest.raises(PrivateAddressError) as raised:
        public_socket((socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::1", 443, 0, 0)))
    assert raised.value.address == "::1"


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
