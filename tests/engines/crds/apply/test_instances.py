"""Reading instances of a host cluster."""

from typing import Any

import pytest

from fleethook.cluster.connection import Connection
from fleethook.engines.crds.apply.instance_server import find_instance, list_instances
from fleethook.engines.crds.crds_errors import CRDsError, Exit
from tests.engines.crds.apply.apiserver import ApiServer

DEMO = {"apiVersion": "operator.karmada.io/v1alpha1", "kind": "Karmada", "metadata": {"name": "demo"}}


@pytest.mark.parametrize(
    ("answer", "expected"), [({"items": [DEMO, "text"]}, [DEMO, {}]), ({"items": None}, []), ({}, []), ([], [])]
)
async def test_a_list_of_any_shape_is_read(api: ApiServer, connection: Connection, answer: Any, expected: Any) -> None:
    api.disturb = lambda _asked, _times: (200, answer)
    assert await list_instances(connection) == expected


async def test_a_cluster_without_the_kind_is_a_wrong_argument(api: ApiServer, connection: Connection) -> None:
    api.disturb = lambda _asked, _times: (404, {"message": "404 page not found"})
    with pytest.raises(CRDsError, match="give the kubeconfig of the host cluster") as caught:
        await list_instances(connection)
    assert caught.value.exit is Exit.USAGE


async def test_an_instance_is_found_by_its_name(api: ApiServer, connection: Connection) -> None:
    api.disturb = lambda asked, _times: (200, DEMO) if asked.name == "demo" else (404, {"message": "no"})
    assert await find_instance(connection, "n", "demo") == DEMO
    with pytest.raises(CRDsError, match="there is no Karmada n/other at ") as caught:
        await find_instance(connection, "n", "other")
    assert caught.value.exit is Exit.USAGE


@pytest.mark.parametrize(
    ("namespace", "name"), [("n/../m", "demo"), ("n", "a/b"), ("", "demo"), ("n", ".."), ("n", "")]
)
async def test_a_name_that_no_object_has_is_not_requested(
    api: ApiServer, connection: Connection, namespace: str, name: str
) -> None:
    with pytest.raises(CRDsError, match="there is no Karmada "):
        await find_instance(connection, namespace, name)
    assert api.asked == []
