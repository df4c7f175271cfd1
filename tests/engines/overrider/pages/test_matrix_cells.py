import asyncio

import pytest

from fleethook.cluster.store import ObjectKey
from fleethook.engines.overrider.pages.matrix import CellState, MatrixQuery
from fleethook.engines.overrider.pages.matrix_cells import OverriderService, ShownCell
from fleethook.engines.overrider.rollout.preview import CellKey
from fleethook.model.json import JSONObject
from fleethook.work.threads_and_gc import Worker
from tests.builders import NEW_IMAGE, pool, workload, yurt_app_set
from tests.engines.overrider.pages.fleet_stores import DEMO, cell_key, make_store


@pytest.mark.parametrize(("changes", "level"), [(0, 0), (1, 1), (2, 2), (3, 2), (4, 3), (9, 3)])
def test_the_heat_grows_with_the_changed_fields(changes: int, level: int) -> None:
    assert ShownCell(CellKey(DEMO, "a", "Deployment"), "", CellState("overridden", changes)).level == level


SET = yurt_app_set()


async def test_workloads_that_cannot_be_read_are_named() -> None:
    async def refuse(_key: ObjectKey) -> JSONObject | None:
        return None

    store = make_store(SET, NEW_IMAGE, workload())
    view = await OverriderService(store, refuse, Worker()).show_cell(cell_key())
    assert view is not None
    assert (view.unread, view.running) == (["demo-hangzhou-x"], set())


async def test_a_cluster_gets_few_requests_at_once() -> None:
    running, most = 0, 0

    async def read(_key: ObjectKey) -> JSONObject | None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return None

    pools = [f"pool-{number}" for number in range(20)]
    subject = yurt_app_set(pools=[pool(name) for name in pools])
    store = make_store(subject, NEW_IMAGE, *(workload(pool=name) for name in pools))
    await OverriderService(store, read, Worker()).show_matrix(MatrixQuery())
    assert most == 10
