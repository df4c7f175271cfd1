"""Which addresses are private, and not dialling those: a webhook's URL is chosen by somebody else (SSRF).

An address is judged where its socket is made, after names are resolved: what was judged is what is dialled, and a name
that resolves to something else a moment later (DNS rebinding) gains nothing.
"""

import ipaddress
import socket
from typing import Any, Final

# The IANA registry of special-purpose IPv4 addresses (RFC 6890 and later), and multicast. Written out, because what
# the standard library calls global differs between the versions of Python we support.
_PRIVATE_4: Final = tuple(
    ipaddress.IPv4Network(network)
    for network in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        # The platform address of Azure's hosts: a global one by number, answered by the machine below.
        "168.63.129.16/32",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
    )
)
# All that is handed out as global unicast; everything else (loopback, ULA, link-local, multicast) is not to be called.
_GLOBAL_6: Final = ipaddress.IPv6Network("2000::/3")
# What is special within: protocol assignments with Teredo, documentation (RFC 3849, RFC 9637).
_PRIVATE_6: Final = tuple(ipaddress.IPv6Network(network) for network in ("2001::/23", "2001:db8::/32", "3fff::/20"))
# Prefixes with an IPv4 address inside, and how far it is from the right: that one is what a packet ends up at.
_MAPPED: Final = ipaddress.IPv6Network("::ffff:0:0/96")
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_6TO4: Final = ipaddress.IPv6Network("2002::/16")
_EMBEDDING: Final = ((_MAPPED, 0), (_NAT64, 0), (_6TO4, 80))
_IPV4_MASK: Final = 0xFFFFFFFF


class PrivateAddressError(OSError):
    """An address that may not be dialled."""

    def __init__(self, address: str) -> None:
        """Prepare; every one has the same text, so that several are one error where a name has several addresses."""
        super().__init__("private address")
        self.address: Final = address


def is_private(address: str) -> bool:
    """Return whether an address is not one of the public internet; what cannot be read is private."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return True
    if isinstance(parsed, ipaddress.IPv4Address):
        return any(parsed in network for network in _PRIVATE_4)
    if parsed.scope_id is not None:
        return True
    for network, shift in _EMBEDDING:
        if parsed in network:
            return is_private(str(ipaddress.IPv4Address(int(parsed) >> shift & _IPV4_MASK)))
    return parsed not in _GLOBAL_6 or any(parsed in network for network in _PRIVATE_6)


def refuse_private_number(host: str) -> None:
    """Refuse a host that is an IPv4 address in any spelling that resolvers take (decimal, octal, hex, short).

    Raises:
        PrivateAddressError: It is one, and private.
    """
    try:
        address = socket.inet_ntoa(socket.inet_aton(host))
    except OSError:
        return
    if is_private(address):
        raise PrivateAddressError(address)


def public_socket(info: tuple[int, int, int, str, tuple[Any, ...]]) -> socket.socket:
    """Return a socket for an address that is about to be dialled.

    Args:
        info: As of ``socket.getaddrinfo``.

    Raises:
        PrivateAddressError: The address is private.
    """
    family, kind, protocol, _, address = info
    if is_private(address[0]):
        raise PrivateAddressError(address[0])
    return socket.socket(family, kind, protocol)
