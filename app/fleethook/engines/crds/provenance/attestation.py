"""Parses attestations: a DSSE envelope with its certificate, or a Sigstore bundle; and reads the signer's identity.

slsa-github-generator writes ``….intoto.jsonl`` in one of two forms: up to v2.0.0 an envelope whose signature has the
member ``cert`` (``signing/envelope/envelope.go``), since v2.1.0 a Sigstore bundle (``signing/sigstore/bundle.go``),
which also has the entry of the transparency log.

The identity is the workflow that Fulcio wrote into the certificate. Its extensions are those of Fulcio's
``docs/oid-info.md``; all values are DER UTF8Strings. No signature is verified here.
"""

import enum
import re
from datetime import UTC, datetime
from typing import Final, NamedTuple

import msgspec
from cryptography import x509
from cryptography.hazmat import asn1

from fleethook.engines.crds.crds_errors import CRDsError, Exit

MAX_BYTES: Final = 1024 * 1024
"""Limit of a file. Upstream's attestations have 8 to 16 KiB; a subject takes about 100 bytes."""


class Form(enum.StrEnum):
    """The format of an attestation."""

    ENVELOPE = "envelope"
    BUNDLE = "bundle"


class Attestation(NamedTuple):
    """A signed statement, as in the file; not verified."""

    form: Form
    payload_type: str
    payload: bytes
    signature: bytes
    certificate: x509.Certificate
    """The signer's certificate."""
    logged_at: datetime | None
    """Time of the entry in the transparency log, if the entry promises inclusion."""
    text: bytes
    """The JSON document, for libraries that parse it themselves."""


class _Signature(msgspec.Struct):
    sig: bytes
    cert: str = ""


class _Envelope(msgspec.Struct, rename="camel"):
    payload_type: str
    payload: bytes
    signatures: list[_Signature]


class _Certificate(msgspec.Struct, rename="camel"):
    raw_bytes: bytes


class _Chain(msgspec.Struct):
    certificates: list[_Certificate]


class _Entry(msgspec.Struct, rename="camel"):
    integrated_time: str = ""
    inclusion_promise: msgspec.Raw = msgspec.Raw()


class _Material(msgspec.Struct, rename="camel"):
    certificate: _Certificate | None = None
    x509_certificate_chain: _Chain | None = msgspec.field(name="x509CertificateChain", default=None)
    tlog_entries: list[_Entry] = []


class _Bundle(msgspec.Struct, rename="camel"):
    dsse_envelope: _Envelope
    verification_material: _Material


class _Kind(msgspec.Struct, rename="camel"):
    media_type: str = ""


# msgspec describes a type at its first use. In two threads at once, this crashes the process.
_decode_kind: Final = msgspec.json.Decoder(_Kind).decode
_decode_envelope: Final = msgspec.json.Decoder(_Envelope).decode
_decode_bundle: Final = msgspec.json.Decoder(_Bundle).decode


def parse_attestation(data: bytes) -> Attestation:
    """Return the attestation in a file of at most `MAX_BYTES`.

    Raises:
        CRDsError: INTEGRITY if there is none, more than one, or a malformed one; LIMIT if the file is too large.
    """
    if len(data) > MAX_BYTES:
        raise CRDsError(Exit.LIMIT, f"the attestation is larger than {MAX_BYTES:,} bytes")
    documents = sum(line.startswith(b"{") for line in data.splitlines())
    if documents > 1:
        raise CRDsError(Exit.INTEGRITY, f"the file has {documents} attestations, and one is required")
    try:
        return _parse_bundle(data) if _decode_kind(data).media_type else _parse_envelope(data)
    except (ValueError, OverflowError, RecursionError, x509.InvalidVersion) as error:
        text = f"the file is neither a DSSE envelope with a certificate nor a Sigstore bundle: {error}"
        raise CRDsError(Exit.INTEGRITY, text) from None


def _parse_envelope(data: bytes) -> Attestation:
    envelope = _decode_envelope(data)
    signature = _only_signature(envelope)
    if not signature.cert:
        raise ValueError("the signature has no member cert")
    certificates = x509.load_pem_x509_certificates(signature.cert.encode())
    if len(certificates) != 1:
        raise ValueError(f"the member cert has {len(certificates)} certificates, and one is required")
    return Attestation(
        Form.ENVELOPE, envelope.payload_type, envelope.payload, signature.sig, certificates[0], None, data
    )


def _parse_bundle(data: bytes) -> Attestation:
    bundle = _decode_bundle(data)
    envelope, material = bundle.dsse_envelope, bundle.verification_material
    chain = material.x509_certificate_chain.certificates if material.x509_certificate_chain else []
    # Versions 0.1 and 0.2 have a chain that begins with the signer's certificate, 0.3 has that certificate alone.
    held = material.certificate or (chain[0] if chain else None)
    if held is None:
        raise ValueError("the bundle has no certificate")
    certificate = x509.load_der_x509_certificate(held.raw_bytes)
    return Attestation(
        Form.BUNDLE, envelope.payload_type, envelope.payload, _only_signature(envelope).sig, certificate,
        _read_log_time(material.tlog_entries), data,
    )  # fmt: skip


def _only_signature(envelope: _Envelope) -> _Signature:
    if len(envelope.signatures) != 1:
        raise ValueError(f"the envelope has {len(envelope.signatures)} signatures, and one is required")
    return envelope.signatures[0]


def _read_log_time(entries: list[_Entry]) -> datetime | None:
    # Only the promise (a signed entry timestamp) binds the time to the entry.
    if len(entries) != 1 or not entries[0].integrated_time or bytes(entries[0].inclusion_promise) in {b"", b"null"}:
        return None
    return datetime.fromtimestamp(int(entries[0].integrated_time), tz=UTC)


ISSUER: Final = "https://token.actions.githubusercontent.com"
BUILDER: Final = "https://github.com/slsa-framework/slsa-github-generator/.github/workflows/generator_generic_slsa3.yml"
SOURCE: Final = "github.com/karmada-io/karmada"

_FULCIO: Final = "1.3.6.1.4.1.57264.1."
# The workflows of slsa-github-generator are trusted at releases only, as slsa-verifier does.
_RELEASE: Final = re.compile(r"@refs/tags/v\d+\.\d+\.\d+", re.ASCII)


class Expected(NamedTuple):
    """The identity that an attestation must have."""

    source: str = SOURCE
    """Repository, with or without ``https://``."""
    tag: str = ""
    """Tag of the repository; ``""`` for any ref."""
    builder: str = BUILDER
    """URI of the workflow that signs; without ``@`` any of its releases."""

    @property
    def source_uri(self) -> str:
        """The repository in the form of certificates."""
        return f"https://{self.source.removeprefix('https://').rstrip('/')}"


class Identity(NamedTuple):
    """The workflow run that a certificate was issued to."""

    issuer: str
    builder: str
    """URI of the workflow that signs, with its ref."""
    source: str
    """URI of the repository."""
    ref: str
    commit: str


def read_identity(certificate: x509.Certificate) -> Identity:
    """Return the identity in a Fulcio certificate; raises CRDsError INTEGRITY if a part is missing or malformed."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        uris = names.get_values_for_type(x509.UniformResourceIdentifier)
        # 8 is the issuer, 12 the source repository, 13 its digest (a commit), 14 its ref.
        issuer, source, commit, ref = (_read_extension(certificate, number) for number in (8, 12, 13, 14))
    except (x509.ExtensionNotFound, x509.DuplicateExtension, x509.UnsupportedGeneralNameType, ValueError) as error:
        text = f"the certificate does not name a GitHub workflow as Fulcio's certificates do: {error}"
        raise CRDsError(Exit.INTEGRITY, text) from None
    if len(uris) != 1 or len(list(names)) != 1:
        raise CRDsError(Exit.INTEGRITY, "the certificate must have one subject alternative name, the workflow's URI")
    return Identity(issuer, uris[0], source, ref, commit)


def check_identity(identity: Identity, expected: Expected) -> None:
    """Compare an identity with the expected one; raises CRDsError INTEGRITY for the first difference."""
    wanted_builder = expected.builder if "@" in expected.builder else f"{expected.builder}@refs/tags/vX.Y.Z"
    rows = [
        ("issuer", identity.issuer, ISSUER, identity.issuer == ISSUER),
        ("builder", identity.builder, wanted_builder, _is_builder(identity.builder, expected.builder)),
        ("source repository", identity.source, expected.source_uri, identity.source == expected.source_uri),
    ]
    if expected.tag:
        ref = f"refs/tags/{expected.tag}"
        rows.append(("source ref", identity.ref, ref, identity.ref == ref))
    for name, found, wanted, equal in rows:
        if not equal:
            raise CRDsError(Exit.INTEGRITY, f"the certificate's {name} is {found}, and {wanted} is expected")


def _is_builder(found: str, wanted: str) -> bool:
    if "@" in wanted:
        return found == wanted
    return found.startswith(wanted) and _RELEASE.fullmatch(found[len(wanted) :]) is not None


def _read_extension(certificate: x509.Certificate, number: int) -> str:
    extension = certificate.extensions.get_extension_for_oid(x509.ObjectIdentifier(f"{_FULCIO}{number}")).value
    if not isinstance(extension, x509.UnrecognizedExtension):
        raise ValueError(f"extension {_FULCIO}{number} is not a text")  # noqa: TRY004 - the caller's kind of error
    return asn1.decode_der(str, extension.value)
