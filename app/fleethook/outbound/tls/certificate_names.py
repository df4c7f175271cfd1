"""Names in certificates, and the name constraints of authorities, as Go's crypto/x509 compares them."""

import ipaddress
from collections.abc import Iterator
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from fleethook.model.formats.text import escape_line

_MAX_NAMED: Final = 100
_PRINTABLE: Final = frozenset(map(chr, range(33, 127)))
_LETTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_-")
_QUOTING: Final = frozenset('"\\')
Network = tuple[int, int, int]
"""IP version, length of the prefix, and prefix."""
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class Names(NamedTuple):
    """The subject alternative names of a certificate, by type."""

    dns: tuple[str, ...] = ()
    ip: tuple[Address, ...] = ()
    email: tuple[str, ...] = ()
    uri: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there is no name of these types."""
        return not any(self)

    def explain_mismatch(self, host: str, *, common_name: str) -> str:
        """Return why a certificate is not valid for a host, ``""`` if it is.

        Args:
            host: The DNS name or IP address that the client calls.
            common_name: The common name of a certificate without alternative names, ``""`` with them.
        """
        address = _parse_address(host.removeprefix("[").removesuffix("]"))
        if address is None:
            fits, kind, valid = any(_matches(pattern, host) for pattern in self.dns), "names", list(self.dns)
        else:
            fits, kind, valid = address in map(_unmapped, self.ip), "IP SANs", list(map(str, self.ip))
        shown = escape_line(host)
        if fits:
            text = ""
        elif common_name and _matches(common_name, host):
            text = "certificate relies on legacy Common Name field, use SANs instead"
        elif not valid and address is not None:
            text = f"cannot validate certificate for {shown} because it doesn't contain any IP SANs"
        elif not valid:
            text = f"certificate is not valid for any names, but wanted to match {shown}"
        elif len(valid) >= _MAX_NAMED:
            text = f"certificate is valid for {len(valid)} {kind}, but none matched {shown}"
        else:
            text = f"certificate is valid for {escape_line(', '.join(valid))}, not {shown}"
        return text


class Subtrees(NamedTuple):
    """The permitted or excluded names of an authority; None for each type that is not constrained."""

    dns: frozenset[str] | None = None
    ip: frozenset[Network] | None = None
    email: frozenset[str] | None = None
    uri: frozenset[str] | None = None
    has_other: bool = False
    """Whether names of other types are constrained, which Go does not check."""

    @classmethod
    def create(
        cls,
        *,
        dns: frozenset[str] | None,
        ip: frozenset[Network] | None,
        email: frozenset[str] | None,
        uri: frozenset[str] | None,
        has_other: bool,
    ) -> "Subtrees":
        """Return constraints in the form in which they are compared; raises ValueError if Go could not parse one."""
        domains = [*(dns or ()), *(uri or ()), *(one.rpartition("@")[2] for one in email or ())]
        quoted = any(_QUOTING.intersection(one) for one in email or () if "@" in one)
        if quoted or not all(is_domain(one.removeprefix(".")) and one != "." for one in domains):
            raise ValueError("failed to parse a name constraint")
        return cls(
            _lower_all(dns),
            ip,
            None if email is None else frozenset(map(_lower_domain, email)),
            _lower_all(uri),
            has_other,
        )


_NONE: Final = (Subtrees(), Subtrees())


def read_address(encoded: bytes) -> Address:
    """Return the address of a name; raises ValueError for another length than 4 or 16 bytes."""
    return ipaddress.ip_address(encoded)


def read_network(encoded: bytes) -> Network:
    """Return the network of a constraint, an address with its mask; raises ValueError for a mask that is no prefix."""
    half = len(encoded) // 2
    address, mask = read_address(encoded[:half]), read_address(encoded[half:])
    length = int(mask).bit_count()
    if mask.version != address.version or int(mask) != ((1 << length) - 1) << (mask.max_prefixlen - length):
        raise ValueError("IP constraint contained invalid mask")
    return address.version, length, _prefix(address, length)


def explain_constraint(names: Names, permitted: Subtrees, excluded: Subtrees) -> str:
    """Return why an authority may not sign for one of these names, ``""`` if it may."""
    return "" if (permitted, excluded) == _NONE else next(_find_violations(names, permitted, excluded), "")


def _find_violations(names: Names, permitted: Subtrees, excluded: Subtrees) -> Iterator[str]:
    for address in names.ip:
        yield from _explain(
            f"IP address {str(address)!r}",
            is_permitted=permitted.ip is None or _contains(permitted.ip, address),
            is_excluded=excluded.ip is not None and _contains(excluded.ip, address),
        )
    for name in names.dns:
        if not is_domain(name):
            yield f"x509: cannot parse dnsName {escape_line(name)}"
        yield from _explain(
            f"DNS name {escape_line(name)!r}",
            is_permitted=permitted.dns is None or _is_below(name, permitted.dns),
            is_excluded=excluded.dns is not None and (_is_below(name, excluded.dns) or _covers(name, excluded.dns)),
        )
    for kind, texts, allowed, refused in (
        ("URI", names.uri, permitted.uri, excluded.uri),
        ("email address", names.email, permitted.email, excluded.email),
    ):
        for text in texts:
            domain = _host_of(text) if kind == "URI" else _domain_of(text)
            if not domain:
                yield f"{kind} {escape_line(text)!r} cannot be matched against constraints"
            exact = f"{text.rpartition('@')[0]}@{domain}" if kind != "URI" else ""
            yield from _explain(
                f"{kind} {escape_line(text)!r}",
                is_permitted=allowed is None or exact in allowed or _is_below(domain, allowed),
                is_excluded=refused is not None and (exact in refused or _is_below(domain, refused)),
            )


def _explain(what: str, *, is_permitted: bool, is_excluded: bool) -> Iterator[str]:
    if not is_permitted:
        yield f"{what} is not permitted by any constraint"
    elif is_excluded:
        yield f"{what} is excluded by a constraint"


def _matches(pattern: str, host: str) -> bool:
    """Return whether a name of a certificate matches a host; ``*`` stands for one label, the first."""
    name, pattern = _lower(host), _lower(pattern)
    if not (_is_host(name.removesuffix(".")) and _is_host(pattern.removeprefix("*."))):
        return name == pattern and pattern not in {"", "."}
    (first, *rest), (wanted, *others) = name.removesuffix(".").split("."), pattern.split(".")
    return rest == others and wanted in {"*", first}


def _lower(text: str) -> str:
    """Convert ASCII letters to lower case. Other letters stay, so that none of them becomes an ASCII letter."""
    return text.encode("utf-8", "surrogatepass").lower().decode("utf-8", "surrogatepass")


def _lower_all(names: frozenset[str] | None) -> frozenset[str] | None:
    return None if names is None else frozenset(map(_lower, names))


def _lower_domain(mailbox: str) -> str:
    local, at, domain = mailbox.rpartition("@")
    return local + at + _lower(domain)


def _is_host(name: str) -> bool:
    return all(label and label[0] != "-" and _LETTERS.issuperset(label) for label in name.split("."))


def is_domain(name: str) -> bool:
    """Return whether a name has no empty label and only printable characters; ``""`` is a domain, as in Go."""
    return not name or all(label and _PRINTABLE.issuperset(label) for label in name.split("."))


def _is_below(name: str, domains: frozenset[str]) -> bool:
    """Return whether a name is a domain or below one. ``.domain`` stands for its subdomains, ``""`` for all names."""
    name = name.lower()
    if "" in domains or name in domains:
        return True
    dots = (position for position, character in enumerate(name) if character == ".")
    return any(name[dot:] in domains or name[dot + 1 :] in domains for dot in dots)


def _covers(name: str, domains: frozenset[str]) -> bool:
    """Return whether a wildcard name matches one of the domains: ``*.example.com`` matches ``a.example.com``."""
    parent = name.lower()[1:]
    return name.startswith("*.") and any("." in one and one[one.index(".") :] == parent for one in domains)


def _contains(networks: frozenset[Network], address: Address) -> bool:
    version = address.version
    lengths = {length for kind, length, _ in networks if kind == version}
    return any((version, length, _prefix(address, length)) in networks for length in lengths)


def _prefix(address: Address, length: int) -> int:
    return int(address) >> (address.max_prefixlen - length)


def _parse_address(host: str) -> Address | None:
    """Parse a host as an IP address; None for a name and for an address with a zone, which Go does not accept."""
    try:
        return None if "%" in host else _unmapped(ipaddress.ip_address(host))
    except ValueError:
        return None


def _unmapped(address: Address) -> Address:
    return address.ipv4_mapped or address if isinstance(address, ipaddress.IPv6Address) else address


def _host_of(uri: str) -> str:
    """Return the host of a URI, ``""`` for an IP address or if there is none."""
    try:
        host = urlsplit(uri).hostname or ""
    except ValueError:
        return ""
    return "" if _parse_address(host) is not None else host


def _domain_of(mailbox: str) -> str:
    """Return the domain of a mailbox, ``""`` for a form that is not compared, such as a quoted name."""
    local, _, domain = mailbox.rpartition("@")
    return "" if not local or _QUOTING & set(local) or not is_domain(domain) else domain.lower()
