"""Trusted certificates and TLS contexts for calls to webhooks and API servers, and the problems of a ``caBundle``.

kube-apiserver stores a ``caBundle`` without checking it, and parses it at the first call. The verifier of
``cryptography`` decides about certificates, with Go's rules for extensions. Go's crypto/x509 accepts any path to any
certificate of a ``caBundle``, as this verifier does; OpenSSL follows one path, so it refuses servers while an authority
is being replaced. tests/outbound/test_certificate_trust.py names the differences from Go.
"""

import base64
import contextlib
import functools
import ssl
import warnings
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Any, Final, NamedTuple, Self, cast

from cryptography import x509
from cryptography.utils import CryptographyDeprecationWarning
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from cryptography.x509.verification import Criticality, ExtensionPolicy, Policy, PolicyBuilder, Store, VerificationError

from fleethook.model.formats.field_errors import FieldError, too_long
from fleethook.model.formats.text import decode_bytes, escape_line
from fleethook.model.json import JSON

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
    found = {type(extension.value): extension.value for extension in leaf.extensions}
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
    common = [str(attribute.value) for attribute in leaf.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
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


_BEGIN: Final = b"-----BEGIN "
_END: Final = b"\n-----END "
_CERTIFICATE: Final = b"CERTIFICATE-----"
_BLANK: Final = b" \t\r"


class TrustError(ValueError):
    """The certificate authorities cannot be loaded."""


def load_roots(ca_bundle: str) -> Roots:
    """Return the certificates of a bundle, without blocks that Go skips.

    Args:
        ca_bundle: PEM in base64; ``""`` for the system's authorities.

    Raises:
        TrustError: The bundle contains no certificate.
    """
    if not ca_bundle:
        return _load_system_roots()
    roots = Roots(_decode_bundle(ca_bundle))
    if not roots.certificates:
        raise TrustError(f"unable to load root certificates: {_explain_bundle(ca_bundle)}")
    return roots


def create_context(ca_bundle: str) -> ssl.SSLContext:
    """Return a context that trusts the authorities of a bundle and no others, by the rules of OpenSSL.

    Args:
        ca_bundle: PEM in base64; ``""`` for the system's authorities.

    Raises:
        TrustError: The bundle contains no certificate.
    """
    if not ca_bundle:
        return _verify_as_go(ssl.create_default_context())
    # create_default_context(cadata="") would trust the system's authorities.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    encoded = [der for der in _decode_bundle(ca_bundle) if _explain_certificate(der) == ""]
    try:
        context.load_verify_locations(cadata=b"".join(encoded))
    except (ValueError, ssl.SSLError) as error:
        raise TrustError(f"unable to load root certificates: {_explain_bundle(ca_bundle)}") from error
    return _verify_as_go(context)


@functools.lru_cache(maxsize=1)
def _load_system_roots() -> Roots:
    paths = ssl.get_default_verify_paths()
    files = [Path(paths.cafile)] if paths.cafile else []
    if paths.capath:
        files += sorted(Path(paths.capath).iterdir())
    return Roots(der for file in files if file.is_file() for der in decode_pem(file.read_bytes()))


def _verify_as_go(context: ssl.SSLContext) -> ssl.SSLContext:
    """Set options close to Go's crypto/x509: each certificate of a bundle is a root; strict RFC 5280 and CN are off."""
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.hostname_checks_common_name = False
    context.set_alpn_protocols(["http/1.1"])
    return context


def _decode_bundle(ca_bundle: str) -> list[bytes]:
    try:
        return list(decode_pem(decode_bytes(ca_bundle)))
    except ValueError:
        return []


def _explain_bundle(ca_bundle: str) -> str:
    """Return why a bundle without a usable certificate is refused, as client-go does (transport/transport.go)."""
    problems = (problem for der in _decode_bundle(ca_bundle) if (problem := _explain_certificate(der)))
    problem = next(problems, "")
    return f"failed to parse certificate: {problem}" if problem else "unable to parse bytes as PEM block"


def _explain_certificate(der: bytes) -> str:
    try:
        x509.load_der_x509_certificate(der)
    except MALFORMED:
        return "x509: malformed certificate"
    return ""


def decode_pem(text: bytes) -> Iterator[bytes]:
    """Yield the content of each ``CERTIFICATE`` block without headers, as Go's encoding/pem finds blocks.

    Text around blocks is skipped, and so are blocks that are malformed or have another label.
    """
    start = 0
    while (end := text.find(_END, start)) >= 0:
        begin = text.rfind(_BEGIN, start, end + 1)
        start_of_end, start = end, end + len(_END)
        if begin < 0 or (begin > 0 and text[begin - 1 : begin] != b"\n"):
            continue
        label, _, body = text[begin + len(_BEGIN) : start_of_end + 1].partition(b"\n")
        line_end = text.find(b"\n", start)
        label, last = label.rstrip(_BLANK), text[start : line_end if line_end >= 0 else len(text)].rstrip(_BLANK)
        if label != _CERTIFICATE or last != label or b":" in body.partition(b"\n")[0]:
            continue
        encoded = body.translate(None, b" \t\r\n")
        if len(encoded) % 4 == 0:
            with contextlib.suppress(ValueError):
                yield base64.b64decode(encoded, validate=True)


MAX_BUNDLE: Final = 1024 * 1024
"""Maximum characters of a CA bundle in base64: the limit of a Secret or ConfigMap. Mozilla's bundle has 300,000."""


class BundleError(ValueError):
    """A ``caBundle`` has no certificates that can be read."""


class Validity(NamedTuple):
    """The time in which a certificate is valid."""

    start: datetime
    end: datetime


def read_bundle(bundle: str) -> list[Validity]:
    """Return the validity of each usable authority of a ``caBundle``; raises BundleError if there is none."""
    try:
        found = list(load_roots(bundle).certificates.values()) if bundle else []
    except TrustError:
        found = []
    if not found:
        raise BundleError("caBundle is not PEM in base64")
    return [Validity(certificate.not_valid_before_utc, certificate.not_valid_after_utc) for certificate in found]


def bundle_problems(bundle: JSON, field: str) -> Iterator[FieldError]:
    """Yield the problems of a CA bundle with which every call fails.

    As in Go, one certificate that can be parsed is enough (client-go v0.36 transport/transport.go, rootCertPool).
    """
    if bundle in (None, ""):
        return
    if isinstance(bundle, str) and len(bundle) > MAX_BUNDLE:
        yield too_long(field, MAX_BUNDLE)
        return

    try:
        decode_bytes(bundle)
        load_roots(str(bundle))
    except TrustError as error:
        yield FieldError(field, f"Invalid value: {error}")
    except ValueError:
        yield FieldError(field, "Invalid value: unable to load root certificates: it is not PEM in base64")


def list_skipped(bundle: JSON) -> list[str]:
    """Return one text for each certificate of a bundle that is skipped, with the reason.

    A bundle without a usable certificate gives no texts, because `bundle_problems` refuses it.
    """
    try:
        problems = list(map(_explain_certificate, decode_pem(decode_bytes(bundle))))
    except ValueError:
        return []
    if all(problems):
        return []
    return [f"certificate {number} of {len(problems)}: {one}" for number, one in enumerate(problems, 1) if one]
