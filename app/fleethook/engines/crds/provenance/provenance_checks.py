"""Verifies an attestation offline against a trust root: signature, certificate, signer and statement.

The result reports which parts are verified. A trust root is a file of Fulcio's certificates, or a Sigstore
``trusted_root.json`` with the keys of logs.
"""

import importlib
import re
from pathlib import Path
from typing import Final, NamedTuple, Protocol

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID
from cryptography.x509.verification import Criticality, ExtensionPolicy, PolicyBuilder, Store, VerificationError

from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.engines.crds.provenance.attestation import (
    Attestation,
    Expected,
    Form,
    Identity,
    check_identity,
    read_identity,
)
from fleethook.model.operator import SHA256_FORM


class Logged(NamedTuple):
    """The parts of a bundle that were verified together with its entry in the transparency log."""

    payload_type: str
    payload: bytes
    certificate: x509.Certificate


class Logs(Protocol):
    """The keys of the certificate transparency log and of the transparency log."""

    def verify_issued(self, certificate: x509.Certificate, issuers: list[x509.Certificate]) -> None:
        """Verify that the certificate transparency log has promised to list a certificate.

        Args:
            certificate: The certificate, with the signed timestamp of the log.
            issuers: Issuers of the certificate, nearest first.

        Raises:
            CRDsError: INTEGRITY.
        """

    def verify_bundle(self, text: bytes) -> Logged:
        """Verify a Sigstore bundle: signature, certificate, inclusion in the log, and the time of signing.

        Raises:
            CRDsError: INTEGRITY.
        """


class TrustRoot(NamedTuple):
    """Authorities, and the keys of logs if the file has them."""

    authorities: tuple[x509.Certificate, ...]
    logs: Logs | None


def read_trust_root(path: Path, data: bytes) -> TrustRoot:
    """Return the trust root in a file.

    Args:
        path: Path of the file, for messages and for the library that reads ``trusted_root.json``.
        data: Content of the file; PEM has authorities only.

    Raises:
        CRDsError: USAGE if the file is not a trust root, or if the library for ``trusted_root.json`` is missing.
    """
    if data.lstrip().startswith(b"{"):
        return _read_trusted_root(path)
    try:
        return TrustRoot(tuple(x509.load_pem_x509_certificates(data)), None)
    except (ValueError, x509.InvalidVersion) as error:
        text = f"--trust-root {path}: neither PEM certificates nor a Sigstore trusted_root.json: {error}"
        raise CRDsError(Exit.USAGE, text) from None


def _read_trusted_root(path: Path) -> TrustRoot:
    try:
        library = importlib.import_module("fleethook.engines.crds.provenance.sigstore_logs")
    except ImportError as error:
        text = (
            f"--trust-root {path}: a trusted_root.json takes the package sigstore ({error}): install "
            "fleethook[provenance], or give the certificates of Fulcio as PEM, which leaves the logs unverified"
        )
        raise CRDsError(Exit.USAGE, text) from None
    authorities, logs = library.read_trusted_root(path)
    return TrustRoot(authorities, logs)


PAYLOAD_TYPE: Final = "application/vnd.in-toto+json"
PREDICATE_TYPE: Final = "https://slsa.dev/provenance/v0.2"
"""The predicate type of slsa-github-generator's generic workflow, in all its releases."""
TARBALL: Final = "crds.tar.gz"
"""Name of the subject, as Karmada's release workflow writes it."""

_STATEMENT_TYPES: Final = frozenset({"https://in-toto.io/Statement/v0.1", "https://in-toto.io/Statement/v1"})
_SHA256: Final = re.compile(SHA256_FORM, re.ASCII)


class Subject(NamedTuple):
    """A file that a statement is about."""

    name: str
    sha256: str


class _Subject(msgspec.Struct):
    name: str
    digest: dict[str, str]


class _ConfigSource(msgspec.Struct):
    uri: str
    digest: dict[str, str]


class _Invocation(msgspec.Struct, rename="camel"):
    config_source: _ConfigSource


class _Builder(msgspec.Struct):
    id: str


class _Predicate(msgspec.Struct):
    builder: _Builder
    invocation: _Invocation


class _Header(msgspec.Struct, rename="camel"):
    predicate_type: str
    type: str = msgspec.field(name="_type")


class _Statement(msgspec.Struct):
    subject: list[_Subject]
    predicate: _Predicate


# msgspec describes a type at its first use. In two threads at once, this crashes the process.
_decode_header: Final = msgspec.json.Decoder(_Header).decode
_decode_statement: Final = msgspec.json.Decoder(_Statement).decode


def read_subject(payload_type: str, payload: bytes, identity: Identity) -> Subject:
    """Return the tarball that a signed statement is about.

    Args:
        payload_type: Payload type of the envelope.
        payload: The statement; the caller has verified its signature.
        identity: Identity of the certificate; the statement must have the same builder, repository, ref and commit.

    Raises:
        CRDsError: INTEGRITY for another kind of statement, for contradictions, and without one definite tarball.
    """
    if payload_type != PAYLOAD_TYPE:
        raise CRDsError(Exit.INTEGRITY, f"the payload is of type {payload_type}, and {PAYLOAD_TYPE} is expected")
    try:
        header = _decode_header(payload)
        if header.type not in _STATEMENT_TYPES or header.predicate_type != PREDICATE_TYPE:
            text = f"the statement is {header.type} with {header.predicate_type}, and {PREDICATE_TYPE} is expected"
            raise CRDsError(Exit.INTEGRITY, text)
        statement = _decode_statement(payload)
    except (ValueError, RecursionError) as error:
        raise CRDsError(Exit.INTEGRITY, f"the statement is not SLSA provenance: {error}") from None
    _check_claims(statement.predicate, identity)
    return _only_tarball(statement.subject)


def _check_claims(predicate: _Predicate, identity: Identity) -> None:
    source = predicate.invocation.config_source
    for name, claimed, signed in (
        ("builder", predicate.builder.id, identity.builder),
        ("source", source.uri, f"git+{identity.source}@{identity.ref}"),
        ("commit", source.digest.get("sha1", ""), identity.commit),
    ):
        if claimed != signed:
            raise CRDsError(Exit.INTEGRITY, f"the statement's {name} is {claimed}, but the certificate's {signed}")


def _only_tarball(subjects: list[_Subject]) -> Subject:
    found = [one for one in subjects if one.name == TARBALL] or subjects
    if len(found) != 1:
        text = f"the statement must be about one tarball, and is about {len(found)}; use karmada-crds.intoto.jsonl"
        raise CRDsError(Exit.INTEGRITY, text)
    sha256 = found[0].digest.get("sha256", "").lower()
    if not _SHA256.fullmatch(sha256):
        raise CRDsError(Exit.INTEGRITY, f"the statement has no SHA-256 digest of {found[0].name}")
    return Subject(found[0].name, sha256)


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
            raise CRDsError(Exit.INTEGRITY, "the certificate's key is not an ECDSA key, as in certificates of Fulcio")
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
