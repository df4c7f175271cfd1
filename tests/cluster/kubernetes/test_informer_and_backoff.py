"""The informer against a scripted apiserver."""

import asyncio
from typing import Any

import pytest

from fleethook.cluster.api_errors import APIError, UnreachableError
from fleethook.cluster.followed_objects import run_in_background
from fleethook.cluster.kubernetes.informer_and_backoff import Informer
from fleethook.cluster.kubernetes.watched_resources import NAMESPACES
from fleethook.cluster.store import Store
from tests.cluster.kubernetes.scripted import (
    END,
    GADGETS,
    KIND,
    NOT_SERVED,
    Script,
    bookmark,
    event,
    gadget,
    gone,
    informing,
    names,
    page,
)
from tests.waiting import NET, settled


async def test_all_pages_are_read_and_objects_get_their_kind() -> None:
    script, store = Script(), Store()
    script.lists.put_nowait(page(10, gadget("a", 3), more="token"))
    script.lists.put_nowait(page(10, gadget("b", 4)))
    async with informing(script, store) as informer:
        await informer.wait_synced()
        assert names(store) == {"a": {}, "b": {}}
        assert store.get("", KIND, "ns", "a")["kind"] == "Gadget"
        assert [asked.get("continue") for asked in script.asked if "watch" not in asked] == [None, "token"]
        await settled(lambda: script.places == ["10"])


async def test_events_change_the_store_and_the_resource_version() -> None:
    script, store = Script(), Store()
    script.lists.put_nowait(page(10, gadget("a", 3), gadget("b", 4)))
    script.put(
        event("MODIFIED", gadget("a", 11, changed=True)), event("DELETED", gadget("b", 12)),
        event("ADDED", gadget("c", 13)), bookmark(20), END,
    )  # fmt: skip
    async with informing(script, store) as informer:
        await settled(lambda: informer.progress.seen == 20)
        assert names(store) == {"a": {"changed": True}, "c": {}}
        await settled(lambda: script.places == ["10", "20"])
        assert informer.relists == 1


async def test_a_broken_watch_continues_from_its_last_resource_version() -> None:
    script, store = Script(), Store()
    script.lists.put_nowait(page(10))
    script.put(event("ADDED", gadget("a", 11)), UnreachableError("cut"))
    async with informing(script, store) as informer:
        await settled(lambda: script.places == ["10", "11"])
        assert informer.state().failing
        script.put(event("ADDED", gadget("b", 12)))
        await settled(lambda: "b" in names(store))
        assert not informer.state().failing
        assert informer.relists == 1


@pytest.mark.parametrize("refusal", [gone(), APIError(410, "Expired", "too old resource version")])
async def test_gone_causes_a_new_list_that_removes_objects(refusal: Any) -> None:
    script, store = Script(), Store()
    script.lists.put_nowait(page(10, gadget("a", 3), gadget("b", 4)))
    script.put(refusal)
    script.lists.put_nowait(page(30, gadget("b", 4), gadget("c", 22)))
    async with informing(script, store) as informer:
        await settled(lambda: informer.relists == 2)
        assert names(store) == {"b": {}, "c": {}}
        await settled(lambda: script.places == ["10", "30"])


async def test_three_refused_watches_cause_a_new_list() -> None:
    """A restored etcd answers each watch with "Too large resource version"."""
    script, store = Script(), Store()
    script.lists.put_nowait(page(1000, gadget("a", 900)))
    refusal = APIError(504, "Timeout", "Too large resource version: 1000, current: 50")
    script.put(refusal, refusal, refusal)
    script.lists.put_nowait(page(50, gadget("a", 40, restored=True)))
    async with informing(script, store) as informer:
        await settled(lambda: informer.relists == 2)
        assert names(store) == {"a": {"restored": True}}
        assert informer.progress.seen == 50
        await settled(lambda: script.places == ["1000", "1000", "1000", "50"])


async def test_pauses_grow_with_each_failure_and_are_spread() -> None:
    script, store = Script(), Store()
    for _ in range(12):
        script.lists.put_nowait(UnreachableError("refused"))
    async with informing(script, store) as informer:
        await settled(lambda: len(script.slept) == 12)
        ceilings = [min(5.0, 0.25 * 2**number) for number in range(12)]
        assert all(0 < slept <= ceiling for slept, ceiling in zip(script.slept, ceilings, strict=True))
        assert len(set(script.slept)) == 12
        assert informer.state() == ("gadgets.example.com", False, "refused", None, True, False, True)
        script.lists.put_nowait(page(1))
        await informer.wait_synced()
        assert not informer.state().failing


async def test_an_unserved_resource_is_synced_without_objects_and_requested_again() -> None:
    script, store = Script(), Store()
    script.lists.put_nowait(NOT_SERVED)
    async with informing(script, store) as informer:
        await informer.wait_synced()
        assert "not served" in informer.state().detail
        await settled(lambda: script.slept == [10.0])
        script.lists.put_nowait(page(5, gadget("a", 3)))
        await settled(lambda: names(store))
        await settled(lambda: informer.state().detail == "")


async def test_a_new_definition_causes_a_request_at_once_and_short_pauses() -> None:
    """An apiserver serves a resource some time after its definition was stored."""
    script, store = Script(), Store()
    endless: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def sleep(seconds: float) -> None:
        script.slept.append(seconds)
        await (endless if seconds == 10.0 else asyncio.sleep(0))

    informer = Informer(GADGETS, script, store, sleep=sleep)
    script.lists.put_nowait(NOT_SERVED)
    async with run_in_background(informer.run(), name="informer", ended=pytest.fail):
        await settled(lambda: script.slept == [10.0])
        for _ in range(3):
            script.lists.put_nowait(NOT_SERVED)
        informer.ask_again()
        await settled(lambda: script.slept == [10.0, 0.1, 0.2, 0.4])
        script.lists.put_nowait(page(5, gadget("a", 3)))
        await settled(lambda: names(store))


@pytest.mark.parametrize(
    ("error", "refused"),
    [
        (APIError(500, "InternalError", "conversion webhook failed"), True),
        (APIError(429, "TooManyRequests", "storage is (re)initializing"), True),
        (APIError(403, "Forbidden", "cannot list"), False),
        (UnreachableError("refused"), False),
    ],
)
async def test_repeated_server_errors_are_reported_as_refused(error: Exception, *, refused: bool) -> None:
    script = Script()
    async with informing(script, Store()) as informer:
        for count in (1, 2, 3):
            assert not informer.state().refused
            script.lists.put_nowait(error)
            await settled(lambda count=count: len(script.slept) == count)
        await asyncio.wait_for(informer.wait_tried(), 5)
        assert informer.state().refused == refused
        script.lists.put_nowait(page(1))
        await informer.wait_synced()
        assert not informer.state().refused


async def test_an_expired_continue_token_restarts_the_list() -> None:
    script, store = Script(), Store()
    script.lists.put_nowait(page(10, gadget("a", 3), more="token"))
    script.lists.put_nowait(APIError(410, "Expired", "The provided continue parameter is too old"))
    script.lists.put_nowait(page(20, gadget("b", 15)))
    async with informing(script, store) as informer:
        await informer.wait_synced()
        assert names(store) == {"b": {}}


async def test_an_undecodable_event_does_not_end_the_informer() -> None:
    script, store = Script(), Store()
    script.lists.put_nowait(page(10))
    script.put({"no": "type"})
    async with informing(script, store) as informer:
        await settled(lambda: informer.state().failing)
        script.put(event("ADDED", gadget("a", 11)))
        await settled(lambda: names(store))


async def test_waiters_wake_when_their_version_is_reached() -> None:
    script, store = Script(), Store()
    script.lists.put_nowait(page(10))
    async with informing(script, store) as informer:
        await informer.wait_synced()
        await asyncio.wait_for(informer.progress.wait_for(10), NET)
        late, early = (asyncio.create_task(informer.progress.wait_for(version)) for version in (15, 12))
        script.put(bookmark(12))
        await settled(early.done)
        assert not late.done()
        script.put(event("ADDED", gadget("a", 16)))
        await settled(late.done)


async def test_a_built_in_kind_that_is_not_served_is_a_fault_and_its_objects_stay() -> None:
    """kube-apiserver always serves Namespaces, so a 404 comes from another server, or another path."""
    script, store = Script(), Store()
    unserved = NOT_SERVED
    script.lists.put_nowait(unserved)
    script.lists.put_nowait(page(10, gadget("a", 3)))
    script.put(gone())
    script.lists.put_nowait(unserved)
    informer = Informer(NAMESPACES, script, store, sleep=script.sleep, absent_seconds=0.01)
    async with run_in_background(informer.run(), name="informer", ended=lambda _: None):
        await settled(lambda: informer.unserved)
        assert (informer.synced, informer.absent) == (False, False)
        assert informer.state().refused  # so that a Service keeps the replica for requests that need other kinds
        assert "does not serve it at /api/v1/namespaces (404: 404 page not found)" in informer.state().detail
        await settled(lambda: informer.relists == 1 and informer.unserved)
        assert informer.state().failing
        assert [key.name for key in store.keys(NAMESPACES.group_kind)] == ["a"]
