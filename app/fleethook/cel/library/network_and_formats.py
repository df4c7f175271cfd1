"""IP addresses, CIDRs and URLs, and named formats of strings such as ``uri`` and ``dns1123Label``.

Sources: ip.go, cidr.go, urls.go and format.go of k8s.io/apiserver/pkg/cel/library, Go's net/netip and net/url,
k8s.io/apimachinery/pkg/util/validation.
"""

import base64
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import date
from functools import partial
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias
from urllib.parse import parse_qs, quote, unquote_to_bytes

from fleethook.cel.values.values_and_overloads import NONE, Foreign, Function, Optional, can_parse, quote_text
from fleethook.model.formats.client_config_and_addresses import RequestURI, parse_url
from fleethook.model.formats.names_and_labels import label_key_problems, label_value_problems

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
    Function("isLinkLocalUnicast", (_I,), lambda ip: ip.address.is_link_local),
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


_BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_PATH_KEPT: Final = "$&+,/:;=@"
_PATH_LEFT: Final = re.compile(r"[A-Za-z0-9\-_.~!$&'()*+,;=:@\[\]/%]*")


@dataclass(frozen=True)
class URL(Foreign):
    """A URL; its text determines its parts."""

    kind: ClassVar[str] = "kubernetes.URL"
    text: str
    parts: RequestURI = field(compare=False)


def _parse_url(text: str) -> RequestURI:
    """Return the parts of an absolute URL or an absolute path.

    Raises:
        ValueError: The text is neither; the error is Go's.
    """
    try:
        # kube-apiserver validates the text with its fragment, and then reads it without the fragment.
        parse_url(text)
        return parse_url(text.partition("#")[0], is_request=False)
    except ValueError as error:
        raise ValueError(f"parse {quote_text(text)}: {error}") from None


def find_parse_error(text: str) -> str:
    """Return Go's error if ``text`` is not an absolute URL or path (ParseRequestURI), otherwise ``""``."""
    try:
        parse_url(text)
    except ValueError as error:
        return f"parse {quote_text(text)}: {error}"
    return ""


def _unescape(text: str) -> str:
    return unquote_to_bytes(text).decode(errors="replace")


def _build_url(text: str) -> URL:
    try:
        parts = _parse_url(text)
    except ValueError as error:
        raise ValueError(f"URL parse error during conversion from string: {error}") from None
    # Schemes are case-insensitive.
    return URL(parts.scheme + text[len(parts.scheme) :], parts)


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
    Function("getHost", (_U,), lambda url: _unescape(url.parts.host)),
    Function("getHostname", (_U,), lambda url: _unescape(url.parts.hostname)),
    Function("getPort", (_U,), lambda url: url.parts.port),
    Function("getEscapedPath", (_U,), lambda url: _escape_path(url.parts.path)),
    Function("getQuery", (_U,), lambda url: _parse_query(url.parts.query)),
)


@dataclass(frozen=True)
class NamedFormat(Foreign):
    """A format of strings."""

    kind: ClassVar[str] = "kubernetes.NamedFormat"
    name: str


_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_DNS_1035: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
_UUID: Final = re.compile(r"(?i)[0-9A-F]{8}-?[0-9A-F]{4}-?[0-9A-F]{4}-?[0-9A-F]{4}-?[0-9A-F]{12}", re.ASCII)
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_DATETIME: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt]([01][0-9]|2[0-3]):[0-5][0-9]:([0-5][0-9]|60)(\.[0-9]+)?"
    r"([Zz]|[+-]([01][0-9]|2[0-3]):[0-5][0-9])",
    re.ASCII,
)

_Validate = Callable[[str], Iterator[str]]


def _compile_name_format(pattern: str, *, longest: int, text: str, dotted: str = "") -> _Validate:
    """Return the validation of a name. A name that matches only ``dotted`` gets a different error."""
    form, other = re.compile(pattern), re.compile(dotted)

    def validate(value: str) -> Iterator[str]:
        if len(value.encode(errors="replace")) > longest:
            yield f"must be no more than {longest} characters"
        if dotted and not form.fullmatch(value) and other.fullmatch(value):
            yield "must not contain dots"
        elif not form.fullmatch(value):
            yield f"{text}, regex used for validation is '{pattern}')"

    return validate


def _allow_trailing_dash(validate: _Validate) -> _Validate:
    """Return the validation of a generateName: its trailing dash is followed by a generated suffix."""
    return lambda value: validate(f"{value[:-1]}a" if len(value) > 1 and value.endswith("-") else value)


def _require(accepts: Callable[[str], bool], problem: str) -> _Validate:
    def validate(value: str) -> Iterator[str]:
        if not accepts(value):
            yield problem

    return validate


def _is_base64(value: str) -> bool:
    return bool(value) and can_parse(partial(base64.b64decode, validate=True), value)


def _is_date(value: str) -> bool:
    return _DATE.fullmatch(value) is not None and can_parse(date.fromisoformat, value)


def _is_datetime(value: str) -> bool:
    match = _DATETIME.fullmatch(value)
    return match is not None and _is_date(match[1])


_DNS_1123_LABEL: Final = _compile_name_format(
    _LABEL,
    longest=63,
    dotted=_SUBDOMAIN,
    text="a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end "
    "with an alphanumeric character (e.g. 'my-name',  or '123-abc'",
)
_DNS_1123_SUBDOMAIN: Final = _compile_name_format(
    _SUBDOMAIN,
    longest=253,
    text="a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'example.com'",
)
_DNS_1035_LABEL: Final = _compile_name_format(
    _DNS_1035,
    longest=63,
    text="a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
    "character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123'",
)


_FORMATS: Final[dict[str, _Validate]] = {
    "dns1123Label": _DNS_1123_LABEL,
    "dns1123Subdomain": _DNS_1123_SUBDOMAIN,
    "dns1035Label": _DNS_1035_LABEL,
    "qualifiedName": label_key_problems,
    "dns1123LabelPrefix": _allow_trailing_dash(_DNS_1123_LABEL),
    "dns1123SubdomainPrefix": _allow_trailing_dash(_DNS_1123_SUBDOMAIN),
    "dns1035LabelPrefix": _allow_trailing_dash(_DNS_1035_LABEL),
    "labelValue": label_value_problems,
    "uri": lambda value: filter(None, (find_parse_error(value),)),
    "uuid": _require(lambda value: _UUID.fullmatch(value) is not None, "does not match the UUID format"),
    "byte": _require(_is_base64, "invalid base64"),
    "date": _require(_is_date, "invalid date"),
    "datetime": _require(_is_datetime, "invalid datetime"),
}


def _build_format(name: str) -> Callable[[], NamedFormat]:
    return lambda: NamedFormat(name)


def _validate(format_: NamedFormat, text: str) -> Optional:
    problems = list(_FORMATS[format_.name](text))
    return Optional(problems) if problems else NONE


# pkg/cel/library/format.go: MaxRegexSize, which determines the cost of a validation.
_REGEX_SIZES: Final = {
    **dict.fromkeys(("dns1123Label", "dns1035Label", "dns1123LabelPrefix", "dns1035LabelPrefix"), 30),
    **dict.fromkeys(("dns1123Subdomain", "dns1123SubdomainPrefix", "qualifiedName"), 60),
    "labelValue": 40,
    "uri": 1103,
    "uuid": 70,
    "byte": 84,
    **dict.fromkeys(("date", "datetime"), 71),
}


def get_regex_size(value: Any) -> int | None:
    """Return the size of a format's regular expression for Kubernetes' costs; None for other values."""
    return _REGEX_SIZES[value.name] if isinstance(value, NamedFormat) else None


_F: Final = NamedFormat.kind
FORMAT_FUNCTIONS: Final = (
    *(Function(f"format.{name}", (), _build_format(name)) for name in _FORMATS),
    Function("format.named", ("string",), lambda name: Optional(NamedFormat(name)) if name in _FORMATS else NONE),
    Function("validate", (_F, "string"), _validate),
)
