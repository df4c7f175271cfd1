"""Verifies the certificates of webhooks: the verifier of ``cryptography`` decides, with Go's rules for extensions.

Go's crypto/x509 accepts any path to any certificate of a ``caBundle``, as this verifier does; OpenSSL follows one path,
so it refuses servers while an authority is being replaced. tests/outbound/tls names the differences from Go.
"""

import ssl
import warnings
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any, Final, Self, cast

from cryptography import x509
from cryptography.utils import CryptographyDeprecationWarning
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from cryptography.x509.verification import (
    Criticality,
    ExtensionPolicy,
    Policy,
    PolicyBuilder,
    Store,
    VerificationError,
)

from fleethook.model.formats.text import escape_line

MAX_PRESENTED: Final = 16
"""Maximum number of certificates of a server. Servers send two to four."""
_MAX_BYTES: Final = 64 * 1024
UNKNOWN_AUTHORITY: Final = "certificate signed by unknown authority"
_USAGES: Final = frozenset({ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE})
# Extensions that limit neither names nor signatures of a path; Go accepts them as critical ones, too.
_UNLIMITING: Final = (x509.CertificatePolicies, x509.CRLDistributionPoints, x509.InhibitAnyPolicy)
_TIME: Final = "%Y-%m-%dT%H:%M:%SZ"
_DER: Final = 2
# Mozilla's bundle has such a certificate; a line about it at each start would help nobody.
warnings.filterwarnings("ignore", "Parsed a serial number which wasn't positive", CryptographyDeprecationWarning)
_REASONS: Final = {
    "cert is not valid at validation time": "a certificate of its issuers has expired or is not yet valid",
    "Forbidden public key algorithm": "an authority's key is neither RSA nor ECDSA with P-256, P-384 or P-521",
    "no interior errors": "",
}
"""Texts for parts of the library's."""
MALFORMED: Final = (ValueError, x509.InvalidVersion, x509.DuplicateExtension, x509.UnsupportedGeneralNameType)
"""The errors of ``cryptography`` about a certificate that it cannot decode."""


class UntrustedError(ssl.SSLCertVerificationError):
    """The certificates of a server are refused. Texts that people search for are those of Go's crypto/x509."""

    def __init__(self, text: str) -> None:
        """Prepare with the reason, without the name of a library."""
        super().__init__(1, text)


class Roots:
    """The trusted certificates of a bundle.

    Attributes:
        certificates: Those that can be parsed, by their DER.
    """

    def __init__(self, encoded: Iterable[bytes]) -> None:
        """Parse certificates in DER, and leave out malformed ones."""
        self.certificates: Final[dict[bytes, x509.Certificate]] = {}
        for der in encoded:
            try:
                self.certificates[der] = x509.load_der_x509_certificate(der)
            except MALFORMED:
                continue
        self._store: Final = Store(list(self.certificates.values())) if self.certificates else None

    def verify(self, presented: Sequence[bytes], *, host: str, now: datetime) -> None:
        """Verify the certificates of a server.

        Args:
            presented: The certificates that the server sent, in DER, its own first.
            host: The DNS name or IP address that the first one must contain.
            now: The time.

        Raises:
            UntrustedError: They do not prove that the server is the host.
        """
        if not 1 <= len(presented) <= MAX_PRESENTED or sum(map(len, presented)) > _MAX_BYTES:
            raise UntrustedError(f"tls: the server sent no certificate, more than {MAX_PRESENTED}, or too large ones")
        try:
            leaf, *others = map(x509.load_der_x509_certificate, presented)
            problem = _find_leaf_problem(leaf, host, now)
        except MALFORMED as error:
            raise UntrustedError(f"tls: failed to parse certificate from server: {escape_line(str(error))}") from None
        if problem:
            raise UntrustedError(f"x509: {problem}")
        if presented[0] in self.certificates:
            return
        try:
            self._find_path(leaf, others, host, now)
        except (VerificationError, *MALFORMED) as error:
            raise UntrustedError(f"x509: {_explain_unknown(leaf, str(error))}") from None

    def _find_path(self, leaf: x509.Certificate, others: list[x509.Certificate], host: str, now: datetime) -> None:
        if self._store is None:
            raise VerificationError
        address = _parse_address(host)
        subject = x509.DNSName(host.removesuffix(".")) if address is None else x509.IPAddress(address)
        builder = PolicyBuilder().store(self._store).time(now)
        builder = builder.extension_policies(ee_policy=_SERVER_POLICY, ca_policy=_AUTHORITY_POLICY)
        builder.build_server_verifier(subject).verify(leaf, others)


def _check_usages(_policy: Policy, _certificate: x509.Certificate, usages: x509.ExtendedKeyUsage | None) -> None:
    if usages is not None and _USAGES.isdisjoint(usages):
        raise ValueError("certificate specifies an incompatible key usage")


def _check_key_usage(_policy: Policy, _certificate: x509.Certificate, usage: x509.KeyUsage | None) -> None:
    if usage is not None and not usage.key_cert_sign:
        raise ValueError("the key usage of the issuer lacks keyCertSign")


def _make_policy() -> ExtensionPolicy:
    policy = ExtensionPolicy.permit_all()
    for extension in _UNLIMITING:
        policy = policy.may_be_present(extension, Criticality.AGNOSTIC, None)
    return policy.may_be_present(x509.ExtendedKeyUsage, Criticality.AGNOSTIC, _check_usages)


_SERVER_POLICY: Final = _make_policy().require_present(x509.SubjectAlternativeName, Criticality.AGNOSTIC, None)
_AUTHORITY_POLICY: Final = (
    _make_policy()
    .require_present(x509.BasicConstraints, Criticality.AGNOSTIC, None)
    .may_be_present(x509.KeyUsage, Criticality.AGNOSTIC, _check_key_usage)
)


def _find_leaf_problem(leaf: x509.Certificate, host: str, now: datetime) -> str:
    """Return why the certificate of a server is not valid for a host now, ``""`` if it is; raises ValueError."""
    starts, ends = leaf.not_valid_before_utc, leaf.not_valid_after_utc
    if now < starts:
        return f"certificate has expired or is not yet valid: current time {now:{_TIME}} is before {starts:{_TIME}}"
    if now > ends:
        return f"certificate has expired or is not yet valid: current time {now:{_TIME}} is after {ends:{_TIME}}"
    found = {type(one.value): one.value for one in leaf.extensions}
    usages = found.get(x509.ExtendedKeyUsage)
    if isinstance(usages, x509.ExtendedKeyUsage) and _USAGES.isdisjoint(usages):
        return "certificate specifies an incompatible key usage"
    names = found.get(x509.SubjectAlternativeName)
    return _explain_mismatch(leaf, names if isinstance(names, x509.SubjectAlternativeName) else None, host)


def _explain_mismatch(leaf: x509.Certificate, names: x509.SubjectAlternativeName | None, host: str) -> str:
    address, shown = _parse_address(host), escape_line(host)
    if address is None:
        valid: list[str] = [] if names is None else names.get_values_for_type(x509.DNSName)
        fits = any(_matches(pattern, host) for pattern in valid)
    else:
        addresses = [] if names is None else names.get_values_for_type(x509.IPAddress)
        valid, fits = list(map(str, addresses)), address in addresses
    if fits:
        return ""
    common = [str(one.value) for one in leaf.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    if names is None and any(_matches(one, host) for one in common):
        return "certificate relies on legacy Common Name field, use SANs instead"
    if valid:
        return f"certificate is valid for {escape_line(', '.join(valid))}, not {shown}"
    if address is not None:
        return f"cannot validate certificate for {shown} because it doesn't contain any IP SANs"
    return f"certificate is not valid for any names, but wanted to match {shown}"


def _matches(pattern: str, host: str) -> bool:
    """Return whether a host has a name of a certificate, whose first label may be a wildcard (RFC 6125, 6.4.3)."""
    first, _, rest = pattern.lower().partition(".")
    own, _, domain = host.lower().removesuffix(".").partition(".")
    return rest == domain and bool(own) and (first == own or (first == "*" and bool(rest)))


def _parse_address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return None


def _explain_unknown(leaf: x509.Certificate, reason: str) -> str:
    """Return a text of Go, with the reason of the library where it has one."""
    reason = reason.partition(" (encountered")[0].rpartition("candidates exhausted: ")[2]
    reason = reason.removeprefix("Python extension validator failed: ValueError: ")
    reason = next((better for part, better in _REASONS.items() if part in reason), reason)
    if reason:
        return f"{UNKNOWN_AUTHORITY} (possibly because of: {escape_line(reason)})"
    if leaf.subject == leaf.issuer:
        return f"{UNKNOWN_AUTHORITY} (it is self-signed, and not in caBundle)"
    return f"{UNKNOWN_AUTHORITY} (its issuer is not in caBundle)"


class _Connection(ssl.SSLObject):
    """Ends the handshake with a server that is not trusted."""

    context: "CallContext"
    _is_verified = False

    def do_handshake(self) -> None:
        """Read and write messages; the connection is usable only if this function raises no error."""
        super().do_handshake()
        if not self._is_verified:
            self.context.roots.verify(_list_presented(self), host=self.server_hostname or "", now=datetime.now(UTC))
            self._is_verified = True


class CallContext(ssl.SSLContext):
    """The context of calls to servers whose certificates `Roots` verifies.

    OpenSSL verifies none. As with Go, a server that the bundle does not trust gets no request.
    """

    sslobject_class = _Connection

    def __new__(cls, *_: object) -> Self:
        """Return a context for clients."""
        return super().__new__(cls, ssl.PROTOCOL_TLS_CLIENT)

    def __init__(self, roots: Roots) -> None:
        """Prepare."""
        super().__init__()
        self.roots: Final = roots
        self.check_hostname = False
        self.verify_mode = ssl.CERT_NONE
        self.options |= ssl.OP_NO_RENEGOTIATION
        # kube-apiserver also uses HTTP/1.1 for webhooks, because HTTP/2 defeats load balancing (kubernetes #75791).
        self.set_alpn_protocols(["http/1.1"])


def _list_presented(connection: ssl.SSLObject) -> list[bytes]:
    """Return the certificates that a server has sent, in DER, its own first."""
    # Python 3.13 made this function public.
    source = connection if hasattr(connection, "get_unverified_chain") else cast("Any", connection)._sslobj  # noqa: SLF001
    found = source.get_unverified_chain() or ()
    return [one if isinstance(one, bytes) else one.public_bytes(_DER) for one in found]
