"""Bundles of certificate authorities that a configuration names."""

import base64
from datetime import UTC, datetime, timedelta

import pytest

from fleethook.cluster.certificates.certificate_files import ensure_certificates
from fleethook.outbound.tls.ca_bundle import (
    MAX_BUNDLE,
    BundleError,
    Validity,
    bundle_problems,
    find_end,
    list_skipped,
    read_bundle,
)

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
            (one,) = read_bundle(bundle)
            assert one.start < datetime.now(UTC) < one.end


def test_a_bundle_is_limited() -> None:
    (problem,) = bundle_problems("A" * (MAX_BUNDLE + 1), "f")
    assert problem.text == f"Too long: must have at most {MAX_BUNDLE} characters"


NOW = datetime(2026, 1, 1, tzinfo=UTC)


def lasting(start: int, end: int) -> Validity:
    return Validity(NOW + timedelta(days=start), NOW + timedelta(days=end))


@pytest.mark.parametrize("text", ["", "%%", base64.b64encode(b"no certificate").decode()])
def test_a_bundle_without_certificates_is_an_error(text: str) -> None:
    with pytest.raises(BundleError, match="not PEM in base64"):
        read_bundle(text)


@pytest.mark.parametrize(
    ("authorities", "end"),
    [
        ([lasting(-1, 5), lasting(-1, 9)], 9),
        ([lasting(-1, 5), lasting(1, 9)], 5),
        ([lasting(-9, -1), lasting(-1, 2)], 2),
        ([lasting(-9, -1), lasting(1, 9)], None),
        ([], None),
    ],
)
def test_the_last_end_of_a_valid_authority_counts(authorities: list[Validity], end: int | None) -> None:
    assert find_end(authorities, NOW) == (None if end is None else NOW + timedelta(days=end))
