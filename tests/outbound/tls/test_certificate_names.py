"""Names of certificates: the hosts that match them, as Go's VerifyHostname decides, and name constraints."""

import ipaddress
from typing import Final

import pytest

from fleethook.outbound.tls.certificate_names import Names, Subtrees, explain_constraint, read_address, read_network

HOSTS: Final = [
    "hook.example.com",
    "HOOK.Example.com",
    "hook.example.com.",
    "hook.example.com..",
    "example.com",
    "a.hook.example.com",
    ".example.com",
    "hook.example.org",
    "10.0.0.1",
    "::1",
    "0:0:0:0:0:0:0:1",
    "::ffff:10.0.0.1",
    "xn--bcher-kva.example.com",
    "a_b.example.com",
    "-a.example.com",
    "hook",
    "127.1",
    "hook..example.com",
    "*.example.com",
    "[::1]",
]
# By Go 1.26.8: of HOSTS, those that match the names.
MATCHES: Final = {
    "hook.example.com": "hook.example.com HOOK.Example.com hook.example.com.",
    "*.example.com": "hook.example.com HOOK.Example.com hook.example.com. xn--bcher-kva.example.com a_b.example.com "
    "*.example.com",
    "HOOK.EXAMPLE.COM": "hook.example.com HOOK.Example.com hook.example.com.",
    "hook.example.com.": "hook.example.com.",
    "*.com": "example.com",
    "10.0.0.1": "10.0.0.1 ::ffff:10.0.0.1",
    "::1 10.0.0.1": "10.0.0.1 ::1 0:0:0:0:0:0:0:1 ::ffff:10.0.0.1 [::1]",
    "::ffff:10.0.0.1": "10.0.0.1 ::ffff:10.0.0.1",
    "xn--bcher-kva.example.com": "xn--bcher-kva.example.com",
    "a_b.example.com": "a_b.example.com",
    "-a.example.com": "-a.example.com",
    "hook": "hook",
    ".example.com": ".example.com",
    "other.example.com hook.example.com": "hook.example.com HOOK.Example.com hook.example.com.",
    **dict.fromkeys(("*", "h*.example.com", "*ook.example.com", "hook.*.com", "*.*.com", "xn--*.example.com", ""), ""),
}


def read(texts: str) -> Names:
    addresses = [one for one in texts.split() if ":" in one or one[0].isdigit()]
    dns = tuple(one for one in texts.split() if one not in addresses)
    return Names(dns=dns, ip=tuple(map(ipaddress.ip_address, addresses)))


@pytest.mark.parametrize("names", MATCHES)
def test_hosts_match_as_in_go(names: str) -> None:
    found = [host for host in HOSTS if not read(names).explain_mismatch(host, common_name="")]
    assert " ".join(found) == MATCHES[names]


def test_letters_that_are_not_ascii_have_no_other_case() -> None:
    assert read("hoo\u212a.example.com").explain_mismatch("hook.example.com", common_name="")


def test_a_mismatch_names_a_hundred_names_at_most() -> None:
    names = " ".join(f"n{number}.example.com" for number in range(100))
    text = read(names).explain_mismatch("a\n.example.com", common_name="")
    assert text == r"certificate is valid for 100 names, but none matched a\n.example.com"


@pytest.mark.parametrize("constraint", ["10.0.0.0/8", "10.1.2.3/32", "0.0.0.0/0", "fd00::/8"])
def test_networks_contain_the_addresses_of_their_prefix(constraint: str) -> None:
    network = ipaddress.ip_network(constraint)
    permitted = Subtrees(ip=frozenset({read_network(network.network_address.packed + network.netmask.packed)}))
    for text in ("10.1.2.3", "11.1.2.3", "fd00::1", "fe00::1"):
        address = read_address(ipaddress.ip_address(text).packed)
        assert (not explain_constraint(Names(ip=(address,)), permitted, Subtrees())) == (address in network)


@pytest.mark.parametrize("encoded", [b"\n\0\0\0\xff\0\xff\0", b"\n\0\0", b""])
def test_a_network_that_is_no_prefix_is_an_error(encoded: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_network(encoded)
