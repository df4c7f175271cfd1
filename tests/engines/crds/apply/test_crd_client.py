"""The requests for CRDs: queries, content types and answers."""

from typing import Any

import pytest

from fleethook.cluster.connection import Connection
from fleethook.engines.crds.apply import crd_client
from fleethook.engines.crds.apply.crd_client import read_namespaced, request_object
from fleethook.engines.crds.apply.crd_patches import Patch
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
    assert await crd_client.find(connection, NAME) is None
    assert api.asked == [Asked("GET", NAME, "application/json", {}, None)]


@pytest.mark.parametrize(("answer", "names"), [({"items": [CRD, 5]}, [NAME, None]), ({"items": 5}, []), ([], [])])
async def test_a_list_of_any_shape_is_read(api: ApiServer, connection: Connection, answer: Any, names: Any) -> None:
    api.disturb = lambda _asked, _times: (200, answer)
    found = await crd_client.find_all(connection)
    assert [one.get("metadata", {}).get("name") for one in found] == names  # type: ignore[union-attr]
    assert api.asked[0].name == "customresourcedefinitions"


@pytest.mark.parametrize(("dry_run", "query"), [(False, {}), (True, {"dryRun": "All"})])
async def test_applying_and_patching_use_the_field_manager_of_karmadas_operator(
    api: ApiServer, connection: Connection, dry_run: bool, query: dict[str, str]
) -> None:
    await crd_client.apply(connection, NAME, CRD, dry_run=False)
    api.asked.clear()
    applied = await crd_client.apply(connection, NAME, CRD, dry_run=dry_run)
    patched = await crd_client.patch(connection, PATCH, dry_run=dry_run)
    manager = {"fieldManager": "karmada-operator"}
    assert api.asked == [
        Asked("PATCH", NAME, "application/apply-patch+yaml", {**manager, "force": "true", **query}, CRD),
        Asked("PATCH", NAME, "application/strategic-merge-patch+json", {**manager, **query}, PATCH.body),
    ]
    assert applied["metadata"]["name"] == patched["metadata"]["name"] == NAME  # type: ignore[index,call-overload]
    assert ("conversion" in api.crds[NAME]["spec"]) is not dry_run


async def test_a_patch_of_a_crd_that_is_gone_is_an_error(connection: Connection) -> None:
    with pytest.raises(CRDsError, match=f"{NAME}: the server has no such CRD") as raised:
        await crd_client.patch(connection, PATCH, dry_run=False)
    assert raised.value.exit is Exit.HTTP
