"""IP addresses, CIDRs and URLs (k8s.io/apiserver/pkg/cel/library: ip.go, cidr.go, urls.go; Go's net/netip, net/url)."""

import re
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import ClassVar, Final, NamedTuple, TypeAlias
from urllib.parse import parse_qs, quote, unquote_to_bytes

from fleethook.cel.functions import Function
from fleethook.cel.library.quantities import can_parse
from fleethook.cel.values.values import Foreign, quote_text

_Address: TypeAlias = IPv4Address | IPv6Address

_BITS: Final = re.compile(r"0|[1-9][0-9]{0,2}", re.ASCII)


@dataclass(frozen=True)
class IP(Foreign):
    """An IP address."""

    kind: ClassVar[str] = "net.IP"
    address: _Address


@dataclass(frozen=True)
class CIDR(Foreign):
    """A range of IP addresses."""

    kind: ClassVar[str] = "net.CIDR"
    prefix: "_Prefix"


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


_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):", re.ASCII)
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_ASCII_ESCAPE: Final = re.compile(r"%[0-7][0-9A-Fa-f]")
_PORT: Final = re.compile(r"(?::[0-9]*)?", re.ASCII)
# net/url's shouldEscape allows the sub-delims of RFC 3986 and some more characters.
_BAD_HOST: Final = re.compile(r"""[^A-Za-z0-9\-_.~!$&'()*+,;=:\[\]<>"%\x80-\U0010ffff]""")
_BAD_USER: Final = re.compile(r"[^A-Za-z0-9\-._:~!$&'()*+,;=%@]")
_PATH_KEPT: Final = "$&+,/:;=@"
_PATH_LEFT: Final = re.compile(r"[A-Za-z0-9\-_.~!$&'()*+,;=:@\[\]/%]*")


@dataclass(frozen=True)
class URL(Foreign):
    """A URL; its text determines its parts."""

    kind: ClassVar[str] = "kubernetes.URL"
    text: str
    parts: "_Parts" = field(compare=False)


class _Parts(NamedTuple):
    scheme: str
    host: str
    path: str
    query: str


def _parse(text: str) -> _Parts:
    """Return the parts of an absolute URL or an absolute path.

    Raises:
        ValueError: The text is neither; the error is Go's.
    """
    # kube-apiserver validates the text with its fragment (ParseRequestURI), and then reads it without the fragment.
    _parse_part(text)
    return _parse_part(text.partition("#")[0], needs_scheme=False)


def _parse_part(text: str, *, needs_scheme: bool = True) -> _Parts:
    if not text:
        raise _build_error(text, "empty url")
    if _CONTROL.search(text):
        raise _build_error(text, "net/url: invalid control character in URL")
    match = _SCHEME.match(text)
    if match is None and text.startswith(":"):
        raise _build_error(text, "missing protocol scheme")
    scheme, rest = (match[1].lower(), text[match.end() :]) if match else ("", text)
    rest, _, query = rest.partition("?")
    if not rest.startswith("/"):
        if not scheme and text != "*":
            raise _build_error(text, "invalid URI for request")
        return _Parts(scheme, "", "", query)
    host = ""
    if (scheme or not (needs_scheme or rest.startswith("///"))) and rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        host, rest = _parse_host(authority, text), slash + path
    _check_escapes(rest, text)
    return _Parts(scheme, host, rest, query)


def _parse_host(authority: str, text: str) -> str:
    user, at, host = authority.rpartition("@")
    if at and _BAD_USER.search(user):
        raise _build_error(text, "net/url: invalid userinfo")
    _check_escapes(user, text)
    if host.startswith("["):
        address, bracket, port = host.rpartition("]")
        if not bracket:
            raise _build_error(text, "missing ']' in host")
        host_text = address
    else:
        host_text, colon, port = host.partition(":")
        port = colon + port
    if not _PORT.fullmatch(port):
        raise _build_error(text, f"invalid port {quote_text(port)} after host")
    bad = _BAD_HOST.search(host_text)
    if bad:
        raise _build_error(text, f"invalid character {quote_text(bad[0])} in host name")
    _check_host_escapes(host_text, text)
    return _unescape(host)


def _check_escapes(part: str, text: str) -> None:
    bad = _BAD_ESCAPE.search(part)
    if bad:
        raise _build_error(text, f"invalid URL escape {quote_text(part[bad.start() : bad.start() + 3])}")


def _check_host_escapes(host: str, text: str) -> None:
    """Reject escapes of ASCII characters (RFC 3986, 3.2.2), but that of the percent sign (RFC 6874)."""
    _check_escapes(host, text)
    for escape in _ASCII_ESCAPE.findall(host):
        if escape != "%25":
            raise _build_error(text, f"invalid URL escape {quote_text(escape)}")


def _build_error(text: str, problem: str) -> ValueError:
    return ValueError(f"parse {quote_text(text)}: {problem}")


def find_parse_error(text: str) -> str:
    """Return Go's error if ``text`` is not an absolute URL or path (ParseRequestURI), otherwise ``""``."""
    try:
        _parse_part(text)
    except ValueError as error:
        return str(error)
    return ""


def _unescape(text: str) -> str:
    return unquote_to_bytes(text).decode(errors="replace")


def _build_url(text: str) -> URL:
    try:
        parts = _parse(text)
    except ValueError as error:
        raise ValueError(f"URL parse error during conversion from string: {error}") from None
    # Schemes are case-insensitive.
    return URL(parts.scheme + text[len(parts.scheme) :], parts)


def _split_port(host: str) -> tuple[str, str]:
    name, colon, port = host.rpartition(":")
    if not colon or not _PORT.fullmatch(f":{port}"):
        name, port = host, ""
    return name.removeprefix("[").removesuffix("]") if name.startswith("[") and name.endswith("]") else name, port


def _escape_path(path: str) -> str:
    if _PATH_LEFT.fullmatch(path):
        return path
    return quote(unquote_to_bytes(path), safe=_PATH_KEPT)


def _parse_query(query: str) -> dict[str, list[str]]:
    # Go drops parameters with a semicolon or an invalid escape.
    pairs = (pair for pair in query.split("&") if pair and ";" not in pair and not _BAD_ESCAPE.search(pair))
    return parse_qs("&".join(pairs), keep_blank_values=True)


_U: Final = URL.kind
URL_FUNCTIONS: Final = (
    Function("url", ("string",), _build_url),
    Function("isURL", ("string",), lambda text: not find_parse_error(text)),
    Function("getScheme", (_U,), lambda url: url.parts.scheme),
    Function("getHost", (_U,), lambda url: url.parts.host),
    Function("getHostname", (_U,), lambda url: _split_port(url.parts.host)[0]),
    Function("getPort", (_U,), lambda url: _split_port(url.parts.host)[1]),
    Function("getEscapedPath", (_U,), lambda url: _escape_path(url.parts.path)),
    Function("getQuery", (_U,), lambda url: _parse_query(url.parts.query)),
)
