"""Tests of the requests about single workloads, against an apiserver in memory, and of the pauses between writes."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleethook.cluster.api_errors import APIError, UnreachableError
from fleethook.cluster.store import ObjectKey, key_of
from fleethook.engines.overrider.controller.workload_writes_and_retries import Backoff, RequiredVersions
from fleethook.model.gvk import GroupKind
from tests.apiserver_rules import unserved
from tests.builders import entry, image
from tests.engines.overrider.running import Fleet

SEEN = RequiredVersions("7", "8")
TO_2 = [image("nginx", "nginx:2.0")]


def key_in(fleet: Fleet) -> Any:
    return key_of(fleet.server[fleet.path()])


async def test_a_touch_names_the_versions_of_its_inputs_and_is_counted() -> None:
    fleet = Fleet()
    fleet.subject()
    async with fleet.leader() as controller:
        client, key, before = controller.workloads.client, key_in(fleet), fleet.server[fleet.path()]
        running: list[bool] = []
        fleet.server.after.append(lambda document: running.append(client.is_writing(key)) or document)
        fleet.server.webhook = False
        stored = await client.touch(key, seen=SEEN)
        assert stored == fleet.server[fleet.path()]
        assert stored["metadata"]["annotations"]["LastOverrideTime"].split()[1:] == ["overrider@7", "subject@8"]
        assert (stored["spec"], running, client.is_writing(key)) == (before["spec"], [True], False)
        assert client.touched == 1
        # The webhook removes the trigger.
        fleet.server.webhook = True
        await fleet.wait(1)
        assert "LastOverrideTime" not in (await client.touch(key, seen=SEEN))["metadata"]["annotations"]


async def test_touches_keep_the_rate() -> None:
    fleet = Fleet()
    fleet.subject(pools=tuple(f"pool-{number}" for number in range(100)))
    async with fleet.leader():
        fleet.override(entry("*", items=TO_2))
        await fleet.wait(1)
        assert 45 <= sum(fleet.server.writes.values()) <= 55


async def test_a_refused_touch_is_not_counted_and_not_running_afterwards() -> None:
    fleet = Fleet()
    fleet.subject()
    async with fleet.leader() as controller:
        client, key = controller.workloads.client, key_in(fleet)
        fleet.server.refuse = lambda method, _path: APIError(403, "", "no") if method == "PATCH" else None
        with pytest.raises(APIError, match="no"):
            await client.touch(key, seen=SEEN)
        assert (client.touched, client.is_writing(key)) == (0, False)


async def test_all_workloads_are_read_although_a_resource_is_not_served() -> None:
    fleet = Fleet()
    fleet.subject(pools=("hangzhou", "beijing"))
    async with fleet.leader() as controller:
        client = controller.workloads.client

        def refuse(_method: str, path: str) -> APIError | None:
            return unserved(path) if path.endswith("/statefulsets") else None

        fleet.server.refuse = refuse
        found = [document["metadata"]["name"] async for _, document in client.read_all()]
        assert sorted(found) == ["demo-beijing-x", "demo-hangzhou-x"]
        fleet.server.refuse = lambda _method, _path: APIError(403, "", "no")
        with pytest.raises(APIError, match="no"):
            _ = [key async for key, _ in client.read_all()]


DEPLOYMENT = GroupKind("apps", "Deployment")
ONE = ObjectKey("", DEPLOYMENT, "default", "one")


def backoff(jitter: float = 1.0) -> Backoff:
    return Backoff(longest=600.0, jitter=lambda: jitter)


def write_repeatedly(made: Backoff, until: float, *, digest: str = "d", start: float = 0.0) -> list[float]:
    """Write repeatedly as soon as the backoff allows it; return the times of the writes."""
    times, now = [], start
    while now <= until:
        now = made.due(ONE, digest, now)
        if now <= until:
            made.wrote(ONE, digest, now)
            made.ended(ONE, "conflict")
            times.append(now)
    return times


def test_a_permanent_conflict_has_growing_pauses() -> None:
    assert write_repeatedly(backoff(), 3000) == [0, 2, 8, 26, 80, 242, 728, 1328, 1928, 2528]


@pytest.mark.parametrize("jitter", [0.8, 1.2])
def test_the_first_minute_has_four_writes_with_any_jitter(jitter: float) -> None:
    assert len(write_repeatedly(backoff(jitter), 60)) == 4


@given(st.lists(st.floats(0.0, 5.0), min_size=60, max_size=60))
def test_no_order_of_events_causes_more_writes(events: list[float]) -> None:
    """Each event of any client asks whether the workload may be written."""
    made, now, writes = backoff(0.8), 0.0, 0
    for pause in events:
        now += pause
        if now > 60:
            break
        if made.due(ONE, "d", now) <= now:
            made.wrote(ONE, "d", now)
            made.ended(ONE, "")
            writes += 1
    assert writes <= 5


def test_another_hash_is_written_at_once_and_resets_the_backoff() -> None:
    made = backoff()
    write_repeatedly(made, 60)
    assert made.due(ONE, "other", 60) == 60
    made.wrote(ONE, "other", 60)
    assert made.due(ONE, "other", 60) == 62


def test_a_long_time_without_a_write_resets_the_backoff() -> None:
    made = backoff()
    made.wrote(ONE, "d", 0)
    assert made.due(ONE, "d", 121) == 121
    made.wrote(ONE, "d", 121)
    assert made.due(ONE, "d", 121) == 123


def test_the_pause_of_an_outage_is_at_most_a_minute() -> None:
    made, now = backoff(), 0.0
    for _ in range(10):
        now = made.due(ONE, "d", now)
        made.wrote(ONE, "d", now)
        made.ended(ONE, "no answer", outage=True)
    assert made.due(ONE, "d", now) == now + 60


@pytest.mark.parametrize(
    ("error", "problem", "pause"),
    [
        (APIError(403, "Forbidden", "no"), "the write failed: 403 Forbidden: no", 162),
        (APIError(429, "TooManyRequests", "slow"), "the write failed: 429 TooManyRequests: slow", 60),
        (APIError(500, "InternalError", "away"), "the write failed: 500 InternalError: away", 60),
        (UnreachableError("no answer"), "no answer", 60),
    ],
)
def test_only_an_outage_shortens_the_pause_after_a_failed_write(
    error: APIError | UnreachableError, problem: str, pause: float
) -> None:
    made = backoff()
    for _ in range(5):
        made.wrote(ONE, "d", 0)
    assert made.failed(ONE, "d", error, 1) == problem
    assert (made.problem(ONE, "d", 1), made.due(ONE, "d", 1)) == (problem, pause)


def test_a_failed_read_before_a_write_counts_as_a_write() -> None:
    made = backoff()
    made.failed(ONE, "d", APIError(403, "Forbidden", "no"), 7)
    assert made.due(ONE, "d", 7) == 9


def test_a_failed_read_for_another_hash_counts_as_its_write() -> None:
    made = backoff()
    write_repeatedly(made, 60)
    made.failed(ONE, "other", APIError(403, "Forbidden", "no"), 61)
    assert (made.due(ONE, "other", 61), made.problem(ONE, "d", 61)) == (63, "")


def test_a_problem_is_remembered_until_a_long_time_without_a_write() -> None:
    made = backoff()
    made.wrote(ONE, "d", 0)
    made.ended(ONE, "changed back")
    made.wrote(ONE, "d", 2)
    assert (made.problem(ONE, "d", 2), made.problem(ONE, "other", 2)) == ("changed back", "")
    made.prune(100)
    assert len(made) == 1
    made.prune(1000)
    assert (len(made), made.problem(ONE, "d", 1000)) == (0, "")


def test_a_deleted_workload_has_no_backoff() -> None:
    made = backoff()
    made.wrote(ONE, "d", 0)
    made.forget(ONE)
    assert len(made) == 0
