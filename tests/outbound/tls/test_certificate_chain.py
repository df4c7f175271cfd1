"""The verdicts of Go's TLS client and server about chains of certificates, and the work that one verification may take."""

import base64
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from fleethook.outbound.tls.certificate_chain import MAX_SIGNATURE_CHECKS, Roots, is_light, verify, verify_client
from fleethook.outbound.tls.certificate_der import CertificateError
from fleethook.outbound.tls.trust import TrustError, load_roots

GO: Final[dict[str, Any]] = json.loads(
    (Path(__file__).parents[2] / "conformance" / "go_certificates.json").read_text(encoding="utf-8")
)
HOST: Final = "hook.example.com"
NOW: Final = datetime(2026, 11, 26, tzinfo=UTC)
# Parts of Go's texts that users search for. Those about times and issuers say more than Go's.
SAME_TEXTS: Final = (
    "certificate specifies an incompatible key usage", "too many intermediates for path length constraint",
    "not authorized to sign for this name", "certificate signed by unknown authority", "unhandled critical extension",
    "certificate is valid for", "certificate is not valid for any names",
    "relies on legacy Common Name", "cannot validate certificate for", "unable to parse bytes as PEM block",
    "failed to parse certificate", "inner and outer signature algorithm",
)  # fmt: skip


def find_verdict(case: dict[str, Any], *, of_client: bool) -> str:
    pem = case["bundle"]
    if not isinstance(pem, str):
        blocks = (f"-----BEGIN CERTIFICATE-----\n{GO['certificates'][one]}\n-----END CERTIFICATE-----\n" for one in pem)
        pem = base64.b64encode("".join(blocks).encode()).decode()
    sent = [base64.b64decode(GO["certificates"][one]) for one in case["sent"]]
    now = datetime.fromisoformat(case.get("at", GO["now"]))
    try:
        if of_client:
            verify_client(sent, load_roots(pem), now=now)
        else:
            verify(sent, load_roots(pem), host=case.get("host", HOST), now=now)
    except (TrustError, CertificateError) as error:
        return str(error)
    return "ok"


@pytest.mark.parametrize("case", GO["cases"], ids=lambda case: case["name"])
def test_verdicts_are_those_of_go(case: dict[str, Any]) -> None:
    for of_client, wanted in ((False, case["go"]), (True, case.get("client", case["go"]))):
        verdict = find_verdict(case, of_client=of_client)
        assert (verdict == "ok") == (wanted == "ok"), f"Go: {wanted}; fleethook: {verdict}"
        expected = [text for text in SAME_TEXTS if text in wanted.partition(" (possibly")[0]]
        assert [text for text in expected if text not in verdict] == []


def issue(subject: str, issuer: str, *, key: ec.EllipticCurvePrivateKey, signer: ec.EllipticCurvePrivateKey) -> bytes:
    names = [x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, one)]) for one in (subject, issuer)]
    builder = (
        x509.CertificateBuilder(names[1], names[0], key.public_key(), x509.random_serial_number())
        .not_valid_before(NOW - timedelta(days=1))
        .not_valid_after(NOW + timedelta(days=1))
    )
    alternative = x509.SubjectAlternativeName([x509.DNSName(HOST)])
    constraints = x509.BasicConstraints(ca=True, path_length=None)
    extension: x509.ExtensionType = alternative if subject == "leaf" else constraints
    return builder.add_extension(extension, critical=False).sign(signer, hashes.SHA256()).public_bytes(Encoding.DER)


@pytest.mark.parametrize(
    ("strangers", "trusted"), [(0, True), (MAX_SIGNATURE_CHECKS - 1, True), (MAX_SIGNATURE_CHECKS, False)]
)
def test_candidates_of_one_subject_are_limited_as_in_go(strangers: int, *, trusted: bool) -> None:
    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(2)]
    bundle = [issue("CA", "CA", key=keys[0], signer=keys[0]) for _ in range(strangers)]
    roots = Roots([*bundle, issue("CA", "CA", key=keys[1], signer=keys[1])])
    leaf = issue("leaf", "CA", key=keys[0], signer=keys[1])
    assert is_light([leaf], roots) == (strangers == 0)
    assert not is_light([leaf] * 5, roots)
    if trusted:
        verify([leaf], roots, host=HOST, now=NOW)
    else:
        with pytest.raises(CertificateError, match="signature check attempts limit reached"):
            verify([leaf], roots, host=HOST, now=NOW)


def test_a_server_without_certificates_is_refused() -> None:
    with pytest.raises(CertificateError, match="sent no certificate"):
        verify([], Roots([]), host=HOST, now=NOW)
