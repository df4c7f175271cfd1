import asyncio
import gc
import weakref

from fleethook.cluster.store import freeing
from fleethook.cluster.store.freeing import free_in_slices


class Kept:
    """An object that can be referenced weakly."""


async def test_each_iteration_of_the_event_loop_frees_one_slice() -> None:
    objects = [Kept() for _ in range(2 * freeing._SLICE + 1)]
    alive: weakref.WeakSet[Kept] = weakref.WeakSet(objects)
    gc.disable()
    try:
        left = []
        free_in_slices(objects)
        for _ in range(4):
            left.append(len(alive))
            await asyncio.sleep(0)
    finally:
        gc.enable()
    assert left == [freeing._SLICE + 1, 1, 0, 0]


async def test_an_empty_list_needs_no_iteration() -> None:
    objects: list[Kept] = []
    free_in_slices(objects)
    assert objects == []
