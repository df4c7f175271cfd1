"""The size of the pages of a list."""

import asyncio

from fleethook.cluster.kubernetes.informer import Informer
from fleethook.cluster.kubernetes.paging import MAX_OBJECTS, PageSize
from fleethook.cluster.store import Store
from tests.cluster.kubernetes.scripted import GADGETS, Script, gadget, page
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
