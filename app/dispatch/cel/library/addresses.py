"""IP addresses and CIDRs (k8s.io/apiserver/pkg/cel/library/ip.go and cidr.go, Go's net/netip)."""

import re
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any, Final, NamedTuple, TypeAlias

from google.protobuf.message import Message

from app.dispatch.cel.functions import Function
from app.dispatch.cel.library.parsing import can_parse
from app.dispatch.cel.library.quoting import quote_text
from app.dispatch.cel.protobuf_types import get_message_type

_Address: TypeAlias = IPv4Address | IPv6Address

_IP: Final = get_message_type("net.IP")
_CIDR: Final = get_message_type("net.CIDR")
_BITS: Final = re.compile(r"0|[1-9][0-9]{0,2}", re.ASCII)


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


def _build_ip(address: _Address) -> Message:
    return _IP(text=str(address))


def _build_cidr(prefix: _Prefix) -> Message:
    return _CIDR(text=f"{prefix.address}/{prefix.bits}")


def _read_ip(message: Any) -> _Address:
    return _parse_ip(message.text)


def _read_cidr(message: Any) -> _Prefix:
    return _parse_cidr(message.text)


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
    if isinstance(value, _IP):
        return _read_ip(value).max_prefixlen // 8
    if isinstance(value, _CIDR):
        return -(-_read_cidr(value).bits // 8)
    return 1


_I, _C = "net.IP", "net.CIDR"
FUNCTIONS: Final = (
    Function("ip", ("string",), _I, lambda text: _build_ip(_parse_ip(text)), member=False),
    Function("isIP", ("string",), "bool", lambda text: can_parse(_parse_ip, text), member=False),
    Function("ip.isCanonical", ("string",), "bool", lambda text: str(_parse_ip(text)) == text, member=False),
    Function("family", (_I,), "int", lambda ip: _read_ip(ip).version),
    Function("isUnspecified", (_I,), "bool", lambda ip: _read_ip(ip).is_unspecified),
    Function("isLoopback", (_I,), "bool", lambda ip: _read_ip(ip).is_loopback),
    Function("isLinkLocalMulticast", (_I,), "bool", lambda ip: _is_link_local_multicast(_read_ip(ip))),
    Function("isLinkLocalUnicast", (_I,), "bool", lambda ip: _is_link_local_unicast(_read_ip(ip))),
    Function("isGlobalUnicast", (_I,), "bool", lambda ip: _is_global_unicast(_read_ip(ip))),
    Function("string", (_I,), "string", lambda ip: ip.text, member=False),
    Function("cidr", ("string",), _C, lambda text: _build_cidr(_parse_cidr(text)), member=False),
    Function("isCIDR", ("string",), "bool", lambda text: can_parse(_parse_cidr, text), member=False),
    Function("containsIP", (_C, _I), "bool", lambda cidr, ip: _read_cidr(cidr).contains(_read_ip(ip))),
    Function("containsIP", (_C, "string"), "bool", lambda cidr, text: _read_cidr(cidr).contains(_parse_ip(text))),
    Function("containsCIDR", (_C, _C), "bool", lambda one, other: _contains_cidr(_read_cidr(one), _read_cidr(other))),
    Function(
        "containsCIDR", (_C, "string"), "bool", lambda one, text: _contains_cidr(_read_cidr(one), _parse_cidr(text))
    ),
    Function("ip", (_C,), _I, lambda cidr: _build_ip(_read_cidr(cidr).address)),
    Function("masked", (_C,), _C, lambda cidr: _build_cidr(_read_cidr(cidr).mask())),
    Function("prefixLength", (_C,), "int", lambda cidr: _read_cidr(cidr).bits),
    Function("string", (_C,), "string", lambda cidr: cidr.text, member=False),
)
