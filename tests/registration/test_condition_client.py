"""The match condition of the workload webhooks, against an apiserver in memory."""

from typing import Any

import pytest

from app.kube.errors import APIError
from app.registration.condition_client import ConditionClient, Registered
from app.registration.match_conditions import bound_condition
from app.registration.webhooks import SELECTED
from tests.registration.apiserver import DEMO, NEW, OTHER, Server, configuration


def client(server: Server) -> ConditionClient:
    return ConditionClient(server)  # type: ignore[arg-type]


async def test_the_conditions_of_the_workload_webhooks_are_read() -> None:
    server = Server(configuration())
    server.add(DEMO)
    registered = await client(server).read()
    assert registered is not None
    assert registered.conditions == dict.fromkeys(SELECTED, bound_condition({DEMO}))
    assert registered.expression == bound_condition({DEMO})["expression"]
    assert (registered.resource_version, registered.announcements) == ("2", ())


@pytest.mark.parametrize("present", [None, {}, {"webhooks": [{"name": "other.example.org"}]}])
async def test_without_workload_webhooks_nothing_is_registered(present: Any) -> None:
    assert await client(Server(present)).read() is None


def test_one_webhook_without_a_condition_means_no_expression() -> None:
    condition = bound_condition({DEMO})
    assert Registered("1", {"a": condition, "b": None}).expression is None
    assert Registered("1", {}).expression is None


async def test_a_write_sets_condition_and_announcements() -> None:
    server = Server(configuration())
    registered = await client(server).read()
    assert registered is not None
    version = await client(server).write(registered, bound_condition({OTHER}), announcements=[NEW])
    assert (server.listed(), server.announced(), version) == ({OTHER}, (NEW,), "2")


async def test_a_write_of_announcements_keeps_the_condition() -> None:
    server = Server(configuration())
    server.add(DEMO)
    registered = await client(server).read()
    assert registered is not None
    await client(server).write_announcements(registered, [NEW])
    assert (server.listed(), server.announced()) == ({DEMO}, (NEW,))


async def test_a_changed_configuration_is_a_conflict() -> None:
    server = Server(configuration())
    registered = await client(server).read()
    assert registered is not None
    server.add(OTHER)
    with pytest.raises(APIError) as raised:
        await client(server).write(registered, bound_condition({DEMO}))
    assert raised.value.code == 409
    assert server.listed() == {OTHER}
