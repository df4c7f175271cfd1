"""Events about invalid customizations."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any, cast

from fleethook.cluster.connection import Connection
from fleethook.cluster.events import Recorder
from fleethook.cluster.store import Store
from fleethook.cluster.store.store import key_of
from fleethook.engines.interpret.lua.customizations import Customizations
from fleethook.engines.interpret.lua.refusal_events import REASON, record_refusals
from tests.cluster.object_server import ObjectServer
from tests.engines.interpret.lua.customization_objects import config_map, customization

BAD = customization("foo", healthInterpretation="function InterpretHealth(")
OTHER = customization("foo", healthInterpretation="function Other() end")
GOOD = customization("foo", healthInterpretation="function InterpretHealth(o) return true end")


def list_events(server: ObjectServer) -> list[tuple[str, str, str]]:
    return [(one["reason"], one["involvedObject"]["name"], one["message"]) for one in server.objects.values()]


async def settle() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


@contextlib.asynccontextmanager
async def recording(store: Store) -> AsyncIterator[ObjectServer]:
    events = ObjectServer()
    customizations = Customizations(store, namespace="karmada-system")
    now = datetime(2026, 6, 1, tzinfo=UTC)
    recorder = Recorder(cast("Connection", events), component="fleethook", now=lambda: now)
    task = asyncio.create_task(record_refusals(customizations, recorder))
    try:
        await settle()
        yield events
    finally:
        task.cancel()
        await asyncio.wait([task])


async def change(store: Store, document: Any) -> None:
    store.put(document)
    await settle()


async def test_an_invalid_customization_gets_one_event_for_each_problem() -> None:
    store = Store()
    async with recording(store) as events:
        await change(store, GOOD)
        assert list_events(events) == []
        await change(store, BAD)
        ((reason, name, message),) = list_events(events)
        assert (reason, name) == (REASON, "foo")
        assert "its last valid version stays in use" in message
        await change(store, config_map("{", namespace="karmada-system"))
        await change(store, OTHER)
        assert [name for _, name, _ in list_events(events)] == ["foo", "karmada-config", "foo"]
        assert [method for method, _ in events.requests] == ["POST"] * 3


async def test_a_problem_that_comes_back_is_an_event_again() -> None:
    store = Store()
    async with recording(store) as events:
        await change(store, BAD)
        store.remove(key_of(BAD))
        await settle()
        await change(store, BAD)
        assert [method for method, _ in events.requests] == ["POST", "PATCH"]
