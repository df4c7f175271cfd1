"""Verifies an attestation, and reports which of its properties are verified."""

from typing import Final, NamedTuple

from cryptography import x509

from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.engines.crds.provenance.attestation import Attestation, Form
from fleethook.engines.crds.provenance.identity import Expected, Identity, check_identity, read_identity
from fleethook.engines.crds.provenance.signature import verify_chain, verify_signature
from fleethook.engines.crds.provenance.statement import Subject, read_subject
from fleethook.engines.crds.provenance.trust_root import TrustRoot

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
