"""Lists against a scripted apiserver, without a watch."""

import asyncio
import gc
import itertools

import pytest

from fleethook.cluster.api_errors import APIError
from fleethook.cluster.kubernetes.informer import Informer
from fleethook.cluster.kubernetes.list_reader import (
    MAX_OBJECTS,
    Lister,
    NotServedError,
    PageSize,
    RelistError,
    identified,
)
from fleethook.cluster.kubernetes.served_versions import unknown_versions
from fleethook.cluster.store import ObjectKey, Store
from tests.cluster.kubernetes.scripted import GADGETS, KIND, NOT_SERVED, Script, gadget, names, page
from tests.waiting import settled


def test_a_page_has_half_a_megabyte_of_objects_like_those_before() -> None:
    size = PageSize()
    first = size.limit
    size.note(objects=0, size=50)
    assert size.limit == first
    size.note(objects=20, size=20 * 13_000)
    assert size.limit == "40"
    size.note(objects=40, size=40 * 2_000_000)
    assert size.limit == "1"
    size.note(objects=1, size=10)
    assert size.limit == str(MAX_OBJECTS)


async def test_the_next_page_is_as_long_as_the_objects_of_the_first_one_allow() -> None:
    script = Script()
    script.lists.put_nowait(page(7, gadget("a", 5, text="x" * 100_000), more="rest"))
    script.lists.put_nowait(page(7, gadget("b", 6)))
    following = asyncio.create_task(Informer(GADGETS, script, Store()).run())
    await settled(lambda: len(script.asked) >= 2)
    following.cancel()
    assert [one["limit"] for one in script.asked[:2]] == ["20", "5"]


async def pause() -> None:
    await asyncio.sleep(0)


def lister(script: Script, store: Store, *older: str) -> Lister:
    resource = GADGETS._replace(older_versions=older)
    return Lister(resource, script, store, prefix="", served=unknown_versions, pause=pause)


async def test_a_list_replaces_all_objects_and_returns_its_resource_version() -> None:
    script, store = Script(), Store()
    reader = lister(script, store)
    script.lists.put_nowait(page(10, gadget("a", 3), gadget("b", 4)))
    assert await reader.read() == "10"
    script.lists.put_nowait(page(20, gadget("b", 4), more="token"))
    script.lists.put_nowait(page(21, gadget("c", 15)))
    assert await reader.read() == "21"
    assert list(names(store)) == ["b", "c"]
    assert [asked.get("continue") for asked in script.asked] == [None, None, "token"]


async def test_a_list_removes_the_objects_of_a_namespace_that_it_lacks() -> None:
    script, store = Script(), Store()
    reader = lister(script, store)
    other = gadget("a", 3)
    other["metadata"]["namespace"] = "other"
    script.lists.put_nowait(page(10, gadget("a", 3), other))
    await reader.read()
    script.lists.put_nowait(page(20, other))
    await reader.read()
    assert store.namespaces(KIND) == [("", "other")]


async def test_a_list_never_holds_the_keys_of_all_objects() -> None:
    """Making or freeing 100,000 keys in one step took 50 ms."""
    script, store = Script(), Store()
    pauses = itertools.count(1)
    alive: list[int] = []

    def count_keys() -> int:
        return sum(type(one) is ObjectKey for one in gc.get_objects())

    async def pause_and_count() -> None:
        # Counting takes long. The last pauses are those of the comparison.
        number = next(pauses)
        if number % 100 == 0 or number > 1_250:
            alive.append(count_keys())

    reader = Lister(GADGETS, script, store, prefix="", served=unknown_versions, pause=pause_and_count)
    documents = [gadget(f"g{number}", number) for number in range(5_000)]
    for _ in range(2):
        script.lists.put_nowait(page(10, *documents))
    await reader.read()
    before = count_keys()
    alive.clear()
    pauses = itertools.count(1)
    await reader.read()
    assert len(alive) > 12
    assert max(alive) - before < 10


async def test_an_expired_continue_token_is_an_error_and_removes_no_object() -> None:
    script, store = Script(), Store()
    reader = lister(script, store)
    script.lists.put_nowait(page(10, gadget("a", 3)))
    await reader.read()
    script.lists.put_nowait(page(20, gadget("b", 4), more="token"))
    script.lists.put_nowait(APIError(410, "Expired", "The provided continue parameter is too old"))
    with pytest.raises(RelistError):
        await reader.read()
    assert list(names(store)) == ["a", "b"]


async def test_the_first_served_version_is_read() -> None:
    script, store = Script(), Store()
    reader = lister(script, store, "v1beta1")
    script.lists.put_nowait(NOT_SERVED)
    script.lists.put_nowait(page(10, gadget("a", 3)))
    assert await reader.read() == "10"
    assert reader.versions.current.version == "v1beta1"


async def test_without_a_served_version_the_list_fails() -> None:
    script = Script()
    for _ in range(2):
        script.lists.put_nowait(NOT_SERVED)
    with pytest.raises(NotServedError):
        await lister(script, Store(), "v1beta1").read()


async def test_other_errors_do_not_try_an_older_version() -> None:
    script = Script()
    script.lists.put_nowait(APIError(403, "Forbidden", "cannot list"))
    with pytest.raises(APIError, match="cannot list"):
        await lister(script, Store(), "v1beta1").read()
    assert len(script.asked) == 1


def test_items_get_the_kind_of_their_list() -> None:
    assert identified({"kind": "Other"}, GADGETS) == {"apiVersion": "example.com/v1", "kind": "Gadget"}
