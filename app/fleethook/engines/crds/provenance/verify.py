"""Verifies an attestation, and reports which of its properties are verified."""

from typing import Final, NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID
from cryptography.x509.verification import Criticality, ExtensionPolicy, PolicyBuilder, Store, VerificationError

from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.engines.crds.provenance.attestation import Attestation, Form
from fleethook.engines.crds.provenance.identity import Expected, Identity, check_identity, read_identity
from fleethook.engines.crds.provenance.statement import Subject, read_subject
from fleethook.engines.crds.provenance.trust_root import TrustRoot

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


_NO_KEYS: Final = "the trust root has certificates only; give a Sigstore trusted_root.json"
_NO_ENTRY: Final = "the attestation is an envelope without a log entry; only the online log could tell"


class Check(NamedTuple):
    """One property of an attestation."""

    name: str
    verified: bool
    detail: str
    """The result of a check, or the reason why it cannot be made."""


class Provenance(NamedTuple):
    """A valid attestation, with its checks."""

    form: Form
    subject: Subject
    identity: Identity
    checks: tuple[Check, ...]

    @property
    def unverified(self) -> list[Check]:
        """The properties that could not be verified."""
        return [check for check in self.checks if not check.verified]


def verify_attestation(attestation: Attestation, root: TrustRoot, expected: Expected) -> Provenance:
    """Verify all that can be verified offline.

    Args:
        attestation: The attestation to verify.
        root: Trusted authorities and logs.
        expected: The required identity of the signer.

    Returns:
        The tarball that the attestation is about, and the checks. A missing log entry or key is a check that is not
        verified; a wrong one is an error.

    Raises:
        CRDsError: INTEGRITY if a check fails.
    """
    verify_signature(attestation)
    issuers = verify_chain(attestation.certificate, root.authorities)
    checks = [*_check_logs(attestation, root, issuers)]
    identity = read_identity(attestation.certificate)
    check_identity(identity, expected)
    subject = read_subject(attestation.payload_type, attestation.payload, identity)
    subject_check = Check("statement", True, f"SLSA provenance of {subject.name}, sha256:{subject.sha256}")
    return Provenance(
        attestation.form,
        subject,
        identity,
        (
            Check("signature", True, "belongs to the statement and the certificate"),
            Check("certificate", True, f"issued by {issuers[0].subject.rfc4514_string()} of the trust root"),
            Check("identity", True, f"{identity.builder} for {identity.source} at {identity.ref}"),
            subject_check,
            *checks,
        ),
    )


def _check_logs(attestation: Attestation, root: TrustRoot, issuers: list[x509.Certificate]) -> tuple[Check, ...]:
    names = "certificate transparency", "transparency log", "signing time"
    if root.logs is None:
        return tuple(Check(name, False, _NO_KEYS) for name in names)
    root.logs.verify_issued(attestation.certificate, issuers)
    issued = Check(names[0], True, "a log of the trust root has promised to list the certificate")
    if attestation.form is Form.ENVELOPE:
        return issued, *(Check(name, False, _NO_ENTRY) for name in names[1:])
    logged = root.logs.verify_bundle(attestation.text)
    if logged != (attestation.payload_type, attestation.payload, attestation.certificate):
        raise CRDsError(Exit.INTEGRITY, "the bundle has members twice, with different values")
    at = "by a timestamp authority" if attestation.logged_at is None else f"{attestation.logged_at:%Y-%m-%dT%H:%M:%SZ}"
    return (
        issued,
        Check(names[1], True, "the entry is in a log of the trust root, and is about this attestation"),
        Check(names[2], True, f"{at}, while the certificate was valid"),
    )
