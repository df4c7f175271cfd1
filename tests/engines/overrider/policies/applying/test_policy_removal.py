"""Tests of the order of a removal; tests/e2e/test_policy_removal.py has a real apiserver."""

from typing import Any, cast

import pytest
from tests.engines.overrider.policies.applying.test_policy_client import BINDING, OBJECTS, POLICY

from fleethook.cluster.api_errors import APIError
from fleethook.cluster.connection import Connection
from fleethook.cluster.registration.condition_client import ConditionClient, Registered
from fleethook.cluster.registration.match_conditions import Selection, SubjectName
from fleethook.cluster.registration.webhooks import SELECTED, select_workloads
from fleethook.engines.overrider.policies.policy_client import PolicyClient, path_of, remove_policies
from tests.engines.overrider.policy_server import PolicyServer

DEMO, OTHER = SubjectName("default", "YurtAppSet", "demo"), SubjectName("default", "YurtAppSet", "other")


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
    at = Removing(Selection(frozenset({OTHER}), frozenset({opened}), frozenset({DEMO, opened})))
    done = await at.remove()
    assert at.log == ["condition", "sleep"]
    assert at.conditions.selection == Selection(frozenset({OTHER, DEMO}), frozenset({opened}))
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
