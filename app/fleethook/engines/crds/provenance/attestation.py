"""Parses attestations: a DSSE envelope with its certificate, or a Sigstore bundle around an envelope.

slsa-github-generator writes ``….intoto.jsonl`` in one of two forms: up to v2.0.0 an envelope whose signature has the
member ``cert`` (``signing/envelope/envelope.go``), since v2.1.0 a Sigstore bundle (``signing/sigstore/bundle.go``),
which also has the entry of the transparency log. Nothing is verified here.
"""

import enum
from datetime import UTC, datetime
from typing import Final, NamedTuple

import msgspec
from cryptography import x509

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
