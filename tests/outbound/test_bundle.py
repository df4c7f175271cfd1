"""Bundles of certificate authorities that a configuration names."""

import base64
from datetime import UTC, datetime

import pytest

from app.certs.files import ensure_certificates
from app.outbound.bundle import MAX_BUNDLE, bundle_problems, list_skipped

_LOADING = "Invalid value: unable to load root certificates: "
_BAD = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> str:
    files = ensure_certificates(tmp_path_factory.mktemp("certs"), names=["localhost"], now=datetime.now(UTC))
    return files.authority_certificate.read_text()


def encode(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    ("bundle", "text"),
    [
        (None, ""),
        ("", ""),
        ("?", "it is not PEM in base64"),
        ("Zm9", "it is not PEM in base64"),
        (7, "it is not PEM in base64"),
        ("Zm9v", "unable to parse bytes as PEM block"),
        (encode(_BAD), "failed to parse certificate: x509: malformed certificate"),
    ],
)
def test_a_bundle_without_a_certificate_is_useless(bundle: str | None, text: str) -> None:
    assert [one.text for one in bundle_problems(bundle, "b")] == ([_LOADING + text] if text else [])
    assert list_skipped(bundle) == []


def test_one_certificate_is_enough(good: str) -> None:
    """kube-apiserver skips the other blocks (crypto/x509, AppendCertsFromPEM) and line ends (encoding/base64)."""
    for text, skipped in (
        (good, []),
        (_BAD + good, ["certificate 1 of 2: x509: malformed certificate"]),
        (good + _BAD.replace("CERTIFICATE", "X509 CERTIFICATE"), []),
    ):
        encoded = encode(text)
        lines = "".join(f"{encoded[at : at + 64]}\r\n" for at in range(0, len(encoded), 64))
        for bundle in (encoded, lines):
            assert (list(bundle_problems(bundle, "b")), list_skipped(bundle)) == ([], skipped)


def test_a_bundle_is_limited() -> None:
    (problem,) = bundle_problems("A" * (MAX_BUNDLE + 1), "f")
    assert problem.text == f"Too long: must have at most {MAX_BUNDLE} characters"
