"""Parse certificates as Go's crypto/x509 does, which refuses a certificate whose extensions it cannot decode."""

import functools
from datetime import datetime
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.x509.oid import PublicKeyAlgorithmOID, SignatureAlgorithmOID

from fleethook.outbound.tls.certificate_der import (
    CertificateError,
    Element,
    Extensions,
    read_elements,
    read_extensions,
    read_name,
)

_MAX_CACHED: Final = 512
# Go 1.22 and later refuse smaller RSA keys. Go's TLS refuses larger ones in the certificates that a peer presents.
_MIN_RSA_BITS: Final = 1024
_MAX_RSA_BITS: Final = 8192
_MAX_EXPONENT: Final = 2**31 - 1
_KEYS: Final = (
    PublicKeyAlgorithmOID.RSAES_PKCS1_v1_5,
    PublicKeyAlgorithmOID.EC_PUBLIC_KEY,
    PublicKeyAlgorithmOID.ED25519,
)
_CURVES: Final = (ec.SECP224R1, ec.SECP256R1, ec.SECP384R1, ec.SECP521R1)
_RSA: Final = {
    SignatureAlgorithmOID.RSA_WITH_SHA256: hashes.SHA256(),
    SignatureAlgorithmOID.RSA_WITH_SHA384: hashes.SHA384(),
    SignatureAlgorithmOID.RSA_WITH_SHA512: hashes.SHA512(),
}
_ECDSA: Final = {
    SignatureAlgorithmOID.ECDSA_WITH_SHA256: hashes.SHA256(),
    SignatureAlgorithmOID.ECDSA_WITH_SHA384: hashes.SHA384(),
    SignatureAlgorithmOID.ECDSA_WITH_SHA512: hashes.SHA512(),
}
_INSECURE: Final = {
    SignatureAlgorithmOID.RSA_WITH_MD5: "MD5-RSA",
    SignatureAlgorithmOID.RSA_WITH_SHA1: "SHA1-RSA",
    SignatureAlgorithmOID._RSA_WITH_SHA1: "SHA1-RSA",  # noqa: SLF001 - the second OID of the same algorithm
    SignatureAlgorithmOID.DSA_WITH_SHA1: "DSA-SHA1",
    SignatureAlgorithmOID.ECDSA_WITH_SHA1: "ECDSA-SHA1",
}
_PSS: Final = ("sha256", "sha384", "sha512")
_UNCOMPRESSED: Final = b"\x04"
_VERSION_TAG: Final = 0xA0
_EXTENSIONS_TAG: Final = 0xA3
_COMMON_NAME: Final = bytes.fromhex("550403")
_ORGANIZATION: Final = bytes.fromhex("55040a")
PublicKey = rsa.RSAPublicKey | ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey


class Certificate(NamedTuple):
    """A certificate with the decoded parts that decide about trust."""

    der: bytes
    subject: bytes
    issuer: bytes
    key_info: bytes
    """The encoded public key, with its algorithm."""
    key: PublicKey | None
    """None for an algorithm that Go cannot verify with."""
    parsed: x509.Certificate
    starts: datetime
    ends: datetime
    extensions: Extensions

    @property
    def title(self) -> str:
        """The name that Go shows: the common name, the organization or the serial number."""
        names = read_name(self.subject)
        return names.get(_COMMON_NAME) or names.get(_ORGANIZATION) or f"serial:{self.parsed.serial_number}"

    @property
    def legacy_name(self) -> str:
        """The common name of a certificate without alternative names, ``""`` for other certificates."""
        return "" if self.extensions.encoded_names is not None else read_name(self.subject).get(_COMMON_NAME, "")

    def check_signature(self, child: "Certificate") -> None:
        """Check that this certificate may sign certificates, and that it signed ``child``.

        Raises:
            CertificateError: It may not or did not, or it signed with an algorithm that Go refuses.
        """
        is_authority = self.extensions.is_authority
        if is_authority is None:
            is_authority = self.parsed.version != x509.Version.v3
        if not is_authority or not self.extensions.may_sign:
            raise CertificateError("x509: invalid signature: parent certificate cannot sign this kind of certificate")
        oid = child.parsed.signature_algorithm_oid
        if (insecure := _INSECURE.get(oid)) is not None:
            raise CertificateError(f"x509: cannot verify signature: insecure algorithm {insecure}")
        try:
            if not _verify(self.key, child.parsed, oid):
                raise CertificateError("x509: cannot verify signature: algorithm unimplemented")
        except (InvalidSignature, UnsupportedAlgorithm, ValueError) as error:
            if isinstance(error, CertificateError):
                raise
            name = type(self.key).__name__.removesuffix("PublicKey").replace("EllipticCurve", "ECDSA")
            raise CertificateError(f"x509: {name} verification failure") from None


def read_subject(der: bytes) -> bytes:
    """Return the encoded subject; raises CertificateError for malformed DER."""
    return _read_fields(der).subject


@functools.lru_cache(maxsize=_MAX_CACHED)
def parse_certificate(der: bytes) -> Certificate:
    """Parse a certificate, with all of its extensions.

    Raises:
        CertificateError: Go could not parse it either, or it has an extension that this library cannot decode.
    """
    try:
        fields = _read_fields(der)
        for name in (fields.issuer, fields.subject):
            read_name(name)
        parsed = x509.load_der_x509_certificate(der)
        return Certificate(
            der,
            fields.subject,
            fields.issuer,
            fields.key_info,
            _read_key(parsed, fields.key_info),
            parsed,
            starts=parsed.not_valid_before_utc,
            ends=parsed.not_valid_after_utc,
            extensions=read_extensions(fields.extensions) if fields.extensions else Extensions(),
        )
    except CertificateError:
        raise
    except (ValueError, x509.InvalidVersion, UnsupportedAlgorithm) as error:
        raise CertificateError(f"x509: {str(error) or type(error).__name__}") from None


def _read_key(parsed: x509.Certificate, key_info: bytes) -> PublicKey | None:
    """Return the key, None for an algorithm that Go does not know.

    Raises:
        CertificateError: Go refuses the curve, the encoding of the point or the exponent.
    """
    if parsed.public_key_algorithm_oid not in _KEYS:
        return None
    key = parsed.public_key()
    if isinstance(key, ec.EllipticCurvePublicKey):
        if not isinstance(key.curve, _CURVES):
            raise CertificateError("x509: unsupported elliptic curve")
        # The first byte of the bit string is the number of unused bits, and the second one the form of the point.
        if read_elements(read_elements(key_info)[0].content)[1].content[1:2] != _UNCOMPRESSED:
            raise CertificateError("ecdsa: invalid uncompressed public key")
    if isinstance(key, rsa.RSAPublicKey) and key.public_numbers().e > _MAX_EXPONENT:
        raise CertificateError("x509: invalid RSA public exponent")
    return key if isinstance(key, PublicKey) else None


def check_key(certificate: Certificate, *, is_leaf: bool, peer: str) -> None:
    """Refuse a key that Go's TLS refuses in a certificate that a peer presents; raises CertificateError."""
    key = certificate.key
    is_small = isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP224R1)
    if is_leaf and (key is None or is_small):
        raise CertificateError(f"tls: {peer}'s certificate contains an unsupported type of public key")
    if isinstance(key, rsa.RSAPublicKey) and key.key_size > _MAX_RSA_BITS:
        raise CertificateError(f"tls: {peer} sent certificate containing RSA key larger than {_MAX_RSA_BITS} bits")


def _verify(key: PublicKey | None, child: x509.Certificate, oid: x509.ObjectIdentifier) -> bool:
    """Verify a signature, and return False for an algorithm that Go does not support with this key."""
    signature, signed = child.signature, child.tbs_certificate_bytes
    if isinstance(key, rsa.RSAPublicKey) and key.key_size >= _MIN_RSA_BITS:
        if (digest := _RSA.get(oid)) is not None:
            key.verify(signature, signed, padding.PKCS1v15(), digest)
            return True
        return oid == SignatureAlgorithmOID.RSASSA_PSS and _verify_pss(key, child)
    if isinstance(key, ec.EllipticCurvePublicKey) and (digest := _ECDSA.get(oid)) is not None:
        key.verify(signature, signed, ec.ECDSA(digest))
        return True
    if isinstance(key, ed25519.Ed25519PublicKey) and oid == SignatureAlgorithmOID.ED25519:
        key.verify(signature, signed)
        return True
    return False


def _verify_pss(key: rsa.RSAPublicKey, child: x509.Certificate) -> bool:
    """Verify RSA-PSS with one of the three combinations of parameters that Go accepts."""
    digest, parameters = child.signature_hash_algorithm, child.signature_algorithm_parameters
    if digest is None or digest.name not in _PSS or not isinstance(parameters, padding.PSS):
        return False
    if parameters._salt_length != digest.digest_size or parameters.mgf._algorithm.name != digest.name:  # noqa: SLF001 - without accessors
        return False
    key.verify(child.signature, child.tbs_certificate_bytes, parameters, digest)
    return True


class _Fields(NamedTuple):
    issuer: bytes
    subject: bytes
    key_info: bytes
    extensions: bytes
    """The encoded sequence, empty without extensions."""


def _read_fields(der: bytes) -> _Fields:
    """Return fields as they are encoded: Go compares names by their bytes."""
    certificate = read_elements(der)
    signed, outer, *_ = _take(read_elements(certificate[0].content if len(certificate) == 1 else b""), 3)
    members = read_elements(signed.content)
    if members and members[0].tag == _VERSION_TAG:
        del members[0]
    serial, inner, issuer, _, subject, key_info, *rest = _take(members, 6)
    if not serial.content or serial.content[0] & 0x80:
        raise CertificateError("x509: malformed or negative serial number")
    if serial.content[:1] == b"\0" and serial.content[1:] and not serial.content[1] & 0x80:
        raise CertificateError("x509: malformed serial number")
    if inner.encoded != outer.encoded:
        raise CertificateError("x509: inner and outer signature algorithm identifiers don't match")
    extensions = next((one.content for one in rest if one.tag == _EXTENSIONS_TAG), b"")
    return _Fields(issuer.encoded, subject.encoded, key_info.encoded, extensions)


def _take(elements: list[Element], count: int) -> list[Element]:
    if len(elements) < count:
        raise CertificateError("x509: malformed certificate")
    return elements
