"""The requests for CRDs: queries, content types and answers."""

from typing import Any

import pytest

from fleethook.cluster.connection import Connection
from fleethook.engines.crds.apply import crd_client
from fleethook.engines.crds.apply.patches import Patch
from fleethook.engines.crds.crds_errors import CRDsError, Exit
from tests.engines.crds.apply.apiserver import ApiServer, Asked

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
