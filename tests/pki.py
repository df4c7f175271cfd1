"""Real certificates: authorities of a control plane, and single certificates with any extensions."""

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_NEVER_CRITICAL = x509.SubjectKeyIdentifier | x509.AuthorityKeyIdentifier


class Pair(NamedTuple):
    """Files of a certificate and its key."""

    certificate: Path
    key: Path


class Authority:
    """A certificate authority that signs for servers and clients."""

    def __init__(self, directory: Path, name: str) -> None:
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = (
            _builder(self._name, self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(
                x509.KeyUsage(
                    key_cert_sign=True, crl_sign=True, digital_signature=True, content_commitment=False, key_encipherment=False,
                    data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
                ),
                critical=True,
            )
            .sign(self._key, hashes.SHA256())
        )  # fmt: skip
        self.certificate = directory / f"{name}.crt"
        self.certificate.write_bytes(certificate.public_bytes(Encoding.PEM))

    def issue(self, name: str, *organizations: str, addresses: tuple[str, ...] = ()) -> Pair:
        """Issue a certificate for clients and servers."""
        attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization) for organization in organizations]
        return self.issue_to(x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, name)]), name, addresses)

    def issue_to(self, subject: x509.Name, name: str, addresses: tuple[str, ...]) -> Pair:
        """Issue a certificate for any subject, in files of a name."""
        key = ec.generate_private_key(ec.SECP256R1())
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = (
            _builder(subject, self._name, key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        if addresses:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_general(address) for address in addresses]), critical=False
            )
        certificate = builder.sign(self._key, hashes.SHA256())
        safe = name.replace(":", "-")
        pair = Pair(self._directory / f"{safe}.crt", self._directory / f"{safe}.key")
        pair.certificate.write_bytes(certificate.public_bytes(Encoding.PEM))
        pair.key.touch(mode=0o600)
        pair.key.write_bytes(encode_key(key))
        return pair


CLIENT_USAGE = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])


def encode_key(key: PrivateKeyTypes) -> bytes:
    """Return a key in PEM."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def certify(
    subject: str, issuer: str, key: PrivateKeyTypes, signer: Any, *extensions: x509.ExtensionType, days: int = 1
) -> bytes:
    """Return a certificate in PEM that ends in some days."""
    names = [x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, one)]) for one in (issuer, subject)]
    now, serial = datetime.now(UTC), x509.random_serial_number()
    ends = now - timedelta(days=2), now + timedelta(days=days)
    builder = x509.CertificateBuilder(*names, key.public_key(), serial, *ends)  # type: ignore[arg-type]
    for one in extensions:
        builder = builder.add_extension(one, critical=not isinstance(one, _NEVER_CRITICAL))
    hashing = None if isinstance(signer, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    return builder.sign(signer, hashing).public_bytes(Encoding.PEM)


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _general(address: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(address))
    except ValueError:
        return x509.DNSName(address)
