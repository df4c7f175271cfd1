"""The state of a subject with thousands of node pools is collected in slices, with pauses for reviews."""

import asyncio
from datetime import UTC, datetime
from typing import Any, cast

from fleethook.engines.overrider.controller.subject_state import collect_state
from fleethook.engines.overrider.controller.workloads import Workloads
from fleethook.engines.overrider.plan.plan_cache import PlanCache
from fleethook.engines.overrider.subject.owner_index import Binding
from fleethook.model.gvk import GroupKind
from fleethook.model.openyurt import YURT_APP_SET
from tests.builders import overrider, pool, store_of, workload, yurt_app_set
from tests.engines.overrider.running import Fleet

BINDING = Binding("", YURT_APP_SET, "default", "demo")
COUNT = 2_000


async def test_collecting_many_workloads_lets_others_in_and_finds_all_of_them() -> None:
    names = [f"p{number}" for number in range(COUNT)]
    store = store_of(yurt_app_set(pools=[pool(name) for name in names]), overrider())
    workloads = Workloads(
        cast("Any", None), store, PlanCache(), per_second=50.0,
        every_cluster=False, now=lambda: datetime.now(UTC), scheduler=Fleet().clock,
    )  # fmt: skip
    for name in names[1:]:
        made = workload(pool=name)
        made["metadata"] |= {"uid": name, "resourceVersion": "7"}
        workloads.source.informer(GroupKind("apps", "Deployment")).learn(made)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    at = await collect_state(BINDING, store=store, workloads=workloads)
    counting.cancel()
    assert len(at.keys) == COUNT - 1
    assert at.missing == ("p0",)
    assert turns >= COUNT // 500 - 1
