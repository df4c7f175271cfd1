"""The Secret in a kube-apiserver in memory; tests/e2e/test_certificates.py has a real one."""

import base64
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleethook.cluster.api_errors import APIError
from fleethook.cluster.apiserver_connection import Connection
from fleethook.cluster.certificates.authority_and_serving_certificate import KeyPair, issue_serving, new_authority
from fleethook.cluster.certificates.secret_and_ca_rotation import (
    RotationPolicy,
    SecretName,
    SecretStore,
    StoredCertificates,
    advance,
    from_data,
    issue_credentials,
    to_data,
)
from tests.cluster.object_server import ObjectServer
from tests.hypothesis_profiles import examples

START = datetime(2026, 6, 1, tzinfo=UTC)
POLICY = RotationPolicy(["fleethook.fleet.svc"])
DAY = timedelta(days=1)
FIRST = issue_credentials(POLICY, now=START)


def settle(credentials: StoredCertificates, now: datetime) -> StoredCertificates:
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
        *(({name: text}, "tls.crt and tls.key are not a certificate and its key") for name, text in (
            ("tls.crt", b""), ("tls.crt", b"garbage"), ("tls.key", b"garbage"), ("tls.key", OTHER.key_pem),
        )),
        ({"ca.key": b""}, "ca.crt and ca.key are not a certificate and its key"),
        ({"ca-former.crt": b"garbage"}, "ca-former.crt is not a readable certificate"),
        ({"ca-announced.crt": b"x", "ca-announced.key": OTHER.key_pem}, "ca-announced.crt and ca-announced.key are not a certificate and its key"),
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


SECRET = SecretName("fleet", "certs")

EMPTY = {"apiVersion": "v1", "kind": "Secret", "type": "Opaque"}


class Clock:
    now = START


def open_store(server: ObjectServer, directory: Path, clock: type[Clock] | Clock = Clock) -> SecretStore:
    connection = cast("Connection", server)
    return SecretStore(connection, SECRET, POLICY, directory, now=lambda: clock.now, check_seconds=60)


def write(server: ObjectServer, credentials: StoredCertificates, **metadata: Any) -> None:
    data = {name: base64.b64encode(value).decode() for name, value in to_data(credentials).items()}
    server.store(SECRET.path, {**EMPTY, "metadata": {"name": "certs", **metadata}, "data": data})


def read(server: ObjectServer) -> StoredCertificates:
    return from_data({key: base64.b64decode(text) for key, text in server.objects[SECRET.path]["data"].items()})


async def test_a_missing_secret_is_created_and_written_to_files(tmp_path: Path) -> None:
    server = ObjectServer()
    store = open_store(server, tmp_path / "certs")
    credentials = await store.ensure()

    assert read(server) == credentials == store.credentials
    assert store.files.certificate.read_bytes() == credentials.serving.certificate_pem
    assert store.files.authority_certificate.read_bytes() == credentials.bundle
    assert stat.S_IMODE(store.files.key.stat().st_mode) == 0o600


async def test_current_credentials_are_not_written_again(tmp_path: Path) -> None:
    server = ObjectServer()
    await open_store(server, tmp_path).ensure()
    server.requests.clear()
    await open_store(server, tmp_path).ensure()

    assert server.requests == [("GET", SECRET.path)]


async def test_an_empty_secret_is_filled_and_keeps_its_metadata(tmp_path: Path) -> None:
    server = ObjectServer()
    metadata = {"name": "certs", "labels": {"a": "b"}, "managedFields": [{}]}
    server.store(SECRET.path, {**EMPTY, "type": "fleethook.io/certs", "metadata": metadata})
    await open_store(server, tmp_path).ensure()
    stored = server.objects[SECRET.path]

    assert stored["type"] == "fleethook.io/certs"
    assert stored["metadata"]["labels"] == {"a": "b", "app.kubernetes.io/name": "fleethook"}
    assert "managedFields" not in stored["metadata"]


async def test_an_unusable_secret_gets_new_credentials(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    server = ObjectServer()
    former = issue_credentials(POLICY, now=START)
    write(server, former)
    server.objects[SECRET.path]["data"]["tls.key"] = base64.b64encode(b"garbage").decode()

    assert await open_store(server, tmp_path).ensure() != former
    assert (
        caplog.messages[0]
        == "Secret fleet/certs is unusable and gets new credentials: tls.crt and tls.key are not a certificate and its key"
    )


async def test_the_credentials_of_a_faster_replica_are_used(tmp_path: Path) -> None:
    server = ObjectServer()
    faster = issue_credentials(POLICY, now=START)
    server.before_write.append(lambda: write(server, faster))

    assert await open_store(server, tmp_path).ensure() == faster == read(server)


async def test_a_secret_that_is_deleted_meanwhile_is_created_again(tmp_path: Path) -> None:
    server = ObjectServer()
    server.store(SECRET.path, {**EMPTY, "metadata": {"name": "certs"}})
    server.before_write.append(lambda: server.remove(SECRET.path))

    assert await open_store(server, tmp_path).ensure() == read(server)
    assert [method for method, _ in server.requests if method != "GET"] == ["PUT", "POST"]


async def test_endless_conflicts_are_an_error(tmp_path: Path) -> None:
    server = ObjectServer()
    expired = issue_credentials(POLICY, now=START - timedelta(days=400))
    write(server, expired)
    server.before_write += [lambda: write(server, expired)] * 10

    with pytest.raises(APIError, match="other writers changed Secret fleet/certs 10 times"):
        await open_store(server, tmp_path).ensure()


async def test_a_due_renewal_is_stored_and_written_to_files(tmp_path: Path) -> None:
    server, clock = ObjectServer(), Clock()
    store = open_store(server, tmp_path, clock)
    first = await store.ensure()
    clock.now = START + timedelta(days=61)
    renewed = await store.ensure()

    assert (renewed.authority, renewed.serving == first.serving) == (first.authority, False)
    assert read(server) == renewed
    assert store.files.certificate.read_bytes() == renewed.serving.certificate_pem
