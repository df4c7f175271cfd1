"""IP addresses and CIDRs (k8s.io/apiserver/pkg/cel/library/ip.go and cidr.go, Go's net/netip)."""

import re
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final, NamedTuple, TypeAlias

from fleethook.cel.functions import Function
from fleethook.cel.library.quantities import can_parse
from fleethook.cel.values.quoting import quote_text
from fleethook.cel.values.values import Foreign

_Address: TypeAlias = IPv4Address | IPv6Address

_BITS: Final = re.compile(r"0|[1-9][0-9]{0,2}", re.ASCII)


class IP(Foreign):
    """An IP address."""

    __slots__ = ("address",)
    kind = "net.IP"

    def __init__(self, address: _Address) -> None:
        self.address: Final = address

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IP) and self.address == other.address

    def __hash__(self) -> int:
        return hash(self.address)


class CIDR(Foreign):
    """A range of IP addresses."""

    __slots__ = ("prefix",)
    kind = "net.CIDR"

    def __init__(self, prefix: "_Prefix") -> None:
        self.prefix: Final = prefix

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CIDR) and self.prefix == other.prefix

    def __hash__(self) -> int:
        return hash(self.prefix)


class _Prefix(NamedTuple):
    """A CIDR as written: the address may have bits beyond the prefix."""

    address: _Address
    bits: int

    def get_network(self, address: _Address) -> int:
        return int(address) >> (address.max_prefixlen - self.bits)

    def mask(self) -> "_Prefix":
        bits = self.address.max_prefixlen - self.bits
        return _Prefix(type(self.address)(int(self.address) >> bits << bits), self.bits)

    def contains(self, address: _Address) -> bool:
        return address.version == self.address.version and self.get_network(address) == self.get_network(self.address)


def _parse_ip(text: str) -> _Address:
    try:
        address = ip_address(text)
    except ValueError:
        raise ValueError(
            f"IP Address {quote_text(text)} parse error during conversion from string: ParseAddr({quote_text(text)}): "
            "unable to parse IP"
        ) from None
    if isinstance(address, IPv6Address) and address.scope_id is not None:
        raise ValueError(f"IP address {quote_text(text)} with zone value is not allowed")
    _reject_mapped(address, text)
    return address


def _reject_mapped(address: _Address, text: str) -> None:
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        raise ValueError(f"IPv4-mapped IPv6 address {quote_text(text)} is not allowed")


def _parse_cidr(text: str) -> _Prefix:
    host, slash, bits = text.rpartition("/")
    try:
        address = ip_address(host)
    except ValueError:
        address = None
    unscoped = address is not None and "%" not in host
    if not slash or address is None or not unscoped or not _BITS.fullmatch(bits) or int(bits) > address.max_prefixlen:
        raise ValueError(
            "network address parse error during conversion from string: network address parse error during conversion "
            f"from string: netip.ParsePrefix({quote_text(text)}): no valid prefix"
        )
    _reject_mapped(address, text)
    return _Prefix(address, int(bits))


def _is_link_local_multicast(address: _Address) -> bool:
    # IPv4: 224.0.0.0/24. IPv6: ff?2::/16, with the scope in the low half of the second byte.
    if isinstance(address, IPv4Address):
        return int(address) >> 8 == 0xE00000
    return address.is_multicast and int(address) >> 112 & 0xF == 2


def _is_link_local_unicast(address: _Address) -> bool:
    return address.is_link_local


def _is_global_unicast(address: _Address) -> bool:
    # In Go, private and documentation addresses are global unicast addresses, too.
    return not (
        address.is_unspecified
        or address.is_loopback
        or address.is_multicast
        or address.is_link_local
        or address == IPv4Address(0xFFFFFFFF)
    )


def _contains_cidr(one: _Prefix, other: _Prefix) -> bool:
    return one.bits <= other.bits and one.contains(other.address)


def measure_address(value: object) -> int:
    """Return the size for Kubernetes' costs: the bytes of an IP address or a CIDR's prefix, 1 for other values."""
    if isinstance(value, IP):
        return value.address.max_prefixlen // 8
    if isinstance(value, CIDR):
        return -(-value.prefix.bits // 8)
    return 1


_I, _C = "net.IP", "net.CIDR"
ADDRESS_FUNCTIONS: Final = (
    Function("ip", ("string",), lambda text: IP(_parse_ip(text))),
    Function("isIP", ("string",), lambda text: can_parse(_parse_ip, text)),
    Function("ip.isCanonical", ("string",), lambda text: str(_parse_ip(text)) == text),
    Function("family", (_I,), lambda ip: ip.address.version),
    Function("isUnspecified", (_I,), lambda ip: ip.address.is_unspecified),
    Function("isLoopback", (_I,), lambda ip: ip.address.is_loopback),
    Function("isLinkLocalMulticast", (_I,), lambda ip: _is_link_local_multicast(ip.address)),
    Function("isLinkLocalUnicast", (_I,), lambda ip: _is_link_local_unicast(ip.address)),
    Function("isGlobalUnicast", (_I,), lambda ip: _is_global_unicast(ip.address)),
    Function("string", (_I,), lambda ip: str(ip.address)),
    Function("cidr", ("string",), lambda text: CIDR(_parse_cidr(text))),
    Function("isCIDR", ("string",), lambda text: can_parse(_parse_cidr, text)),
    Function("containsIP", (_C, _I), lambda cidr, ip: cidr.prefix.contains(ip.address)),
    Function("containsIP", (_C, "string"), lambda cidr, text: cidr.prefix.contains(_parse_ip(text))),
    Function("containsCIDR", (_C, _C), lambda one, other: _contains_cidr(one.prefix, other.prefix)),
    Function("containsCIDR", (_C, "string"), lambda one, text: _contains_cidr(one.prefix, _parse_cidr(text))),
    Function("ip", (_C,), lambda cidr: IP(cidr.prefix.address)),
    Function("masked", (_C,), lambda cidr: CIDR(cidr.prefix.mask())),
    Function("prefixLength", (_C,), lambda cidr: cidr.prefix.bits),
    Function("string", (_C,), lambda cidr: f"{cidr.prefix.address}/{cidr.prefix.bits}"),
)
