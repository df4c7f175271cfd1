"""The match condition of the workload webhooks, against an apiserver in memory."""

from typing import Any

import pytest

from fleethook.cluster.api_errors import APIError
from fleethook.cluster.registration.condition_client import ConditionClient
from fleethook.cluster.registration.match_conditions import Selection
from fleethook.cluster.registration.webhooks import list_selected, select_workloads
from tests.cluster.registration.apiserver import DEMO, NEW, OTHER, Server, configuration


def client(server: Server) -> ConditionClient:
    return ConditionClient(server)  # type: ignore[arg-type]


def closed(*subjects: Any) -> Selection:
    return Selection(frozenset(subjects))


async def test_the_conditions_of_the_workload_webhooks_are_read() -> None:
    server = Server(configuration())
    server.add(DEMO)
    registered = await client(server).read()
    assert registered is not None
    assert registered.selecting == select_workloads(list_selected(), closed(DEMO))
    assert (registered.listed, registered.names) == (closed(DEMO), frozenset(list_selected()))
    assert (registered.resource_version, registered.announcements) == ("2", ())
    assert registered.selects(closed(DEMO))
    assert not registered.selects(closed(DEMO, OTHER))


async def test_a_webhook_with_other_rules_selects_nothing_of_ours() -> None:
    server = Server(configuration())
    server.add(DEMO)
    assert server.present is not None
    next(one for one in server.present["webhooks"] if "rules" in one)["rules"] = []
    registered = await client(server).read()
    assert registered is not None
    assert not registered.selects(closed(DEMO))


@pytest.mark.parametrize("present", [None, {}, {"webhooks": [{"name": "other.example.org"}]}])
async def test_without_workload_webhooks_nothing_is_registered(present: Any) -> None:
    assert await client(Server(present)).read() is None


async def test_before_the_first_leader_no_subject_is_listed() -> None:
    registered = await client(Server(configuration())).read()
    assert registered is not None
    assert registered.listed is None


async def test_a_write_sets_conditions_and_announcements() -> None:
    server = Server(configuration())
    registered = await client(server).read()
    assert registered is not None
    version = await client(server).write(registered, closed(OTHER), announcements=[NEW])
    assert (server.listed(), server.announced(), version) == ({OTHER}, (NEW,), "3")


async def test_a_changed_configuration_is_a_conflict() -> None:
    server = Server(configuration())
    registered = await client(server).read()
    assert registered is not None
    server.add(OTHER)
    with pytest.raises(APIError) as raised:
        await client(server).write(registered, closed(DEMO))
    assert raised.value.code == 409
    assert server.listed() == {OTHER}
