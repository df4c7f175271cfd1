import asyncio
from pathlib import Path
from typing import Any

import pytest

from fleethook.cluster.manifests.manifest_files import read_documents
from fleethook.cluster.store import ObjectKey
from fleethook.engines.overrider.pages.matrix_cells import (
    CellState,
    OverriderService,
    PoolDiff,
    ShownCell,
    compare_with_template,
    find_state,
)
from fleethook.engines.overrider.pages.matrix_rows_and_addresses import MatrixQuery, find_cell, select
from fleethook.engines.overrider.plan.plan_cache import PlanCache
from fleethook.engines.overrider.rollout.pool_previews_and_changes import CellKey, cells, preview
from fleethook.model.json import JSONObject
from fleethook.work.threads_and_gc import Worker
from tests.builders import NEW_IMAGE, container, entry, overrider, patch, pool, rendered, workload, yurt_app_set
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
    service = OverriderService(store, read, Worker())
    await service.show_rows(select(service.list_rows(), MatrixQuery()))
    assert most == 10


def state(*objects: dict[str, Any], running: tuple[dict[str, Any], ...] = ()) -> CellState:
    store = make_store(yurt_app_set(), *objects)
    cell = find_cell(store, cell_key())
    assert cell is not None
    return find_state(cell, running, store=store, plans=PlanCache())


def test_a_running_workload_that_is_as_its_plan_does_not_roll() -> None:
    current = rendered(workload(), yurt_app_set(), NEW_IMAGE)
    assert state(NEW_IMAGE, running=(current,)) == CellState("overridden", 1)


def test_a_running_workload_that_only_scales_keeps_its_state_and_says_so() -> None:
    scaled = overrider(entry("*", items=[{"replicas": 5}]))
    found = state(scaled, running=(workload(),))
    assert (found.state, found.changes) == ("overridden", 1)
    assert found.text == "scales from 2 to 5 replicas"


def test_an_entry_that_does_not_fit_is_an_error() -> None:
    broken = overrider(entry("*", patches=[patch("replace", "/spec/nothing", 1)]))
    found = state(broken)
    assert found.state == "error"
    assert "/spec/nothing" in found.text


def test_a_running_workload_that_cannot_be_rendered_is_an_error() -> None:
    adds = overrider(
        entry("*", patches=[patch("add", "/spec/template/spec/containers/-", container("side", "side:1"))])
    )
    taken = workload()
    taken["spec"]["template"]["spec"]["containers"].append(container("side", "other:1"))
    found = state(adds, running=(taken,))
    assert found.state == "error"
    assert "side" in found.text


EXAMPLES = Path(__file__).parents[4] / "examples"


def compare(*objects: dict[str, Any], **options: int) -> PoolDiff:
    store = make_store(*objects)
    cell = find_cell(store, cell_key())
    assert cell is not None
    return compare_with_template(cell.plan(store, PlanCache()).full, **options)


def changed(found: PoolDiff) -> list[tuple[str, str, str]]:
    return [
        ((one.left or "").strip(), (one.right or "").strip(), one.source)
        for one in found.lines
        if one.kind == "changed"
    ]


def test_unchanged_lines_far_from_changes_are_left_out_and_counted() -> None:
    everything = compare(yurt_app_set(), NEW_IMAGE, context=-1)
    shown = compare(yurt_app_set(), NEW_IMAGE, context=1)
    assert {one.kind for one in everything.lines} == {"same", "changed"}
    assert [one.kind for one in shown.lines] == ["gap", "same", "changed", "same", "gap"]
    assert sum(one.skipped for one in shown.lines) + 3 == len(everything.lines)


def test_a_text_that_is_too_long_is_not_compared() -> None:
    found = compare(yurt_app_set(), NEW_IMAGE, max_lines=10)
    assert (found.is_too_long, found.lines) == (True, ())


def read_example(directory: Path) -> list[JSONObject]:
    files = [*sorted(directory.glob("*.yaml")), EXAMPLES / "nodepools.yaml"]
    return [one.object for file in files for one in read_documents(file.read_text(), source=file.name)]


@pytest.mark.parametrize("story", sorted((EXAMPLES / "yurtappoverrider").iterdir()), ids=lambda path: path.name)
def test_each_changed_line_of_the_examples_names_an_entry_of_the_preview(story: Path) -> None:
    store = make_store(*read_example(story))
    plans, found = PlanCache(), list(cells(store, [""]))
    assert found
    for cell in found:
        compared = compare_with_template(cell.plan(store, plans).full)
        sources = {line.source for line in compared.lines if line.kind == "changed"}
        changes = preview(cell, store, plans).changes
        assert "" not in sources
        assert sources <= {change.source for change in changes}
        assert bool(sources) == bool(changes)
