"""The API server of an instance, read from Secrets that its users may have written."""

import base64
import ssl
from datetime import UTC, datetime
from typing import Any

import pytest
import yaml

from fleethook.cluster.certificates.certificate_authority import new_authority
from fleethook.cluster.connection import Connection, RestConfig
from fleethook.engines.crds.apply import instance_server
from fleethook.engines.crds.apply.crd_patches import Patch
from fleethook.engines.crds.apply.instance_server import Target, read_namespaced, read_target, request_object
from fleethook.engines.crds.crds_errors import CRDsError, Exit
from tests.engines.crds.apply.apiserver import ApiServer, Asked

PATH = "/apis/example.org/v1/widgets/a"
ERRORS = [
    ((403, {"message": "no", "reason": "Forbidden"}), Exit.HTTP, False),
    ((429, {"message": "no"}), Exit.HTTP, True),
    ((500, {"message": "no"}), Exit.HTTP, True),
    ((503, "no"), Exit.HTTP, True),
    ((200, "<html>"), Exit.HTTP, False),
    ("cut", Exit.NETWORK, True),
]


@pytest.mark.parametrize(("answer", "expected"), [((200, {"a": 1}), {"a": 1}), ((404, {"message": "no"}), None)])
async def test_an_object_is_returned_and_a_missing_one_is_none(
    api: ApiServer, connection: Connection, answer: Any, expected: Any
) -> None:
    api.disturb = lambda _asked, _times: answer
    assert await request_object(connection, "GET", PATH, about="widgets/a") == expected
    assert await read_namespaced(connection, "n", "secrets", "s") == expected


async def test_an_answer_that_is_no_object_has_no_members(api: ApiServer, connection: Connection) -> None:
    api.disturb = lambda _asked, _times: (200, ["a"])
    assert await request_object(connection, "GET", PATH, about="widgets/a") == {}


@pytest.mark.parametrize(("answer", "exit_code", "is_transient"), ERRORS)
async def test_each_error_names_the_object_and_whether_it_may_pass(
    api: ApiServer, connection: Connection, answer: Any, exit_code: Exit, *, is_transient: bool
) -> None:
    api.disturb = lambda _asked, _times: answer
    with pytest.raises(CRDsError, match=r"^widgets/a: ") as caught:
        await request_object(connection, "GET", PATH, about="widgets/a")
    assert (caught.value.exit, caught.value.transient) == (exit_code, is_transient)


@pytest.mark.parametrize(
    ("answer", "exit_code"),
    [((403, {"message": "no"}), Exit.USAGE), ((200, "<html>"), Exit.NETWORK), ("cut", Exit.NETWORK)],
)
async def test_an_object_of_an_instance_that_cannot_be_read_is_tried_again(
    api: ApiServer, connection: Connection, answer: Any, exit_code: Exit
) -> None:
    api.disturb = lambda _asked, _times: answer
    with pytest.raises(CRDsError, match=r"^cannot read secrets/s: ") as caught:
        await read_namespaced(connection, "n", "secrets", "s")
    assert (caught.value.exit, caught.value.transient) == (exit_code, True)


NAME = "works.work.karmada.io"
CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": NAME},
    "spec": {},
}
PATCH = Patch("patch.yaml", NAME, {"spec": {"conversion": {"strategy": "Webhook"}}})


async def test_a_crd_that_the_server_does_not_have_is_none(api: ApiServer, connection: Connection) -> None:
    assert await instance_server.find(connection, NAME) is None
    assert api.asked == [Asked("GET", NAME, "application/json", {}, None)]


@pytest.mark.parametrize(("answer", "names"), [({"items": [CRD, 5]}, [NAME, None]), ({"items": 5}, []), ([], [])])
async def test_a_list_of_any_shape_is_read(api: ApiServer, connection: Connection, answer: Any, names: Any) -> None:
    api.disturb = lambda _asked, _times: (200, answer)
    found = await instance_server.find_all(connection)
    assert [one.get("metadata", {}).get("name") for one in found] == names  # type: ignore[union-attr]
    assert api.asked[0].name == "customresourcedefinitions"


@pytest.mark.parametrize(("dry_run", "query"), [(False, {}), (True, {"dryRun": "All"})])
async def test_applying_and_patching_use_the_field_manager_of_karmadas_operator(
    api: ApiServer, connection: Connection, dry_run: bool, query: dict[str, str]
) -> None:
    await instance_server.apply(connection, NAME, CRD, dry_run=False)
    api.asked.clear()
    applied = await instance_server.apply(connection, NAME, CRD, dry_run=dry_run)
    patched = await instance_server.patch(connection, PATCH, dry_run=dry_run)
    manager = {"fieldManager": "karmada-operator"}
    assert api.asked == [
        Asked("PATCH", NAME, "application/apply-patch+yaml", {**manager, "force": "true", **query}, CRD),
        Asked("PATCH", NAME, "application/strategic-merge-patch+json", {**manager, **query}, PATCH.body),
    ]
    assert applied["metadata"]["name"] == patched["metadata"]["name"] == NAME  # type: ignore[index,call-overload]
    assert ("conversion" in api.crds[NAME]["spec"]) is not dry_run


async def test_a_patch_of_a_crd_that_is_gone_is_an_error(connection: Connection) -> None:
    with pytest.raises(CRDsError, match=f"{NAME}: the server has no such CRD") as raised:
        await instance_server.patch(connection, PATCH, dry_run=False)
    assert raised.value.exit is Exit.HTTP


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
    "elsewhere": ({}, {**DEMO, "spec": {"hostCluster": {"secretRef": {"name": "other"}}}}, "its Secrets are in the cluster of spec.hostCluster, which fleethook does not read: run `crds apply`", False),
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
