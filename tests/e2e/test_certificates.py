"""Certificates against a real apiserver: a Secret shared by replicas, its rotation under load, mTLS."""

import asyncio
import base64
import contextlib
import http.client
import json
import ssl
import stat
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from fleethook.cluster.apiserver_connection import Connection
from fleethook.cluster.certificates.authority_and_serving_certificate import issue_serving, new_authority
from fleethook.cluster.certificates.secret_and_ca_rotation import (
    RotationPolicy,
    SecretName,
    SecretStore,
    StoredCertificates,
    from_data,
    to_data,
)
from tests.e2e.cluster import Api, ControlPlane
from tests.e2e.fleet import NAMESPACE, OPENYURT, WEBHOOKS, is_ready, run_registered_server, service_account
from tests.e2e.test_source_faults import config
from tests.e2e.workloads import path_of, workload_of
from tests.other_constants import constants
from tests.serving import MUTATE, REVIEW, serving
from tests.traffic import send_traffic
from tests.waiting import NET, wait_for

NAMES = ["localhost", "127.0.0.1"]
POLICY = RotationPolicy(NAMES)


def secret_path(name: str, namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/secrets/{name}"


def read_credentials(admin: Api, name: str, namespace: str) -> StoredCertificates:
    data = admin[secret_path(name, namespace)]["data"]
    return from_data({key: base64.b64decode(text) for key, text in data.items()})


def open_store(connection: Connection, namespace: str, directory: Path) -> SecretStore:
    return SecretStore(connection, SecretName(namespace, "certs"), POLICY, directory, check_seconds=0.1)


async def test_replicas_that_start_together_agree(
    plane: ControlPlane, admin: Api, namespace: str, tmp_path: Path
) -> None:
    async with contextlib.AsyncExitStack() as stack:
        stores = []
        for number in range(6):
            connection = await stack.enter_async_context(Connection(config(plane, "agree", plane.port)))
            stores.append(open_store(connection, namespace, tmp_path / str(number)))
        found = await asyncio.gather(*(each.ensure() for each in stores))
    (agreed,) = set(found)
    assert read_credentials(admin, "certs", namespace) == agreed
    for each in stores:
        assert each.files.certificate.read_bytes() == agreed.serving.certificate_pem
        assert stat.S_IMODE(each.files.key.stat().st_mode) == 0o600


def build_rotating_credentials(now: datetime, *, seconds: float) -> StoredCertificates:
    """Return credentials in the middle of a rotation; the announced authority signs after some seconds."""
    authority = new_authority(now=now - timedelta(days=250), lifetime=timedelta(days=365))
    serving = issue_serving(authority, names=[*NAMES, "::1"], now=now - timedelta(days=1))
    skew = timedelta(minutes=5)
    announced = new_authority(now=now + skew - POLICY.announcement + timedelta(seconds=seconds))
    return StoredCertificates(authority, serving, announced)


def test_a_rotation_of_the_authority_under_load_fails_nothing(
    plane: ControlPlane, admin: Api, crds: None, namespace: str, tmp_path: Path
) -> None:
    """The apiserver calls webhooks, 8 connections stay open, others come and go; meanwhile the authority changes."""
    subject = admin.create(f"{OPENYURT}/namespaces/{namespace}/yurtappsets", app_set(namespace))
    for seconds in (25, 100, 300):
        directory = tmp_path / str(seconds)
        directory.mkdir()
        if rotates_under_load(plane, subject, directory, f"rotation-{namespace}-{seconds}", seconds=seconds):
            return
    pytest.fail("the machine is too slow: the rotation had begun before the traffic each time")


def rotates_under_load(
    plane: ControlPlane, subject: dict[str, Any], directory: Path, secret: str, *, seconds: float
) -> bool:
    """Change the authority after some seconds; return False if that is before the load starts."""
    admin, kubeconfig = plane.api(), service_account(plane)
    before = build_rotating_credentials(datetime.now(UTC), seconds=seconds)
    data = {name: base64.b64encode(value).decode() for name, value in to_data(before).items()}
    admin.create(
        f"/api/v1/namespaces/{NAMESPACE}/secrets",
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": secret}, "data": data},
    )

    def trusting() -> ssl.SSLContext:
        """Return a context with the authorities that the apiserver trusts now."""
        webhooks = admin[f"{WEBHOOKS}/mutatingwebhookconfigurations/fleethook"]["webhooks"]
        return ssl.create_default_context(cadata=base64.b64decode(webhooks[0]["clientConfig"]["caBundle"]).decode())

    flags = ["--cert-secret", f"{NAMESPACE}/{secret}"]
    created, refused = 0, []
    stop = threading.Event()

    def write() -> None:
        nonlocal created
        while not stop.is_set():
            made = workload_of(subject, "hangzhou")
            # Kubernetes before 1.31 answers 409 if a generated name exists, which is likely after some thousand.
            status, answer, _ = admin.call("POST", path_of(made), made, dryRun="All")
            if status == 201 and answer["spec"]["replicas"] == 3:
                created += 1
            else:
                refused.append(answer)

    writer = threading.Thread(target=write)
    with run_registered_server(
        plane, directory, *flags, kubeconfig=kubeconfig, **constants(certificates=0.2)
    ) as server:
        with replica(directory, kubeconfig, flags), send_traffic(server.port, trusting) as traffic:
            writer.start()
            try:
                if read_credentials(admin, secret, NAMESPACE) != before:
                    return False
                wait_for(
                    lambda: read_credentials(admin, secret, NAMESPACE).authority == before.announced,
                    what="the new one signs",
                )
                wait_for(lambda: len(traffic.serials) == 2, what="its certificate is served")
                answered = traffic.answered["kept"]
                wait_for(lambda: traffic.answered["kept"] > answered + 100, what="connections go on")
                wait_for(lambda made=created: created > made + 5, what="the apiserver keeps calling")
            finally:
                stop.set()
                writer.join(timeout=NET)
        after = read_credentials(admin, secret, NAMESPACE)
    assert (traffic.failures, refused) == ([], [])
    assert after.former == before.authority.certificate_pem
    assert after.announced is None
    return True


@contextlib.contextmanager
def replica(directory: Path, kubeconfig: Path, flags: list[str]) -> Iterator[None]:
    """Another replica that keeps the same Secret."""
    other = directory / "replica"
    other.mkdir()
    with serving(
        other, "--kubeconfig", str(kubeconfig), *flags, manifests=None, **constants(certificates=0.2)
    ) as server:
        wait_for(lambda: is_ready(server), what="the replica is ready")
        yield


def app_set(namespace: str) -> dict[str, Any]:
    from tests.builders import pool, yurt_app_set  # noqa: PLC0415 - one user

    made = yurt_app_set(pools=[pool("hangzhou", 3)])
    made["metadata"] = {"name": "demo", "namespace": namespace}
    return made


def send_request(
    port: int, context: ssl.SSLContext, method: str, path: str, body: bytes | None = None
) -> tuple[int, Any]:
    connection = http.client.HTTPSConnection("localhost", port, context=context, timeout=NET)
    with contextlib.closing(connection):
        connection.request(method, path, body=body, headers={"Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status, json.loads(response.read())


def test_with_a_client_authority_only_the_apiserver_may_ask(
    plane: ControlPlane, admin: Api, crds: None, namespace: str, tmp_path: Path
) -> None:
    authority = str(plane.webhook_authority.certificate)
    with run_registered_server(plane, tmp_path, "--client-ca-file", authority) as server:
        subject = admin.create(f"{OPENYURT}/namespaces/{namespace}/yurtappsets", app_set(namespace))
        made = workload_of(subject, "hangzhou")
        assert admin.create(path_of(made), made)["spec"]["replicas"] == 3

        anonymous = server.context()
        status, answer = send_request(server.port, anonymous, "POST", MUTATE, REVIEW.read_bytes())
        assert (status, answer["reason"]) == (403, "Forbidden")
        assert "client certificate" in answer["message"]
        assert send_request(server.port, anonymous, "GET", "/healthz")[0] == 200
        assert send_request(server.port, anonymous, "GET", "/readyz")[0] == 200

        stranger = server.context()
        stranger.load_cert_chain(plane.admin.certificate, plane.admin.key)
        with pytest.raises((ssl.SSLError, ConnectionError)):
            send_request(server.port, stranger, "POST", MUTATE, REVIEW.read_bytes())

        known = server.context()
        known.load_cert_chain(plane.webhook_client.certificate, plane.webhook_client.key)
        assert send_request(server.port, known, "POST", MUTATE, REVIEW.read_bytes())[0] == 200
