"""The Secret in a kube-apiserver in memory; tests/e2e/test_certificates.py has a real one."""

import base64
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from fleethook.cluster.api_errors import APIError
from fleethook.cluster.certificates.rotation import Credentials, RotationPolicy, from_data, issue_credentials, to_data
from fleethook.cluster.certificates.secret_store import SecretName, SecretStore
from fleethook.cluster.connection import Connection
from tests.cluster.object_server import ObjectServer

START = datetime(2026, 6, 1, tzinfo=UTC)
SECRET = SecretName("fleet", "certs")
POLICY = RotationPolicy(["fleethook.fleet.svc"])
EMPTY = {"apiVersion": "v1", "kind": "Secret", "type": "Opaque"}


class Clock:
    now = START


def open_store(server: ObjectServer, directory: Path, clock: type[Clock] | Clock = Clock) -> SecretStore:
    connection = cast("Connection", server)
    return SecretStore(connection, SECRET, POLICY, directory, now=lambda: clock.now, check_seconds=60)


def write(server: ObjectServer, credentials: Credentials, **metadata: Any) -> None:
    data = {name: base64.b64encode(value).decode() for name, value in to_data(credentials).items()}
    server.store(SECRET.path, {**EMPTY, "metadata": {"name": "certs", **metadata}, "data": data})


def read(server: ObjectServer) -> Credentials:
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
        == "Secret fleet/certs is unusable and gets new credentials: tls.key is not a readable EC key"
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
