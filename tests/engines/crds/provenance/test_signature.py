"""The signature of an envelope, and the chain of its certificate."""

import base64
import json

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.engines.crds.provenance.attestation import Attestation, Form
from fleethook.engines.crds.provenance.provenance_checks import encode_pae, verify_chain, verify_signature
from tests.engines.crds.provenance.signing import IN_TOTO, Signer, Sigstore

SIGSTORE = Sigstore()
PAYLOAD = b'{"a": "\xc3\xa9"}'
SIGNER = SIGSTORE.signer()
ISSUER, ROOT = x509.load_pem_x509_certificates(SIGSTORE.pem)


def attestation(signer: Signer = SIGNER, payload: bytes = PAYLOAD) -> Attestation:
    (signature,) = signer.envelope(payload)["signatures"]
    sig = base64.b64decode(signature["sig"])
    return Attestation(Form.ENVELOPE, IN_TOTO, payload, sig, signer.certificate, None, json.dumps({}).encode())


def refusal(call: object, *arguments: object) -> str:
    assert callable(call)
    with pytest.raises(CRDsError) as caught:
        call(*arguments)
    assert caught.value.exit is Exit.INTEGRITY
    return str(caught.value)


def test_lengths_count_bytes() -> None:
    assert encode_pae("é", b"\xff\x00") == b"DSSEv1 2 \xc3\xa9 2 \xff\x00"
    assert encode_pae("", b"") == b"DSSEv1 0  0 "


def test_a_signature_of_the_statement_and_the_certificate_is_accepted() -> None:
    verify_signature(attestation())


@pytest.mark.parametrize(
    "changed",
    [
        attestation()._replace(payload=PAYLOAD + b" "),
        attestation()._replace(payload_type="text/plain"),
        attestation()._replace(certificate=SIGSTORE.signer().certificate),
        attestation()._replace(signature=b""),
    ],
)
def test_a_signature_of_anything_else_is_refused(changed: Attestation) -> None:
    text = refusal(verify_signature, changed)
    assert text == "the signature does not belong to the statement and the certificate"


def test_the_chain_ends_at_the_nearest_authority_that_is_given() -> None:
    assert verify_chain(SIGNER.certificate, (ROOT, ISSUER)) == [ISSUER]
    assert "was not issued by an authority of --trust-root" in refusal(verify_chain, SIGNER.certificate, (ROOT,))


def test_a_certificate_of_another_authority_is_refused() -> None:
    others = tuple(x509.load_pem_x509_certificates(Sigstore().pem))
    assert "was not issued by an authority of --trust-root" in refusal(verify_chain, SIGNER.certificate, others)


def test_a_certificate_for_another_usage_is_refused() -> None:
    server = SIGSTORE.signer(usage=ExtendedKeyUsageOID.SERVER_AUTH).certificate
    assert refusal(verify_chain, server, (ROOT, ISSUER)) == "the certificate is not for code signing"
