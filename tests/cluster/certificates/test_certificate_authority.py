from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID

from fleethook.cluster.certificates.certificate_authority import (
    KeyPair,
    find_renewal_time,
    is_current,
    issue_serving,
    list_names,
    new_authority,
)

NOW = datetime(2026, 6, 1, tzinfo=UTC)
NAMES = ["localhost", "127.0.0.1", "::1"]


def test_a_ca_signs_certificates_and_no_intermediate_cas() -> None:
    certificate = new_authority(now=NOW).certificate
    constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    assert (constraints.critical, constraints.value.ca, constraints.value.path_length) == (True, True, 0)
    assert certificate.not_valid_before_utc < NOW < certificate.not_valid_after_utc


def test_a_serving_certificate_has_its_names_and_ninety_days() -> None:
    authority = new_authority(now=NOW)
    certificate = issue_serving(authority, names=NAMES, now=NOW).certificate
    certificate.verify_directly_issued_by(authority.certificate)
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.SERVER_AUTH]
    assert list_names(certificate) == set(NAMES)
    assert certificate.not_valid_after_utc == NOW + timedelta(days=90)


def test_a_serving_certificate_never_outlives_its_ca() -> None:
    authority = new_authority(now=NOW)
    end = authority.certificate.not_valid_after_utc
    assert issue_serving(authority, names=NAMES, now=end - timedelta(days=1)).certificate.not_valid_after_utc == end


def test_the_repr_of_a_key_pair_hides_the_key() -> None:
    pair = new_authority(now=NOW)
    assert "PRIVATE" not in repr(pair)
    assert "fleethook CA" in repr(pair)


def test_a_certificate_is_renewed_after_two_thirds_of_its_lifetime() -> None:
    certificate = issue_serving(new_authority(now=NOW), names=NAMES, now=NOW).certificate

    assert timedelta(days=59, hours=23) < find_renewal_time(certificate) - NOW < timedelta(days=60)


@pytest.mark.parametrize("change", ["names", "age", "ca", "key", "garbage"])
def test_a_certificate_is_current_only_for_its_ca_names_and_key(change: str) -> None:
    authority = new_authority(now=NOW)
    serving = issue_serving(authority, names=NAMES, now=NOW)
    names, now = NAMES, NOW
    assert is_current(serving, authority, names=names, now=now)
    if change == "names":
        names = [*NAMES, "fleethook.default.svc"]
    elif change == "age":
        now = find_renewal_time(serving.certificate)
    elif change == "ca":
        authority = new_authority(now=NOW)
    elif change == "key":
        serving = serving._replace(key_pem=authority.key_pem)
    else:
        serving = KeyPair(b"garbage", serving.key_pem)

    assert not is_current(serving, authority, names=names, now=now)


def test_a_key_must_be_elliptic() -> None:
    key = rsa.generate_private_key(65537, 2048).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    with pytest.raises(ValueError, match="the key is not an elliptic curve key"):
        _ = KeyPair(b"", key).key
