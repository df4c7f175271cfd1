"""The rotation of a CA as a pure function of time."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleethook.cluster.certificates.authority import KeyPair, issue_serving, new_authority
from fleethook.cluster.certificates.rotation import (
    Credentials,
    RotationPolicy,
    advance,
    from_data,
    issue_credentials,
    to_data,
)
from tests.hypothesis_profiles import examples

START = datetime(2026, 6, 1, tzinfo=UTC)
POLICY = RotationPolicy(["fleethook.fleet.svc"])
DAY = timedelta(days=1)
FIRST = issue_credentials(POLICY, now=START)


def settle(credentials: Credentials, now: datetime) -> Credentials:
    while (after := advance(credentials, POLICY, now=now)) is not credentials:
        credentials = after
    return credentials


def test_the_serving_certificate_is_renewed_after_two_thirds_of_ninety_days() -> None:
    assert advance(FIRST, POLICY, now=START + 59 * DAY) is FIRST
    renewed = advance(FIRST, POLICY, now=START + 60 * DAY)
    assert renewed.serving != FIRST.serving
    assert (renewed.authority, renewed.bundle) == (FIRST.authority, FIRST.bundle)


def test_a_missing_name_is_added_at_once() -> None:
    more = POLICY._replace(names=["fleethook.fleet.svc", "localhost"])
    assert advance(FIRST, more, now=START).serving != FIRST.serving


def test_clients_trust_a_ca_before_and_after_it_signs() -> None:
    due = START + 244 * DAY
    announced = settle(FIRST, due)
    assert announced.announced is not None
    assert announced.authority == FIRST.authority
    assert announced.bundle == FIRST.authority.certificate_pem + announced.announced.certificate_pem
    assert settle(announced, due + timedelta(minutes=50)) is announced

    promoted = settle(announced, due + timedelta(hours=1))
    assert promoted.authority == announced.announced
    promoted.serving.certificate.verify_directly_issued_by(promoted.authority.certificate)
    assert promoted.bundle == announced.announced.certificate_pem + FIRST.authority.certificate_pem

    over = settle(promoted, due + timedelta(hours=26))
    assert over.former is None
    assert over.bundle == promoted.authority.certificate_pem


def test_credentials_with_an_expired_ca_are_replaced() -> None:
    found = settle(FIRST, START + 400 * DAY)
    assert found.authority != FIRST.authority
    found.serving.certificate.verify_directly_issued_by(found.authority.certificate)


@settings(max_examples=examples(25))
@given(st.lists(st.floats(min_value=0.01, max_value=40), min_size=5, max_size=25))
def test_the_signing_ca_is_always_trusted_before_it_signs(pauses: list[float]) -> None:
    """There are up to 40 days between the checks; the last third of a CA's lifetime has 121 days."""
    now, held = START, FIRST
    for pause in pauses:
        now += DAY * pause
        trusted = held.bundle
        after = advance(held, POLICY, now=now)
        while after is not held:
            assert after.authority.certificate_pem in trusted
            after.serving.certificate.verify_directly_issued_by(after.authority.certificate)
            assert after.authority.certificate_pem in after.bundle
            trusted, held = after.bundle, after
            after = advance(held, POLICY, now=now)
        assert held.serving.certificate.not_valid_after_utc > now


def test_stored_credentials_read_back() -> None:
    announced = FIRST._replace(announced=new_authority(now=START))
    former = FIRST._replace(former=new_authority(now=START).certificate_pem)
    for credentials in (FIRST, announced, former):
        assert from_data(to_data(credentials)) == credentials
        assert to_data(credentials)["ca-bundle.crt"] == credentials.bundle


OTHER = issue_serving(new_authority(now=START), names=["x"], now=START)


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"tls.crt": b""}, "tls.crt (the serving certificate) is missing"),
        ({"ca.key": b""}, "ca.key (its key) is missing"),
        ({"tls.crt": b"garbage"}, "tls.crt is not a readable certificate"),
        ({"tls.key": b"garbage"}, "tls.key is not a readable EC key"),
        ({"tls.key": OTHER.key_pem}, "tls.key is not the key of tls.crt"),
        ({"ca-former.crt": b"garbage"}, "ca-former.crt is not a readable certificate"),
        ({"ca-announced.crt": b"x", "ca-announced.key": OTHER.key_pem}, "ca-announced.crt is not a readable certificate"),
    ],
)  # fmt: skip
def test_an_unusable_value_is_named_and_never_shown(changed: dict[str, bytes], problem: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        from_data({**to_data(FIRST), **changed})
    assert str(caught.value) == problem
    assert "PRIVATE" not in str(caught.value)


def test_the_repr_of_credentials_hides_the_keys() -> None:
    assert "PRIVATE" not in repr(FIRST)
    assert isinstance(FIRST.authority, KeyPair)
