"""The API server of an instance, read from Secrets that its users may have written."""

import base64
import ssl
from datetime import UTC, datetime
from typing import Any

import pytest
import yaml

from fleethook.cluster.certificates.certificate_authority import new_authority
from fleethook.cluster.connection import Connection, RestConfig
from fleethook.engines.crds.apply.instance_server import Target, read_target
from fleethook.engines.crds.crds_errors import CRDsError, Exit
from tests.engines.crds.apply.apiserver import ApiServer, Asked

CA = new_authority(now=datetime.now(UTC)).certificate_pem
TOKEN = "t0ken-of-an-instance"
DEMO = {"metadata": {"name": "demo", "namespace": "tenant"}}


def encode(text: bytes) -> str:
    return base64.b64encode(text).decode()


def kubeconfig() -> bytes:
    config = {
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": "https://192.0.2.7:6443", "certificate-authority-data": encode(CA)}}],
        "users": [{"name": "u", "user": {"token": TOKEN}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    }  # fmt: skip
    return yaml.safe_dump(config).encode()


@pytest.fixture
def secrets(api: ApiServer) -> dict[str, Any]:
    """The Secrets of the instance, by name; a test changes them."""
    data: dict[str, Any] = {
        "demo-karmada-admin-config": {"karmada.config": encode(kubeconfig())},
        "demo-karmada-cert": {"ca.crt": encode(CA), "ca.key": "not decoded"},
    }

    def answer(asked: Asked, _times: int) -> Any:
        found = data.get(asked.name)
        if isinstance(found, tuple):
            return found
        return (404, {"message": "not found"}) if found is None else (200, {"data": found})

    api.disturb = answer
    return data


async def test_server_token_and_authority_are_those_of_the_secrets(
    api: ApiServer, connection: Connection, secrets: dict[str, Any]
) -> None:
    target = await read_target(connection, DEMO, max_response_bytes=7)
    access = target.access
    assert (access.server, access.token, access.max_response_bytes) == ("https://192.0.2.7:6443", TOKEN, 7)
    assert target.ca_pem == CA
    assert [asked.name for asked in api.asked] == list(secrets)


async def test_a_given_authority_needs_no_certificate_secret(
    api: ApiServer, connection: Connection, secrets: dict[str, Any]
) -> None:
    del secrets["demo-karmada-cert"]
    assert (await read_target(connection, DEMO, ca_pem=b"given")).ca_pem == b"given"
    assert [asked.name for asked in api.asked] == ["demo-karmada-admin-config"]


REFUSED: dict[str, tuple[dict[str, Any], Any, str, bool]] = {
    "missing": ({"demo-karmada-admin-config": None}, DEMO, "there is no Secret tenant/demo-karmada-admin-config", True),
    "forbidden": ({"demo-karmada-admin-config": (403, {"reason": "Forbidden", "message": "no"})}, DEMO, "cannot read secrets/demo-karmada-admin-config: 403 Forbidden: no", True),
    "no key": ({"demo-karmada-cert": {}}, DEMO, "the Secret tenant/demo-karmada-cert has no ca.crt", False),
    "not base64": ({"demo-karmada-cert": {"ca.crt": "aGVsbG8=*"}}, DEMO, "the Secret tenant/demo-karmada-cert has no ca.crt", False),
    "no kubeconfig": ({"demo-karmada-admin-config": {"karmada.config": encode(b"[]")}}, DEMO, "the Secret demo-karmada-admin-config, karmada.config: the kubeconfig cannot be used", False),
    "name": ({}, {"metadata": {"name": "../x", "namespace": "tenant"}}, "the instance has no valid name or no valid namespace", False),
    "namespace": ({}, {"metadata": {"name": "demo", "namespace": "a/b"}}, "the instance has no valid name or no valid namespace", False),
    "elsewhere": ({}, {**DEMO, "spec": {"hostCluster": {"secretRef": {"name": "other"}}}}, "its Secrets are in the cluster of spec.hostCluster, which is not read: run `crds apply`", False),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "instance", "text", "transient"), REFUSED.values(), ids=REFUSED)
async def test_an_instance_without_usable_secrets_is_refused(
    connection: Connection, secrets: dict[str, Any], changes: dict[str, Any], instance: Any, text: str, transient: bool
) -> None:
    secrets.update(changes)
    with pytest.raises(CRDsError) as raised:
        await read_target(connection, instance)
    assert str(raised.value).startswith(text)
    assert (raised.value.exit, raised.value.transient) == (Exit.USAGE, transient)
    assert TOKEN not in str(raised.value)


async def test_no_secret_of_another_namespace_is_read(
    api: ApiServer, connection: Connection, secrets: dict[str, Any]
) -> None:
    del secrets
    stolen = {**DEMO, "status": {"secretRef": {"name": "stolen", "namespace": "kube-system"}}}
    await read_target(connection, stolen)
    assert {asked.name for asked in api.asked} == {"demo-karmada-admin-config", "demo-karmada-cert"}


def test_an_error_that_repeats_the_token_is_redacted() -> None:
    target = Target(RestConfig("https://a", ssl.create_default_context(), TOKEN), CA)
    told = target.conceal(CRDsError(Exit.HTTP, f"no such token {TOKEN}!", transient=True))
    assert (str(told), told.exit, told.transient) == ("no such token <redacted>!", Exit.HTTP, True)
    other = CRDsError(Exit.HTTP, "no")
    assert target.conceal(other) is other
    assert Target(RestConfig("https://a", ssl.create_default_context()), CA).conceal(other) is other
