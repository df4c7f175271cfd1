"""The state of a subject with thousands of node pools is collected in slices, with pauses for reviews."""

from datetime import UTC, datetime
from typing import Any, cast

from fleethook.engines.overrider.controller.subject_state import collect_state
from fleethook.engines.overrider.controller.workloads import Workloads
from fleethook.engines.overrider.plan.plan_cache import PlanCache
from fleethook.engines.overrider.subject.owner_index import Binding
from fleethook.model.gvk import GroupKind
from fleethook.model.openyurt import YURT_APP_SET
from fleethook.work.pausing import Work
from fleethook.work.turns import Turns
from tests.builders import overrider, pool, store_of, workload, yurt_app_set
from tests.engines.overrider.running import Fleet

BINDING = Binding("", YURT_APP_SET, "default", "demo")
COUNT = 2_000


def run(work: Work[Any]) -> tuple[Any, int]:
    """Return the result of sliced work and the number of its pauses."""
    pauses = 0
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value, pauses
        pauses += 1


def test_collecting_many_workloads_pauses_and_finds_all_of_them() -> None:
    names = [f"p{number}" for number in range(COUNT)]
    store = store_of(yurt_app_set(pools=[pool(name) for name in names]), overrider())
    workloads = Workloads(
        cast("Any", None), store, PlanCache(), turns=Turns(), per_second=50.0,
        every_cluster=False, now=lambda: datetime.now(UTC), scheduler=Fleet().clock,
    )  # fmt: skip
    for name in names[1:]:
        made = workload(pool=name)
        made["metadata"] |= {"uid": name, "resourceVersion": "7"}
        workloads.source.informer(GroupKind("apps", "Deployment")).learn(made)
    at, pauses = run(collect_state(BINDING, store=store, workloads=workloads))
    assert len(at.keys) == COUNT - 1
    assert at.missing == ("p0",)
    assert pauses >= COUNT // 500
