import base64
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from app.certs.authorities import BundleError, Validity, find_end, read_bundle
from tests.e2e.pki import Authority

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def lasting(start: int, end: int) -> Validity:
    return Validity(NOW + timedelta(days=start), NOW + timedelta(days=end))


def test_each_authority_of_a_bundle_is_read(tmp_path: Path) -> None:
    pem = Authority(tmp_path, "ca").certificate.read_bytes()
    found = read_bundle(base64.b64encode(pem + pem).decode())
    assert len(found) == 2
    assert all(one.start < datetime.now(UTC) < one.end for one in found)


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
