"""Tests of the requests about single workloads, against an apiserver in memory."""

from typing import Any

import pytest

from fleethook.cluster.api_errors import APIError
from fleethook.cluster.store import key_of
from fleethook.engines.overrider.controller.workload_client import RequiredVersions
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
