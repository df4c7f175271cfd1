"""Tests of the requests about policies, against an apiserver in memory; tests/e2e/test_policy_modes.py has a real one."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from fleethook.cluster.api_errors import APIError
from fleethook.cluster.connection import Connection
from fleethook.cluster.registration.condition_writer import ConditionClient, Registered
from fleethook.cluster.registration.configuration_objects import list_selected, select_workloads
from fleethook.cluster.registration.match_conditions import Selection, SubjectName
from fleethook.engines.overrider.policies.mode import COMPILED_LABEL
from fleethook.engines.overrider.policies.policy_client import PolicyClient, PolicyWatch, path_of, remove_policies
from fleethook.lifetime import run_in_background
from tests.engines.overrider.policy_server import API, SERVED, PolicyServer
from tests.waiting import until


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
        return Registered("1", frozenset(list_selected()), select_workloads(list_selected(), self.selection))

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


POLICY_PATH = f"{API}/mutatingadmissionpolicies/p"
BINDING_PATH = f"{API}/mutatingadmissionpolicybindings/b"


def watched_document(name: str, **spec: Any) -> dict[str, Any]:
    kind = "MutatingAdmissionPolicyBinding" if name == "b" else "MutatingAdmissionPolicy"
    metadata = {"name": name, "labels": {COMPILED_LABEL: "u-1"}}
    return {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": spec}


class Watching:
    def __init__(self) -> None:
        self.server = PolicyServer()
        self.watch = PolicyWatch(self.server, absent_seconds=0.01)
        self.changed: list[str] = []
        self.lists = 0

    def count(self) -> None:
        self.lists += 1


@contextlib.asynccontextmanager
async def watching() -> AsyncIterator[Watching]:
    at = Watching()
    ended: list[str] = []
    run = at.watch.run(changed=at.changed.append, listed=at.count)
    async with run_in_background(run, name="policies", ended=ended.append):
        yield at
    assert ended == []


async def test_nothing_is_requested_before_the_first_read() -> None:
    async with watching() as at:
        await at.server.apply(POLICY_PATH, watched_document("p"))
        for _ in range(20):
            await asyncio.sleep(0)
        assert (at.lists, at.changed) == (0, [])
        assert await at.watch.read() == ""
        assert at.lists == 2
        assert at.changed == ["u-1"]
        assert at.watch.count_places() == {"u-1": 1}


async def test_only_policies_count_and_bindings_do_not() -> None:
    async with watching() as at:
        await at.server.apply(BINDING_PATH, watched_document("b"))
        await at.watch.read()
        assert at.changed == ["u-1"]
        assert at.watch.count_places() == {}


async def test_a_written_object_is_known_at_once_until_it_is_deleted_or_its_spec_changes() -> None:
    async with watching() as at:
        await at.watch.read()
        version = at.watch.learn("MutatingAdmissionPolicy", await at.server.apply(POLICY_PATH, watched_document("p")))
        assert at.watch.has([version])
        await at.server.apply(POLICY_PATH, watched_document("p", failurePolicy="Fail"))
        await until(lambda: not at.watch.has([version]))
        again = at.watch.learn("MutatingAdmissionPolicy", await at.server.apply(POLICY_PATH, watched_document("p")))
        assert at.watch.has([again])
        assert not at.watch.has([version, again])
        at.server.remove(POLICY_PATH)
        await until(lambda: not at.watch.has([again]))


async def test_an_apiserver_without_policies_is_asked_again() -> None:
    async with watching() as at:
        at.server.serve(SERVED[0])
        assert await at.watch.read() == ""
        assert not at.watch.is_served
        at.server.serve(*SERVED)
        await until(lambda: at.watch.is_served)
        await at.server.apply(BINDING_PATH, watched_document("b"))
        await until(lambda: at.changed == ["u-1"])
        at.server.serve()
        await until(lambda: not at.watch.is_served)


async def test_an_apiserver_that_does_not_serve_them_is_reported_like_a_list() -> None:
    async with watching() as at:
        at.server.serve()
        await at.watch.read()
        assert at.lists == 2


async def test_without_the_right_to_list_the_problem_is_returned() -> None:
    async with watching() as at:
        at.server.lists_refused = True
        assert "forbidden" in await at.watch.read()
        at.server.lists_refused = False
        await until(lambda: at.lists == 2)
        assert await at.watch.read() == ""
