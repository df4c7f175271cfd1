"""Decode names and extensions of certificates as Go's crypto/x509 does.

``cryptography`` compares no encoded names, and refuses extensions that Go accepts, such as ``CA:FALSE, pathlen:0``.
"""

from typing import Final, NamedTuple
from urllib.parse import urlsplit

from fleethook.model.formats.text import escape_line
from fleethook.outbound.tls.certificate_names import Names, Subtrees, is_domain, read_address, read_network

_SEQUENCE: Final = 0x30
_BOOLEAN: Final = 1
_INTEGER: Final = 2
_BIT_STRING: Final = 3
_OCTET_STRING: Final = 4
_OID: Final = 6
_EMAIL, _DNS, _URI, _IP = 0x81, 0x82, 0x86, 0x87
_BITS: Final = 8
_TRUE: Final = b"\xff"
_CERT_SIGN: Final = 0x04
_HIGH_TAG: Final = 0x1F
_STANDARD: Final = b"\x55\x1d"
# The last number of the OIDs 2.5.29.N that Go handles.
_OWN_KEY, _KEY_USAGE, _NAMES, _BASIC, _SUBTREES, _POLICIES, _MAPPINGS, _ISSUER_KEY, _POLICY_LIMITS, _USAGES = (
    14, 15, 17, 19, 30, 32, 33, 35, 36, 37,
)  # fmt: skip
# CRL distribution points and policy mappings are sequences of sequences.
_SEQUENCES: Final = (31, _MAPPINGS)
_ACCESS: Final = bytes.fromhex("2b06010505070101")
_HANDLED: Final = frozenset({
    *(_STANDARD + bytes([number]) for number in (14, 15, 17, 19, 30, 31, 32, 33, 35, 36, 37, 54)), _ACCESS,
})  # fmt: skip
_NEVER_CRITICAL: Final = frozenset({_STANDARD + bytes([_OWN_KEY]), _STANDARD + bytes([_ISSUER_KEY]), _ACCESS})
ANY_POLICY: Final = bytes.fromhex("551d2000")
_PRINTABLE_STRING: Final = 0x13
_FIRST: Final = 0x80
_SECOND: Final = 0x81
_PRINTABLE: Final = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 '()+,-./:=?*&")
_STRINGS: Final = {
    0x0C: "utf-8",
    0x12: "ascii",
    _PRINTABLE_STRING: "ascii",
    0x14: "latin-1",
    0x16: "ascii",
    0x1E: "utf-16-be",
}


class CertificateError(ValueError):
    """A certificate cannot be parsed or is not trusted; the text is that of Go's crypto/x509."""


class Element(NamedTuple):
    """An element of DER."""

    tag: int
    content: bytes
    encoded: bytes


class Extensions(NamedTuple):
    """The extensions of a certificate that decide about trust."""

    has_unknown_critical: bool = False
    is_authority: bool | None = None
    """None without basic constraints."""
    max_intermediates: int | None = None
    """The path length constraint, None without one."""
    may_sign: bool = True
    """Whether there is no key usage, or one with ``keyCertSign``."""
    usages: frozenset[bytes] = frozenset()
    """The extended key usages, as encoded OIDs; empty without the extension."""
    names: Names = Names()
    encoded_names: bytes | None = None
    permitted: Subtrees = Subtrees()
    excluded: Subtrees = Subtrees()
    policies: frozenset[bytes] = frozenset()
    needs_policy: bool = False
    """Whether it has ``requireExplicitPolicy``, or maps policies from or to any."""
    key_identifier: bytes = b""
    issuer_key_identifier: bytes = b""


def read_elements(content: bytes) -> list[Element]:
    """Return the elements of a sequence; raises CertificateError for malformed DER."""
    found, at = [], 0
    try:
        while at < len(content):
            start, tag, length = at, content[at], content[at + 1]
            at += 2
            if length & 0x80:
                count = length & 0x7F
                length = int.from_bytes(content[at : at + count])
                at += count
            if tag & _HIGH_TAG == _HIGH_TAG or at + length > len(content):
                raise CertificateError("x509: malformed certificate")
            found.append(Element(tag, content[at : at + length], content[start : at + length]))
            at += length
    except IndexError:
        raise CertificateError("x509: malformed certificate") from None
    return found


def read_name(encoded: bytes) -> dict[bytes, str]:
    """Return the attributes of a name by their encoded OIDs, the last one of each.

    Raises:
        CertificateError: An attribute contains characters that its type forbids.
    """
    (name,) = read_elements(encoded)
    attributes = {}
    for attribute in (one for group in read_elements(name.content) for one in read_elements(group.content)):
        oid, value = _expect(attribute, count=2)[:2]
        attributes[oid.content] = _read_string(value)
    return attributes


def _read_string(value: Element) -> str:
    is_valid = value.tag in _STRINGS and (value.tag != _PRINTABLE_STRING or _PRINTABLE.issuperset(value.content))
    try:
        return value.content.decode(_STRINGS[value.tag] if is_valid else "")
    except (LookupError, ValueError):
        raise CertificateError("x509: invalid RDNSequence: invalid attribute value") from None


def read_extensions(encoded: bytes) -> Extensions:
    """Decode a sequence of extensions; raises CertificateError if Go could not decode it."""
    values: dict[bytes, tuple[bool, bytes]] = {}
    for extension in _read_sequence(encoded):
        oid, *flag, value = _expect(extension, count=2)
        if oid.tag != _OID or value.tag != _OCTET_STRING or any(one.tag != _BOOLEAN for one in flag):
            raise CertificateError("x509: malformed extension")
        if oid.content in values:
            raise CertificateError("x509: certificate contains a duplicate extension")
        values[oid.content] = (any(one.content == _TRUE for one in flag), value.content)
    critical = {oid for oid, (is_critical, _) in values.items() if is_critical}
    if critical & _NEVER_CRITICAL:
        raise CertificateError("x509: key identifier or authority info access incorrectly marked critical")
    found = {oid[-1]: value for oid, (_, value) in values.items() if oid[:-1] == _STANDARD}
    is_authority, max_intermediates = _read_basic_constraints(found.get(_BASIC))
    names, (permitted, excluded) = _read_names(found.get(_NAMES)), _read_subtrees(found.get(_SUBTREES))
    unhandled = critical - _HANDLED
    if names.is_empty:
        unhandled |= critical & {_STANDARD + bytes([_NAMES])}
    if permitted.has_other or excluded.has_other:
        unhandled |= critical & {_STANDARD + bytes([_SUBTREES])}
    limits = _read_optional(found.get(_POLICY_LIMITS))
    for member in (one for number in _SEQUENCES for one in _read_optional(found.get(number))):
        if member.tag != _SEQUENCE:
            raise CertificateError("x509: malformed extension")
    if any(one.tag not in (_FIRST, _SECOND) or not one.content for one in limits):
        raise CertificateError("x509: invalid policy constraints extension")
    return Extensions(
        has_unknown_critical=bool(unhandled),
        is_authority=is_authority,
        max_intermediates=max_intermediates,
        may_sign=_read_may_sign(found.get(_KEY_USAGE)),
        usages=frozenset(_read_oid(one) for one in _read_optional(found.get(_USAGES))),
        names=names,
        encoded_names=found.get(_NAMES),
        permitted=permitted,
        excluded=excluded,
        policies=frozenset(_read_oid(_expect(one, count=1)[0]) for one in _read_optional(found.get(_POLICIES))),
        needs_policy=any(one.tag == _FIRST for one in limits) or ANY_POLICY in found.get(_MAPPINGS, b""),
        key_identifier=_read_key_identifier(found.get(_OWN_KEY)),
        issuer_key_identifier=next(
            (one.content for one in _read_optional(found.get(_ISSUER_KEY)) if one.tag == _FIRST), b""
        ),
    )


def _read_sequence(encoded: bytes) -> list[Element]:
    elements = read_elements(encoded)
    if not elements or elements[0].tag != _SEQUENCE:
        raise CertificateError("x509: malformed extension")
    return read_elements(elements[0].content)


def _read_optional(encoded: bytes | None) -> list[Element]:
    return [] if encoded is None else _read_sequence(encoded)


def _expect(element: Element, *, count: int) -> list[Element]:
    """Return the members of a sequence that has at least some number of them."""
    members = read_elements(element.content)
    if len(members) < count:
        raise CertificateError("x509: malformed certificate")
    return members


def _read_key_identifier(encoded: bytes | None) -> bytes:
    if encoded is None:
        return b""
    elements = read_elements(encoded)
    if not elements or elements[0].tag != _OCTET_STRING:
        raise CertificateError("x509: invalid subject key identifier")
    return elements[0].content


def _read_oid(element: Element) -> bytes:
    # The last byte of each number has no high bit.
    if element.tag != _OID or not element.content or element.content[-1] & 0x80:
        raise CertificateError("x509: invalid object identifier in an extension")
    return element.content


def _read_basic_constraints(encoded: bytes | None) -> tuple[bool | None, int | None]:
    if encoded is None:
        return None, None
    members = _read_sequence(encoded)
    is_authority = any(one.tag == _BOOLEAN and one.content == _TRUE for one in members)
    limits = [int.from_bytes(one.content, signed=True) for one in members if one.tag == _INTEGER]
    if any(limit < 0 for limit in limits):
        raise CertificateError("x509: invalid basic constraints")
    return is_authority, limits[0] if limits else None


def _read_may_sign(encoded: bytes | None) -> bool:
    """Return whether a key usage includes ``keyCertSign``, or nothing."""
    if encoded is None:
        return True
    elements = read_elements(encoded)
    if not elements or elements[0].tag != _BIT_STRING or not elements[0].content:
        raise CertificateError("x509: invalid key usage")
    unused, *bits = elements[0].content
    if unused >= _BITS or (unused and not (bits and bits[-1] & ((1 << unused) - 1) == 0)):
        raise CertificateError("x509: invalid key usage")
    return not any(bits) or bool(bits[0] & _CERT_SIGN)


def _read_names(encoded: bytes | None) -> Names:
    texts: dict[int, list[str]] = {_DNS: [], _EMAIL: [], _URI: []}
    addresses = []
    for name in _read_optional(encoded):
        if name.tag == _IP:
            addresses.append(read_address(name.content))
        elif name.tag in texts:
            texts[name.tag].append(_read_text(name))
    for uri in texts[_URI]:
        _check_uri(uri)
    return Names(tuple(texts[_DNS]), tuple(addresses), tuple(texts[_EMAIL]), tuple(texts[_URI]))


def _read_subtrees(encoded: bytes | None) -> tuple[Subtrees, Subtrees]:
    if encoded is None:
        return Subtrees(), Subtrees()
    lists = {one.tag: read_elements(one.content) for one in _read_sequence(encoded)}
    if not any(lists.values()):
        raise CertificateError("x509: empty name constraints extension")
    return _read_subtree(lists.get(0xA0, [])), _read_subtree(lists.get(0xA1, []))


def _read_subtree(elements: list[Element]) -> Subtrees:
    bases = [_expect(one, count=1)[0] for one in elements]
    texts = {
        tag: frozenset(found) if (found := [_read_text(one) for one in bases if one.tag == tag]) else None
        for tag in (_DNS, _EMAIL, _URI)
    }
    networks = frozenset(read_network(one.content) for one in bases if one.tag == _IP)
    return Subtrees.create(
        dns=texts[_DNS],
        ip=networks or None,
        email=texts[_EMAIL],
        uri=texts[_URI],
        has_other=any(one.tag not in (_DNS, _EMAIL, _URI, _IP) for one in bases),
    )


def _read_text(name: Element) -> str:
    try:
        return name.content.decode("ascii")
    except UnicodeDecodeError:
        raise CertificateError("x509: a name in an extension is malformed") from None


def _check_uri(uri: str) -> None:
    try:
        host = urlsplit(uri).netloc.rpartition("@")[2]
        is_valid = is_domain(host) and " " not in uri
    except ValueError:
        is_valid = False
    if not is_valid:
        raise CertificateError(f"x509: cannot parse URI {escape_line(uri)!r}")
