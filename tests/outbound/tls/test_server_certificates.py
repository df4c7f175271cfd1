"""The verdicts of Go's TLS client about chains of certificates, and the work that one verification may take."""

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

from fleethook.outbound.tls.server_certificates import MAX_PRESENTED, Roots, UntrustedError
from fleethook.outbound.tls.trust import TrustError, load_roots

GO: Final[dict[str, Any]] = json.loads(
    (Path(__file__).parents[2] / "conformance" / "go_certificates.json").read_text(encoding="utf-8")
)
HOST: Final = "hook.example.com"
NOW: Final = datetime(2026, 11, 26, tzinfo=UTC)
# Parts of Go's texts that users search for.
SAME_TEXTS: Final = (
    "certificate is valid for", "certificate is not valid for any names", "relies on legacy Common Name",
    "cannot validate certificate for", "unable to parse bytes as PEM block",
)  # fmt: skip
# cryptography 50 refuses chains of few authorities that Go accepts, and malformed extensions.
REFUSED_HERE: Final = frozenset({
    "extended key usage of the leaf: empty", "extended key usage of the root: empty",
    "extended key usage of the intermediate: empty", "key usage of the root: empty",
    "key usage of the intermediate: empty", "basic constraints of the leaf: false with path length 0",
    "root of version 1", "intermediate of version 1 as bundle", "key of the root: RSA 1024", "key of the root: P-224",
    "key of the root: Ed25519", "extension critical of the root: policy constraints",
    "extension critical of the leaf: policy constraints inhibit",
    "extension critical of the root: policy constraints inhibit",
    "extension critical of the intermediate: policy constraints inhibit", "malformed SCT list in the leaf",
    "policy required: shared policy", "policy required: any in the intermediate", "policy required: any in both",
    "serial of 30 bytes", "root with an empty name", "leaf with an empty name, signed by a root with the same",
})  # fmt: skip
# Go refuses forms that prove nothing about the host: none of these is expired, for another name, or not signed.
ACCEPTED_HERE: Final = frozenset({
    "authority identifier: critical", "subject identifier critical", "key of the leaf: P-224",
    "key of a self-signed leaf: P-224", "SAN that is not ASCII", "SAN with a URI that cannot be parsed",
    "SAN with a URI with a space in the host", "SAN with a URI with an empty label",
    "extension critical of the leaf: authority information access",
    "extension critical of the root: authority information access",
    "extension critical of the intermediate: authority information access", "common name that is no UTF-8",
})  # fmt: skip


def find_verdict(case: dict[str, Any]) -> str:
    pem = case["bundle"]
    if not isinstance(pem, str):
        blocks = (f"-----BEGIN CERTIFICATE-----\n{GO['certificates'][one]}\n-----END CERTIFICATE-----\n" for one in pem)
        pem = base64.b64encode("".join(blocks).encode()).decode()
    sent = [base64.b64decode(GO["certificates"][one]) for one in case["sent"]]
    now = datetime.fromisoformat(case.get("at", GO["now"]))
    try:
        load_roots(pem).verify(sent, host=case.get("host", HOST), now=now)
    except (TrustError, UntrustedError) as error:
        return error.args[-1]
    return "ok"


@pytest.mark.parametrize("case", GO["cases"], ids=lambda case: case["name"])
def test_verdicts_are_those_of_go(case: dict[str, Any]) -> None:
    verdict, go = find_verdict(case), case["go"]
    if case["name"] in REFUSED_HERE | ACCEPTED_HERE:
        assert (verdict == "ok", go == "ok") == (case["name"] in ACCEPTED_HERE, case["name"] in REFUSED_HERE)
        return
    assert (verdict == "ok") == (go == "ok"), f"Go: {go}; fleethook: {verdict}"
    expected = [text for text in SAME_TEXTS if text in go.partition(" (possibly")[0]]
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


def test_candidates_for_issuers_are_limited() -> None:
    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(2)]
    leaf = issue("leaf", "CA", key=keys[0], signer=keys[1])
    signer = issue("CA", "CA", key=keys[1], signer=keys[1])
    strangers = [issue("CA", "CA", key=keys[0], signer=keys[0]) for _ in range(300)]
    Roots([*strangers[:20], signer]).verify([leaf], host=HOST, now=NOW)
    with pytest.raises(UntrustedError, match="Exceeded maximum signature check limit"):
        Roots(strangers).verify([leaf], host=HOST, now=NOW)


@pytest.mark.parametrize("number", [0, MAX_PRESENTED + 1])
def test_the_number_of_certificates_is_limited(number: int) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    leaf = issue("leaf", "leaf", key=key, signer=key)
    with pytest.raises(UntrustedError, match="sent no certificate, more than 16"):
        Roots([leaf]).verify([leaf] * number, host=HOST, now=NOW)
