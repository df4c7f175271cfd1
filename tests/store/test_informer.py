"""The informer against a scripted apiserver: each answer is in the test's hands."""

import asyncio
from typing import Any

import pytest

from app.kube.errors import APIError, UnreachableError
from app.lifetime import running
from app.store import Store
from app.store.sources.kubernetes.informer import Informer
from app.store.sources.kubernetes.resources import decode_object
from tests.store.scripted import (
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


async def test_pages_are_read_to_the_end_and_objects_know_their_kind() -> None:
    script, store = Script(), Store()
    script.lists.put_nowait(page(10, gadget("a", 3), more="token"))
    script.lists.put_nowait(page(10, gadget("b", 4)))
    async with informing(script, store) as informer:
        await informer.wait_synced()
        assert names(store) == {"a": {}, "b": {}}
        assert store.get("", KIND, "ns", "a")["kind"] == "Gadget"
        assert [asked.get("continue") for asked in script.asked if "watch" not in asked] == [None, "token"]
        await settled(lambda: script.places == ["10"])


async def test_the_first_list_is_decoded_as_far_as_it_matters_and_later_ones_whole() -> None:
    decoded: list[tuple[str, str]] = []

    def noting(how: str) -> Any:
        def decode(text: Any) -> dict[str, Any]:
            document = decode_object(text)
            decoded.append((how, document["metadata"]["name"]))
            return document

        return decode

    script, store = Script(), Store()
    resource = GADGETS._replace(decode=noting("whole"), decode_first=noting("first"))
    informer = Informer(resource, script, store, sleep=script.sleep)
    script.lists.put_nowait(page(10, gadget("a", 3)))
    script.put(event("MODIFIED", gadget("a", 11)), gone())
    script.lists.put_nowait(page(30, gadget("b", 22)))
    async with running(informer.run(), name="informer", ended=lambda _: None):
        await settled(lambda: informer.relists == 2)
    assert decoded == [("first", "a"), ("whole", "a"), ("whole", "b")]


async def test_events_change_the_store_and_move_the_place() -> None:
    script, store = Script(), Store()
    script.lists.put_nowait(page(10, gadget("a", 3), gadget("b", 4)))
    script.put(
        event("MODIFIED", gadget("a", 11, changed=True)), event("DELETED", gadget("b", 12)),
        event("ADDED", gadget("c", 13)), bookmark(20), END,
    )  # fmt: skip
    async with informing(script, store) as informer:
        await settled(lambda: informer.progress == 20)
        assert names(store) == {"a": {"changed": True}, "c": {}}
        await settled(lambda: script.places == ["10", "20"])
        assert informer.relists == 1


async def test_a_stream_that_is_cut_goes_on_where_it_was() -> None:
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
async def test_gone_lists_again_and_finds_deletions(refusal: Any) -> None:
    script, store = Script(), Store()
    script.lists.put_nowait(page(10, gadget("a", 3), gadget("b", 4)))
    script.put(refusal)
    script.lists.put_nowait(page(30, gadget("b", 4), gadget("c", 22)))
    async with informing(script, store) as informer:
        await settled(lambda: informer.relists == 2)
        assert names(store) == {"b": {}, "c": {}}
        await settled(lambda: script.places == ["10", "30"])


async def test_a_server_that_never_continues_is_listed_again_after_three_refusals() -> None:
    """An etcd that was restored knows nothing of our place: "Too large resource version" for ever."""
    script, store = Script(), Store()
    script.lists.put_nowait(page(1000, gadget("a", 900)))
    refusal = APIError(504, "Timeout", "Too large resource version: 1000, current: 50")
    script.put(refusal, refusal, refusal)
    script.lists.put_nowait(page(50, gadget("a", 40, restored=True)))
    async with informing(script, store) as informer:
        await settled(lambda: informer.relists == 2)
        assert names(store) == {"a": {"restored": True}}
        assert informer.progress == 50
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


async def test_a_stream_that_ends_at_once_again_and_again_is_not_asked_for_in_a_loop() -> None:
    script, store = Script(), Store()
    script.lists.put_nowait(page(10))
    script.put(END, END, END)
    async with informing(script, store):
        await settled(lambda: len(script.places) == 4)
        assert len(script.slept) == 3


async def test_a_resource_that_is_not_served_is_synced_empty_and_asked_for_again() -> None:
    script, store = Script(), Store()
    script.lists.put_nowait(APIError(404, "NotFound", "the server could not find the requested resource"))
    async with informing(script, store) as informer:
        await informer.wait_synced()
        assert "not served" in informer.state().detail
        await settled(lambda: script.slept == [10.0])
        script.lists.put_nowait(page(5, gadget("a", 3)))
        await settled(lambda: names(store))
        await settled(lambda: informer.state().detail == "")


async def test_a_resource_that_was_just_defined_is_asked_for_at_once_and_soon_again() -> None:
    """An apiserver serves it a moment after its definition was stored, and nobody says when."""
    script, store = Script(), Store()
    endless: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def sleep(seconds: float) -> None:
        script.slept.append(seconds)
        await (endless if seconds == 10.0 else asyncio.sleep(0))

    informer = Informer(GADGETS, script, store, sleep=sleep)
    script.lists.put_nowait(NOT_SERVED)
    async with running(informer.run(), name="informer", ended=pytest.fail):
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
async def test_a_list_that_the_server_refuses_again_and_again_is_told_from_one_that_we_cannot_read(
    error: Exception, *, refused: bool
) -> None:
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


async def test_a_list_that_expires_half_read_starts_over() -> None:
    script, store = Script(), Store()
    script.lists.put_nowait(page(10, gadget("a", 3), more="token"))
    script.lists.put_nowait(APIError(410, "Expired", "The provided continue parameter is too old"))
    script.lists.put_nowait(page(20, gadget("b", 15)))
    async with informing(script, store) as informer:
        await informer.wait_synced()
        assert names(store) == {"b": {}}


async def test_what_is_not_json_does_not_end_it() -> None:
    script, store = Script(), Store()
    script.lists.put_nowait(page(10))
    script.put({"no": "type"})
    async with informing(script, store) as informer:
        await settled(lambda: informer.state().failing)
        script.put(event("ADDED", gadget("a", 11)))
        await settled(lambda: names(store))


async def test_waiters_are_woken_when_their_version_is_reached_and_not_before() -> None:
    script, store = Script(), Store()
    script.lists.put_nowait(page(10))
    async with informing(script, store) as informer:
        await informer.wait_synced()
        await asyncio.wait_for(informer.wait_for(10), NET)
        late, early = (asyncio.create_task(informer.wait_for(version)) for version in (15, 12))
        script.put(bookmark(12))
        await settled(early.done)
        assert not late.done()
        script.put(event("ADDED", gadget("a", 16)))
        await settled(late.done)
