"""Plans are compiled ahead of the first review: in slices, within a budget, and again after a change."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from fleethook.engines.overrider.plan import plan_warmup
from fleethook.engines.overrider.plan.plan_cache import DEFAULT_CACHE_BYTES, PlanCache
from fleethook.engines.overrider.plan.plan_warmup import PlanWarmup
from fleethook.work.turns import Turns
from tests.builders import (
    API,
    entry,
    image,
    mutate_workload,
    node_pool,
    overrider,
    owner,
    pool,
    request,
    store_of,
    workload,
    yurt_app_daemon,
    yurt_app_set,
)
from tests.waiting import until

POOLS = ("hangzhou", "beijing", "shanghai")


def rule(name: str, tag: str = "2.0", kind: str = "YurtAppSet") -> dict[str, Any]:
    subject = {"apiVersion": API, "kind": kind, "name": name}
    return overrider(entry("*", items=[image("nginx", f"nginx:{tag}")]), name=f"rule-{name}", subject=subject)


class World:
    """A store with the warm-up of its plans."""

    def __init__(self, *, max_bytes: int = DEFAULT_CACHE_BYTES) -> None:
        self.store, self.plans = store_of(), PlanCache()
        self.warmup = PlanWarmup(self.store, self.plans, Turns(), max_bytes=max_bytes)

    def add(self, name: str, pools: Sequence[str] = POOLS) -> None:
        for document in (rule(name), yurt_app_set(name, [pool(one) for one in pools])):
            self.store.put(document)

    def review(self, name: str, in_pool: str, kind: str = "YurtAppSet") -> int:
        """Review a workload, and return the number of plans that the review compiles."""
        before = self.plans.compiled
        new = request(workload(pool=in_pool, owners=[owner(kind, name)]))
        assert mutate_workload(new, store=self.store, plans=self.plans).patch
        return self.plans.compiled - before

    @contextlib.asynccontextmanager
    async def following(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.warmup.follow())
        yield
        task.cancel()
        await asyncio.wait([task])


async def test_first_reviews_compile_nothing() -> None:
    world = World()
    world.add("demo")
    pools = (node_pool(one, {"region": "east"}) for one in POOLS)
    for document in (yurt_app_daemon("agent"), rule("agent", kind="YurtAppDaemon"), *pools):
        world.store.put(document)
    await world.warmup.prepare()
    for name, kind in (("demo", "YurtAppSet"), ("agent", "YurtAppDaemon")):
        assert [world.review(name, one, kind) for one in POOLS] == [0, 0, 0]


async def test_subjects_with_most_pools_come_first_and_the_others_after_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(plan_warmup, "MAX_PLANS_BEFORE_READY", 1)
    world = World()
    world.add("small", POOLS[:1])
    world.add("large")
    world.add("middle", POOLS[:2])
    await world.warmup.prepare()
    assert world.plans.compiled == 1
    assert world.review("large", POOLS[2]) == 0
    async with world.following():
        await until(lambda: world.plans.compiled == 3)
        assert world.review("small", POOLS[0]) == 0


async def test_an_edit_is_compiled_before_its_first_review() -> None:
    world = World()
    world.add("demo")
    await world.warmup.prepare()
    async with world.following():
        world.store.put({**rule("demo"), "status": {"summary": "3/3"}})
        world.store.put(rule("demo", "3.0"))
        await until(lambda: world.plans.compiled == 2)
        assert world.review("demo", POOLS[0]) == 0
        world.store.put(yurt_app_set("demo", [pool(one) for one in POOLS], minReadySeconds=5))
        await until(lambda: world.plans.compiled == 3)
        assert world.review("demo", POOLS[0]) == 0


async def test_requests_are_answered_between_slices() -> None:
    world, turns = World(), 0
    for number in range(5):
        world.add(f"demo-{number}")
    work = asyncio.create_task(world.warmup.prepare())
    while not work.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns > 3 * world.plans.compiled == 15


async def test_a_full_cache_is_left_to_reviews() -> None:
    world = World(max_bytes=0)
    world.add("demo")
    await world.warmup.prepare()
    assert world.warmup.is_ready
    assert world.plans.compiled == 0


async def test_a_subject_that_cannot_be_compiled_holds_up_no_other(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    prepare = PlanCache.prepare

    def fail(self: PlanCache, group_kind: Any, subject: Any, *rest: Any, **named: Any) -> Any:
        if subject["metadata"]["name"] == "broken":
            raise ZeroDivisionError
        return prepare(self, group_kind, subject, *rest, **named)

    monkeypatch.setattr(PlanCache, "prepare", fail)
    world = World()
    world.add("broken")
    world.add("demo", POOLS[:1])
    with caplog.at_level(logging.ERROR):
        await world.warmup.prepare()
    assert "broken" in caplog.text
    assert world.review("demo", POOLS[0]) == 0
