"""The addresses that may be dialled, and the proxy for a URL.

Tenants choose the URLs of their webhooks (SSRF), so private addresses are refused. An address is checked when its
socket is created, after the name was resolved. A name that resolves to another address a moment later (DNS rebinding)
therefore cannot pass the check.

`choose_proxy` is for the requests of fleethook itself. Its rules for the environment are those of Go's
golang.org/x/net/http/httpproxy, which client-go uses. Python's own functions ignore networks in NO_PROXY.
"""

import ipaddress
import socket
from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

from fleethook.model.formats.text import escape_line

# The IANA registry of special-purpose IPv4 addresses (RFC 6890 and later), and multicast. The list is explicit, because
# ``ipaddress.is_global`` differs between the supported versions of Python.
_PRIVATE_4: Final = tuple(
    ipaddress.IPv4Network(network)
    for network in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        # The platform address of Azure: public by its number, but the host of the virtual machine answers.
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
# All global unicast addresses; others (loopback, ULA, link-local, multicast) must not be called.
_GLOBAL_6: Final = ipaddress.IPv6Network("2000::/3")
# Exceptions in that range: protocol assignments with Teredo, documentation (RFC 3849, RFC 9637).
_PRIVATE_6: Final = tuple(ipaddress.IPv6Network(network) for network in ("2001::/23", "2001:db8::/32", "3fff::/20"))
# Prefixes that embed an IPv4 address, to which the packet is finally sent, and its offset in bits from the right.
_MAPPED: Final = ipaddress.IPv6Network("::ffff:0:0/96")
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_6TO4: Final = ipaddress.IPv6Network("2002::/16")
_EMBEDDING: Final = ((_MAPPED, 0), (_NAT64, 0), (_6TO4, 80))
_IPV4_MASK: Final = 0xFFFFFFFF


class PrivateAddressError(OSError):
    """The address is private and must not be dialled."""

    def __init__(self, address: str) -> None:
        """Prepare. All errors have the same text: aiohttp then reports one error for a name with several addresses."""
        super().__init__("private address")
        self.address: Final = address


def describe_private_address(host: str, address: str) -> str:
    """Return the reason why a webhook at a private address is not called."""
    return (
        f"{escape_line(host)} is a private address ({escape_line(address)}): webhooks at private addresses "
        "are refused unless the setting private_webhooks is true"
    )


def is_private(address: str) -> bool:
    """Return whether an address is not on the public internet; text that is no address counts as private."""
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
    """Refuse a host that is a private IPv4 address, in any spelling that resolvers accept (decimal, octal, hex, short).

    Raises:
        PrivateAddressError: The host is such an address.
    """
    try:
        address = socket.inet_ntoa(socket.inet_aton(host))
    except OSError:
        return
    if is_private(address):
        raise PrivateAddressError(address)


def public_socket(info: tuple[int, int, int, str, tuple[Any, ...]]) -> socket.socket:
    """Return a socket for an address, before it is dialled.

    Args:
        info: An entry of the result of ``socket.getaddrinfo``.

    Raises:
        PrivateAddressError: The address is private.
    """
    family, kind, protocol, _, address = info
    if is_private(address[0]):
        raise PrivateAddressError(address[0])
    return socket.socket(family, kind, protocol)


def choose_proxy(
    url: str, environment: Mapping[str, str], *, explicit: str = "", exceptions: Iterable[str] = ()
) -> str:
    """Return the URL of the proxy for a request; ``""`` for none.

    Args:
        url: An http or https URL with a host.
        environment: Variables as in ``os.environ``; empty to ignore the environment.
        explicit: The URL of a proxy that takes precedence over those of the environment, and their exceptions.
        exceptions: Hosts that are reached without the explicit proxy, as in NO_PROXY.
    """
    parts = urlsplit(url)
    if explicit:
        return "" if _bypasses_proxy(parts, exceptions) else explicit
    proxy = _read_variable(environment, f"{parts.scheme}_proxy")
    # Go never uses a proxy of the environment for loopback hosts.
    if not proxy or _bypasses_proxy(parts, [*_LOOPBACK, *_read_variable(environment, "no_proxy").split(",")]):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


_LOOPBACK: Final = ("localhost", "127.0.0.0/8", "::1")


def _bypasses_proxy(url: SplitResult, patterns: Iterable[str]) -> bool:
    """Return whether a pattern has the host: a name with its subdomains, an address, a network, or ``*``."""
    host, address = url.hostname or "", url.netloc.rpartition("@")[2].lower()
    return any(_matches(host, address, pattern.strip().lower()) for pattern in patterns)


def _matches(host: str, address: str, pattern: str) -> bool:
    name = pattern.removeprefix("*").removeprefix(".")
    if not name:
        return pattern == "*"
    return name == address or f".{host}".endswith(f".{name}") or _is_in_network(host, name)


def _is_in_network(host: str, network: str) -> bool:
    try:
        return "/" in network and ipaddress.ip_address(host) in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False


def _read_variable(environment: Mapping[str, str], name: str) -> str:
    return environment.get(name.upper(), "") or environment.get(name, "")
