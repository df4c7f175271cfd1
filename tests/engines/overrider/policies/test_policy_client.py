"""Tests of the requests about policies, against an apiserver in memory; tests/e2e/test_policy_modes.py has a real one."""

from typing import Any, cast

import pytest

from fleethook.cluster.api_errors import APIError
from fleethook.cluster.connection import Connection
from fleethook.cluster.registration.condition_client import ConditionClient, Registered
from fleethook.cluster.registration.match_conditions import Selection, SubjectName
from fleethook.cluster.registration.webhooks import SELECTED, select_workloads
from fleethook.engines.overrider.policies.compilation import COMPILED_LABEL
from fleethook.engines.overrider.policies.policy_client import PolicyClient, path_of, remove_policies
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


DEMO, OTHER_SUBJECT = SubjectName("default", "YurtAppSet", "demo"), SubjectName("default", "YurtAppSet", "other")


class Conditions:
    """The selection of the webhooks. Writes of other replicas cause ``conflicts``."""

    def __init__(self, selection: Selection | None, log: list[str], conflicts: int = 0) -> None:
        self.selection, self.log, self.conflicts = selection, log, conflicts
        self.is_deleted = False

    async def read(self) -> Registered | None:
        if self.selection is None:
            return None
        return Registered("1", frozenset(SELECTED), select_workloads(SELECTED, self.selection))

    async def write(self, _: Registered, selection: Selection, *, announcements: Any = ()) -> str:
        assert announcements == ()
        if self.conflicts:
            self.conflicts -= 1
            raise APIError(409, "Conflict", "changed")
        if self.is_deleted:
            self.selection = None
            raise APIError(404, "NotFound", "not found")
        self.selection = selection
        self.log.append("condition")
        return "2"


class Removing:
    """A cluster with the objects of an overrider."""

    def __init__(self, selection: Selection | None, conflicts: int = 0) -> None:
        self.log: list[str] = []
        self.server = PolicyServer()
        for one in OBJECTS:
            self.server.store(path_of(one), one)
        self.conditions = Conditions(selection, self.log, conflicts)

    async def remove(self) -> Any:
        async def sleep(_: float) -> None:
            assert len(self.server.objects) == 2
            self.log.append("sleep")

        policies = PolicyClient(cast("Connection", self.server))
        return await remove_policies(policies, cast("ConditionClient", self.conditions), sleep=sleep)


async def test_the_exemption_ends_before_bindings_and_then_policies_are_deleted() -> None:
    opened = DEMO._replace(name="open")
    at = Removing(Selection(frozenset({OTHER_SUBJECT}), frozenset({opened}), frozenset({DEMO, opened})))
    done = await at.remove()
    assert at.log == ["condition", "sleep"]
    assert at.conditions.selection == Selection(frozenset({OTHER_SUBJECT, DEMO}), frozenset({opened}))
    deleted = [path for method, path in at.server.requests if method == "DELETE"]
    assert deleted == [path_of(BINDING), path_of(POLICY)] == [one.path for one in done.objects]
    assert (done.subjects, done.left) == ((DEMO, opened), ())


async def test_a_conflict_is_tried_again_and_an_endless_one_deletes_nothing() -> None:
    at = Removing(Selection(covered=frozenset({DEMO})), conflicts=2)
    await at.remove()
    assert at.server.objects == {}
    at = Removing(Selection(covered=frozenset({DEMO})), conflicts=9)
    with pytest.raises(APIError, match="changed"):
        await at.remove()
    assert len(at.server.objects) == 2


async def test_a_configuration_that_is_deleted_meanwhile_has_no_exemption() -> None:
    at = Removing(Selection(covered=frozenset({DEMO})))
    at.conditions.is_deleted = True
    await at.remove()
    assert at.server.objects == {}


@pytest.mark.parametrize("selection", [None, Selection(), Selection(frozenset({DEMO}))])
async def test_without_an_exemption_the_condition_stays(selection: Selection | None) -> None:
    at = Removing(selection)
    done = await at.remove()
    assert (at.log, at.conditions.selection, done.subjects) == ([], selection, ())
    assert at.server.objects == {}


async def test_a_selection_with_namespaces_keeps_them() -> None:
    far = frozenset({"far"})
    at = Removing(Selection(covered=frozenset({DEMO}), namespaces=far))
    await at.remove()
    assert at.conditions.selection == Selection(frozenset({DEMO}), namespaces=far)


async def test_objects_that_a_leader_has_applied_again_are_reported() -> None:
    at = Removing(None)
    delete = at.server.request

    async def request(method: str, path: str, **rest: Any) -> bytes:
        answer = await delete(method, path, **rest)
        if method == "DELETE":
            at.server.store(path_of(POLICY), POLICY)
        return answer

    at.server.request = request  # type: ignore[method-assign]
    assert [one.path for one in (await at.remove()).left] == [path_of(POLICY)]
