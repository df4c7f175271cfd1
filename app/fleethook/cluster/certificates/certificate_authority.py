"""Creates a certificate authority and issues serving certificates (RFC 5280, ECDSA P-256).

P-256 instead of RSA halves the server's CPU time for a handshake, and creating a key takes milliseconds.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from ipaddress import ip_address
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fleethook.model.formats.labels import is_dns1123_subdomain

AUTHORITY_LIFETIME: Final = timedelta(days=3650)
SERVING_LIFETIME: Final = timedelta(days=90)
_RENEWAL_SHARE: Final = 2 / 3
"""The share of a certificate's lifetime after which it is renewed."""
# Clocks of a cluster's machines differ by seconds, and by minutes without time synchronization.
_CLOCK_SKEW: Final = timedelta(minutes=5)
# RFC 5280, A.1: ub-common-name. Clients read the subject alternative names only.
_MAX_COMMON_NAME: Final = 64


class KeyPair(NamedTuple):
    """A certificate and its private key, in PEM."""

    certificate_pem: bytes
    key_pem: bytes

    def __repr__(self) -> str:
        """Return a text without the key, which must not reach a log in a traceback."""
        return f"KeyPair({self.certificate.subject.rfc4514_string()!r})"

    @property
    def certificate(self) -> x509.Certificate:
        """The parsed certificate; raises ValueError if the PEM is invalid."""
        return x509.load_pem_x509_certificate(self.certificate_pem)

    @property
    def key(self) -> ec.EllipticCurvePrivateKey:
        """The parsed key; raises ValueError if it is not an unencrypted EC key."""
        key = load_pem_private_key(self.key_pem, password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ValueError("the key is not an elliptic curve key")  # noqa: TRY004 - the value is wrong, not the call
        return key


def new_authority(
    *, now: datetime, common_name: str = "fleethook CA", lifetime: timedelta = AUTHORITY_LIFETIME
) -> KeyPair:
    """Return a new self-signed certificate authority, valid from ``now`` for ``lifetime``."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    usage = x509.KeyUsage(
        key_cert_sign=True, crl_sign=True, digital_signature=True, content_commitment=False, key_encipherment=False,
        data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    builder = (
        _start_certificate(key, subject=name, issuer=name, now=now, until=now + lifetime)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
    )
    return _encode_pair(builder.sign(key, hashes.SHA256()), key)


def issue_serving(
    authority: KeyPair, *, names: Sequence[str], now: datetime, lifetime: timedelta = SERVING_LIFETIME
) -> KeyPair:
    """Issue a serving certificate.

    Args:
        authority: The certificate authority. Its certificate's end limits the lifetime.
        names: The DNS names and IP addresses to serve; the first one of at most 64 characters becomes the common name.
        now: The start of the lifetime.
        lifetime: The maximum lifetime.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    issuer = authority.certificate
    common_name = next((name for name in names if len(name) <= _MAX_COMMON_NAME), "fleethook")
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    until = min(now + lifetime, issuer.not_valid_after_utc)
    builder = (
        _start_certificate(key, subject=subject, issuer=issuer.subject, now=now, until=until)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_parse_general_name(name) for name in names]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key()),
            critical=False,
        )
    )
    return _encode_pair(builder.sign(authority.key, hashes.SHA256()), key)


def find_renewal_time(certificate: x509.Certificate) -> datetime:
    """Return the time at which to renew ``certificate``: two thirds of its lifetime."""
    life = certificate.not_valid_after_utc - certificate.not_valid_before_utc
    return certificate.not_valid_before_utc + life * _RENEWAL_SHARE


def is_current(serving: KeyPair, authority: KeyPair, *, names: Sequence[str], now: datetime) -> bool:
    """Return whether ``authority`` issued ``serving`` for ``names`` and its renewal is not due."""
    try:
        certificate = serving.certificate
        certificate.verify_directly_issued_by(authority.certificate)
        fits = certificate.public_key() == serving.key.public_key()
    except Exception:  # noqa: BLE001 - fleethook issued this certificate, so a new one repairs any damage
        return False
    return fits and set(names) <= list_names(certificate) and now < find_renewal_time(certificate)


def list_names(certificate: x509.Certificate) -> frozenset[str]:
    """Return the DNS names and IP addresses in the subject alternative names of ``certificate``."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return frozenset()
    addresses = (str(address) for address in names.get_values_for_type(x509.IPAddress))
    return frozenset((*names.get_values_for_type(x509.DNSName), *addresses))


def is_server_name(name: str) -> bool:
    """Return whether a certificate can have a name: an IP address, or a DNS name in ASCII, of which ``*`` is a part."""
    try:
        ip_address(name)
    except ValueError:
        return is_dns1123_subdomain(name.lower().removeprefix("*."))
    return True


def _parse_general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _start_certificate(
    key: ec.EllipticCurvePrivateKey, *, subject: x509.Name, issuer: x509.Name, now: datetime, until: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(until)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _encode_pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> KeyPair:
    return KeyPair(
        certificate.public_bytes(Encoding.PEM),
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
    )
