import asyncio
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleethook.cluster.manifests.manifest_source import ManifestSource
from fleethook.cluster.store import ObjectKey
from fleethook.console.context import ConsoleContext
from fleethook.engines.overrider.pages.fleet import CellState
from fleethook.engines.overrider.pages.matrix import Query
from fleethook.engines.overrider.pages.overrider_service import (
    OverriderService,
    ShownCell,
    make_service,
)
from fleethook.engines.overrider.rollout.preview import CellKey
from fleethook.model.json import JSONObject
from fleethook.work.turns import Worker
from tests.builders import NEW_IMAGE, entry, overrider, patch, pool, workload, yurt_app_set
from tests.engines.overrider.pages.fleet_stores import DEMO, cell_key, make_store


@pytest.mark.parametrize(("changes", "level"), [(0, 0), (1, 1), (2, 2), (3, 2), (4, 3), (9, 3)])
def test_the_heat_grows_with_the_changed_fields(changes: int, level: int) -> None:
    assert ShownCell(CellKey(DEMO, "a", "Deployment"), "", CellState("overridden", changes)).level == level


SET = yurt_app_set()


def serve(directory: Path, *objects: dict[str, Any]) -> OverriderService:
    (directory / "now.yaml").write_text(yaml.safe_dump_all(objects))
    store = make_store()
    source = ManifestSource([directory], store)
    source.load()
    return make_service(ConsoleContext(store, source))


async def test_the_query_of_a_view_has_an_existing_page(tmp_path: Path) -> None:
    view = await serve(tmp_path, SET).show_matrix(Query(page=99, columns=99))
    assert (view.query.page, view.query.columns) == (1, 1)


async def test_a_cell_has_its_diff_and_its_overrider(tmp_path: Path) -> None:
    view = await serve(tmp_path, SET, NEW_IMAGE, workload()).show_cell(cell_key())
    assert view is not None
    assert view.diff is not None
    assert [line.source for line in view.diff.lines if line.kind == "changed"] == ["entries[0].items[0]"]
    assert view.overrider is not None
    assert view.overrider.name == "demo1"
    assert view.shown.state is not None
    assert view.shown.state.state == "rolls"


async def test_a_cell_that_cannot_be_rendered_has_the_error(tmp_path: Path) -> None:
    broken = overrider(entry("*", patches=[patch("remove", "/spec/nothing")]))
    view = await serve(tmp_path, SET, broken).show_cell(cell_key())
    assert view is not None
    assert view.diff is None
    assert "/spec/nothing" in view.error


@pytest.mark.parametrize(
    "key", [cell_key("jinan"), cell_key(kind="StatefulSet"), cell_key(subject=DEMO._replace(name="no"))]
)
async def test_a_missing_cell_is_none(tmp_path: Path, key: Any) -> None:
    assert await serve(tmp_path, SET, NEW_IMAGE).show_cell(key) is None


async def test_a_page_of_the_matrix_has_the_states_of_its_cells(tmp_path: Path) -> None:
    view = await serve(tmp_path, SET, NEW_IMAGE, workload()).show_matrix(Query())
    assert [cell.state.state for column in view.rows[0].columns for cell in column if cell.state] == [
        "overridden",
        "rolls",
    ]
    assert (view.subjects, view.size) == (1, 2)


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
    await OverriderService(store, read, Worker()).show_matrix(Query())
    assert most == 10
