"""Tests of the requests about single workloads, against an apiserver in memory."""

from typing import Any

import pytest

from fleethook.cluster.api_errors import APIError
from fleethook.cluster.store import key_of
from fleethook.engines.overrider.controller.workload_client import RequiredVersions
from fleethook.engines.overrider.subject.owner_index import Binding
from fleethook.model.openyurt import YURT_APP_SET
from tests.apiserver_rules import unserved
from tests.builders import entry, image
from tests.engines.overrider.running import Fleet

LANE = Binding("", YURT_APP_SET, "default", "demo")
SEEN = RequiredVersions("7", "8")
REPLICAS = [{"op": "replace", "path": "/spec/replicas", "value": 9}]

TO_2 = [image("nginx", "nginx:2.0")]


async def test_a_write_names_the_versions_of_its_inputs() -> None:
    fleet = Fleet()
    subject = fleet.subject()
    async with fleet.leader():
        rule = fleet.override(entry("*", items=TO_2))
        versions = [fleet.server[path]["metadata"]["resourceVersion"] for path in (rule, subject)]
        await fleet.wait_for(lambda: fleet.image() == "nginx:2.0")
        text = fleet.server[fleet.path()]["metadata"]["annotations"]["LastOverrideTime"]
        assert text.split()[1:] == [f"overrider@{versions[0]}", f"subject@{versions[1]}"]
        fleet.server.delete(rule)
        await fleet.wait_for(lambda: fleet.image() == "nginx:1.0")
        text = fleet.server[fleet.path()]["metadata"]["annotations"]["LastOverrideTime"]
        assert int(text.split()[1].removeprefix("overrider@")) > int(versions[0])


def key_in(fleet: Fleet) -> Any:
    return key_of(fleet.server[fleet.path()])


async def test_a_touch_changes_nothing_but_the_trigger_and_is_counted() -> None:
    fleet = Fleet()
    fleet.subject()
    async with fleet.leader() as controller:
        client, key, before = controller.workloads.client, key_in(fleet), fleet.server[fleet.path()]
        running: list[str | None] = []
        fleet.server.after.append(lambda document: running.append(client.writing(key)) or document)
        await client.touch(key, seen=SEEN, lane=LANE)
        after = fleet.server[fleet.path()]
        trigger = after["metadata"]["annotations"].pop("LastOverrideTime")
        assert trigger.split()[1:] == ["overrider@7", "subject@8"]
        assert (after["spec"], running, client.writing(key)) == (before["spec"], [trigger], None)
        assert client.touched == 1


async def test_a_refused_touch_is_not_counted_and_not_running_afterwards() -> None:
    fleet = Fleet()
    fleet.subject()
    async with fleet.leader() as controller:
        client, key = controller.workloads.client, key_in(fleet)
        fleet.server.refuse = lambda method, _path, _dry: APIError(403, "", "no") if method == "PATCH" else None
        with pytest.raises(APIError, match="no"):
            await client.touch(key, seen=SEEN, lane=LANE)
        assert (client.touched, client.writing(key)) == (0, None)


async def test_a_dry_run_returns_the_changed_workload_and_stores_nothing() -> None:
    fleet = Fleet()
    fleet.subject()
    async with fleet.leader() as controller:
        client, key = controller.workloads.client, key_in(fleet)
        document = await client.read(key)
        answer = await client.dry_run(key, document, REPLICAS, lane=LANE)
        assert answer["spec"]["replicas"] == 9
        assert fleet.server[fleet.path()]["spec"]["replicas"] != 9
        assert (await client.read(key))["spec"] == document["spec"]
        assert client.touched == 0


async def test_a_dry_run_of_a_workload_that_changed_since_is_a_conflict() -> None:
    fleet = Fleet()
    fleet.subject()
    async with fleet.leader() as controller:
        client, key = controller.workloads.client, key_in(fleet)
        document = await client.read(key)
        fleet.server.edit(fleet.path(), {"metadata": {"labels": {"edited": "yes"}}})
        with pytest.raises(APIError) as caught:
            await client.dry_run(key, document, REPLICAS, lane=LANE)
        assert caught.value.code == 409


async def test_all_workloads_are_read_although_a_resource_is_not_served() -> None:
    fleet = Fleet()
    fleet.subject(pools=("hangzhou", "beijing"))
    async with fleet.leader() as controller:
        client = controller.workloads.client

        def refuse(_method: str, path: str, _dry: bool) -> APIError | None:
            return unserved(path) if path.endswith("/statefulsets") else None

        fleet.server.refuse = refuse
        found = [document["metadata"]["name"] async for _, document in client.read_all()]
        assert sorted(found) == ["demo-beijing-x", "demo-hangzhou-x"]
        fleet.server.refuse = lambda _method, _path, _dry: APIError(403, "", "no")
        with pytest.raises(APIError, match="no"):
            _ = [key async for key, _ in client.read_all()]
