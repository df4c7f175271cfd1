"""Tests of the requests about policies, against an apiserver in memory; tests/e2e/test_policy_modes.py has a real one."""

from typing import Any, cast

import pytest

from fleethook.cluster.api_errors import APIError
from fleethook.cluster.connection import Connection
from fleethook.engines.overrider.policies.compilation import COMPILED_LABEL
from fleethook.engines.overrider.policies.policy_client import PolicyClient, path_of
from tests.engines.overrider.policy_server import API, PolicyServer


def document(kind: str, name: str, uid: str = "u-1") -> dict[str, Any]:
    metadata = {"name": name, "labels": {COMPILED_LABEL: uid}}
    return {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": metadata}


POLICY, BINDING = OBJECTS = [
    document("MutatingAdmissionPolicy", "p"),
    document("MutatingAdmissionPolicyBinding", "b"),
]
OTHER = document("MutatingAdmissionPolicyBinding", "other", "u-2")


def client_of(server: PolicyServer) -> PolicyClient:
    return PolicyClient(cast("Connection", server))


async def test_objects_are_applied_in_their_order() -> None:
    server = PolicyServer()
    await client_of(server).apply(OBJECTS)
    assert server.requests == [("PATCH", path_of(one)) for one in OBJECTS]
    assert path_of(BINDING) == f"{API}/mutatingadmissionpolicybindings/b"


async def test_bindings_are_deleted_first_and_only_those_of_the_overrider() -> None:
    server = PolicyServer()
    client = client_of(server)
    await client.apply([*OBJECTS, OTHER])
    await client.delete_all("u-1")
    deleted = [path for method, path in server.requests if method == "DELETE"]
    assert deleted == [path_of(BINDING), path_of(POLICY)]
    assert set(server.objects) == {path_of(OTHER)}
    await client.delete_all("u-2", keep={path_of(OTHER)})
    assert set(server.objects) == {path_of(OTHER)}


async def test_unbinding_keeps_policies() -> None:
    server = PolicyServer()
    client = client_of(server)
    await client.apply([*OBJECTS, OTHER])
    await client.unbind("u-1")
    assert set(server.objects) == {path_of(POLICY), path_of(OTHER)}


async def test_missing_objects_and_a_missing_api_are_no_error() -> None:
    server = PolicyServer()
    client = client_of(server)
    await client.delete([path_of(POLICY)])
    server.served = ()
    assert await client.find("u-1") == []
    assert not await client.is_served()


async def test_other_failures_are_raised() -> None:
    server = PolicyServer()
    for call in (client_of(server).find(), client_of(server).delete([path_of(POLICY)]), client_of(server).is_served()):
        server.denied.append(APIError(403, "Forbidden", "no"))
        with pytest.raises(APIError, match="no"):
            await call


async def test_the_owner_is_named_by_its_uid() -> None:
    server = PolicyServer()
    place = "/apis/rbac.authorization.k8s.io/v1/clusterroles/owner"
    server.single[place] = {"metadata": {"uid": "u-9"}}
    await PolicyClient(cast("Connection", server), owner="owner").apply(OBJECTS)
    owner = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "name": "owner", "uid": "u-9"}
    assert [one["metadata"]["ownerReferences"] for one in server.objects.values()] == [[owner], [owner]]


async def test_without_its_owner_nothing_is_applied() -> None:
    server = PolicyServer()
    with pytest.raises(APIError):
        await PolicyClient(cast("Connection", server), owner="owner").apply(OBJECTS)
    assert server.objects == {}
