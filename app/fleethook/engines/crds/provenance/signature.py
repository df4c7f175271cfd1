"""Verifies the signature of a DSSE envelope and the chain of its certificate, without logs or services."""

from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID
from cryptography.x509.verification import Criticality, ExtensionPolicy, PolicyBuilder, Store, VerificationError

from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.engines.crds.provenance.attestation import Attestation

_MALFORMED: Final = (ValueError, UnsupportedAlgorithm, x509.UnsupportedGeneralNameType, x509.DuplicateExtension)


def encode_pae(payload_type: str, payload: bytes) -> bytes:
    """Return the bytes that a DSSE signature signs (DSSE v1.0, ``protocol.md``, PAE)."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def verify_signature(attestation: Attestation) -> None:
    """Verify the envelope's signature with the key of its certificate; raises CRDsError INTEGRITY."""
    try:
        key = attestation.certificate.public_key()
        if not isinstance(key, ec.EllipticCurvePublicKey):
            raise CRDsError(Exit.INTEGRITY, "the certificate's key is not an ECDSA key, which Fulcio's are")
        pae = encode_pae(attestation.payload_type, attestation.payload)
        key.verify(attestation.signature, pae, ec.ECDSA(hashes.SHA256()))
    except InvalidSignature:
        text = "the signature does not belong to the statement and the certificate"
        raise CRDsError(Exit.INTEGRITY, text) from None
    except _MALFORMED as error:
        raise CRDsError(Exit.INTEGRITY, f"the certificate's key cannot be used: {error}") from None


def verify_chain(certificate: x509.Certificate, authorities: tuple[x509.Certificate, ...]) -> list[x509.Certificate]:
    """Verify that an authority issued a certificate for code signing.

    The chain is checked at the start of the certificate's validity. That is when Fulcio issues it, and the only time
    that every attestation has.

    Returns:
        The issuers, nearest first.

    Raises:
        CRDsError: INTEGRITY.
    """
    # The library's default for clients requires the key usage of TLS; that of Fulcio's certificates is checked below.
    ca = ExtensionPolicy.webpki_defaults_ca().may_be_present(x509.ExtendedKeyUsage, Criticality.NON_CRITICAL, None)
    leaf = ExtensionPolicy.webpki_defaults_ee().may_be_present(x509.ExtendedKeyUsage, Criticality.NON_CRITICAL, None)
    try:
        verifier = (
            PolicyBuilder()
            .store(Store(list(authorities)))
            .time(certificate.not_valid_before_utc)
            .extension_policies(ca_policy=ca, ee_policy=leaf)
            .build_client_verifier()
        )
        chain = verifier.verify(certificate, []).chain[1:]
        usages = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        may_sign = certificate.extensions.get_extension_for_class(x509.KeyUsage).value.digital_signature
    except VerificationError as error:
        text = f"the certificate was not issued by an authority of --trust-root: {error}"
        raise CRDsError(Exit.INTEGRITY, text) from None
    except (*_MALFORMED, x509.ExtensionNotFound) as error:
        raise CRDsError(Exit.INTEGRITY, f"the certificate is malformed: {error}") from None
    if not may_sign or ExtendedKeyUsageOID.CODE_SIGNING not in usages:
        raise CRDsError(Exit.INTEGRITY, "the certificate is not for code signing")
    return chain
