"""Reading an attestation from a file of either form."""

import base64
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.engines.crds.provenance import attestation as module
from fleethook.engines.crds.provenance.attestation import (
    MAX_BYTES,
    Attestation,
    Expected,
    Form,
    Identity,
    check_identity,
    parse_attestation,
    read_identity,
)
from tests.engines.crds.provenance.signing import BUILDER, COMMIT, IN_TOTO, REF, SOURCE, Sigstore
from tests.engines.crds.provenance.signing import Identity as Holder

SIGSTORE = Sigstore()


SIGNER = SIGSTORE.signer()
PEM = SIGNER.certificate.public_bytes(Encoding.PEM).decode()
DER = base64.b64encode(SIGNER.certificate.public_bytes(Encoding.DER)).decode()
ENVELOPE = SIGNER.envelope(b"payload")
SIGNATURE = ENVELOPE["signatures"][0]
ENTRY = {"integratedTime": "1700000000", "inclusionPromise": {"signedEntryTimestamp": "x"}}


def envelope(*certificates: str, signatures: int = 1) -> dict[str, Any]:
    return {**ENVELOPE, "signatures": [{**SIGNATURE, "cert": "".join(certificates)}] * signatures}


def bundle(material: Any, **members: Any) -> dict[str, Any]:
    kind = "application/vnd.dev.sigstore.bundle+json;version=0.2"
    return {"mediaType": kind, "dsseEnvelope": ENVELOPE, "verificationMaterial": material, **members}


def parse(document: Any) -> Attestation:
    return parse_attestation(document if isinstance(document, bytes) else json.dumps(document).encode())


def test_an_envelope_has_its_certificate_beside_the_signature_and_no_time() -> None:
    found = parse(envelope(PEM))
    assert (found.form, found.payload_type, found.payload, found.logged_at) == (
        Form.ENVELOPE,
        IN_TOTO,
        b"payload",
        None,
    )
    assert found.certificate == SIGNER.certificate
    assert found.signature == base64.b64decode(SIGNATURE["sig"])


@pytest.mark.parametrize(
    "material",
    [
        {"certificate": {"rawBytes": DER}},
        {"x509CertificateChain": {"certificates": [{"rawBytes": DER}, {"rawBytes": "AAAA"}]}},
        {"certificate": {"rawBytes": DER}, "x509CertificateChain": {"certificates": [{"rawBytes": "AAAA"}]}},
    ],
)
def test_a_bundle_has_one_certificate_or_a_chain_that_begins_with_it(material: Any) -> None:
    found = parse(bundle(material))
    assert (found.form, found.certificate, found.logged_at) == (Form.BUNDLE, SIGNER.certificate, None)
    assert json.loads(found.text)["verificationMaterial"] == material


@pytest.mark.parametrize(
    ("entries", "seconds"),
    [
        ([ENTRY], 1_700_000_000),
        ([], None),
        ([ENTRY, ENTRY], None),
        ([{**ENTRY, "inclusionPromise": None}], None),
        ([{"integratedTime": "1700000000"}], None),
        ([{"inclusionPromise": {}}], None),
    ],
)
def test_only_the_promise_of_one_entry_binds_the_time(entries: Any, seconds: int | None) -> None:
    found = parse(bundle({"certificate": {"rawBytes": DER}, "tlogEntries": entries}))
    assert found.logged_at == (None if seconds is None else datetime.fromtimestamp(seconds, tz=UTC))


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (envelope(), "the signature has no member cert"),
        (envelope(PEM, PEM), "the member cert has 2 certificates"),
        (envelope("text"), "neither a DSSE envelope"),
        (envelope(PEM, signatures=2), "the envelope has 2 signatures"),
        (envelope(PEM, signatures=0), "the envelope has 0 signatures"),
        (bundle({}), "the bundle has no certificate"),
        (bundle({"x509CertificateChain": {"certificates": []}}), "the bundle has no certificate"),
        (bundle({"certificate": {"rawBytes": "AAAA"}}), "neither a DSSE envelope"),
        (bundle({"certificate": {"rawBytes": DER}, "tlogEntries": [{**ENTRY, "integratedTime": "9" * 30}]}), "neither"),
        (bundle({"certificate": {"rawBytes": DER}, "tlogEntries": [{**ENTRY, "integratedTime": "soon"}]}), "neither"),
        ({}, "neither a DSSE envelope"),
        (b"", "neither a DSSE envelope"),
        (b'{"x":' + b"[" * 100_000, "neither a DSSE envelope"),
        (b"{}\n{}\n", "the file has 2 attestations, and one is required"),
    ],
)
def test_a_file_without_one_attestation_is_refused(document: Any, reason: str) -> None:
    with pytest.raises(CRDsError, match=reason) as caught:
        parse(document)
    assert caught.value.exit is Exit.INTEGRITY


def test_a_file_may_be_as_large_as_the_limit() -> None:
    text = json.dumps(envelope(PEM)).encode()
    assert parse(text.ljust(MAX_BYTES)).form is Form.ENVELOPE
    with pytest.raises(CRDsError, match="the attestation is larger than") as caught:
        parse(text.ljust(MAX_BYTES + 1))
    assert caught.value.exit is Exit.LIMIT


GIVEN = Identity(module.ISSUER, BUILDER, SOURCE, REF, COMMIT)
UNVERSIONED = BUILDER.partition("@")[0]


def test_the_certificate_names_the_workflow() -> None:
    assert read_identity(SIGSTORE.signer().certificate) == GIVEN
    other = SIGSTORE.signer(Holder(source="https://example.org/é")).certificate
    assert read_identity(other).source == "https://example.org/é"


def test_a_certificate_without_a_workflow_is_refused() -> None:
    (authority, _) = x509.load_pem_x509_certificates(SIGSTORE.pem)
    with pytest.raises(CRDsError, match="does not name a GitHub workflow") as caught:
        read_identity(authority)
    assert caught.value.exit is Exit.INTEGRITY


@pytest.mark.parametrize(
    ("expected", "builder"),
    [
        (Expected(), BUILDER),
        (Expected(tag="v1.14.0"), BUILDER),
        (Expected(source=f"{SOURCE}/"), BUILDER),
        (Expected(source="github.com/karmada-io/karmada"), f"{UNVERSIONED}@refs/tags/v10.20.30"),
        (Expected(builder=f"{UNVERSIONED}@refs/heads/main"), f"{UNVERSIONED}@refs/heads/main"),
    ],
)
def test_the_expected_workflow_is_accepted(expected: Expected, builder: str) -> None:
    check_identity(GIVEN._replace(builder=builder), expected)


@pytest.mark.parametrize(
    ("changes", "expected", "name"),
    [
        ({"issuer": "https://accounts.google.com"}, Expected(), "issuer"),
        ({"builder": UNVERSIONED}, Expected(), "builder"),
        ({"builder": f"{UNVERSIONED}@refs/heads/main"}, Expected(), "builder"),
        ({"builder": f"{UNVERSIONED}@refs/tags/v1.2.3-rc.1"}, Expected(), "builder"),
        ({"builder": f"{UNVERSIONED}@refs/tags/v1.2.3\n"}, Expected(), "builder"),
        ({"builder": f"{UNVERSIONED}x@refs/tags/v1.2.3"}, Expected(), "builder"),
        ({}, Expected(builder=f"{UNVERSIONED}@refs/tags/v9.9.9"), "builder"),
        ({"source": f"{SOURCE}x"}, Expected(), "source repository"),
        ({"source": "http://github.com/karmada-io/karmada"}, Expected(), "source repository"),
        ({}, Expected(tag="v1.14"), "source ref"),
        ({"ref": "refs/heads/v1.14.0"}, Expected(tag="v1.14.0"), "source ref"),
    ],
)
def test_another_workflow_is_refused(changes: dict[str, str], expected: Expected, name: str) -> None:
    with pytest.raises(CRDsError, match=f"^the certificate's {name} is ") as caught:
        check_identity(GIVEN._replace(**changes), expected)
    assert caught.value.exit is Exit.INTEGRITY
