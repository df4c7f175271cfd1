import threading
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleethook.cluster.api_errors import UnreachableError
from fleethook.cluster.manifests.manifest_source import ManifestSource
from fleethook.cluster.store import ObjectKey
from fleethook.console.context import ConsoleContext
from fleethook.engines.overrider.pages.edit_report import MAX_WORKLOADS, EditError, format_overrider
from fleethook.engines.overrider.pages.fleet import CellKey, CellState, SubjectRow
from fleethook.engines.overrider.pages.fleet_scan import CellStates, ClusterWorkloads, ManifestWorkloads
from fleethook.engines.overrider.pages.matrix import Column, Query, select
from fleethook.engines.overrider.pages.overrider_service import (
    OverriderService,
    ShownCell,
    ShownGroup,
    ShownRow,
    fill_list,
    fill_table,
    make_service,
)
from fleethook.model.json import JSONObject
from fleethook.work.turns import Worker
from tests.builders import NEW_IMAGE, entry, image, overrider, patch, pool, workload, yurt_app_set
from tests.engines.overrider.pages.fleet_stores import DEMO, cell_key, make_store
from tests.waiting import until

OTHER = DEMO._replace(name="other")
ROWS = [SubjectRow(DEMO, ["a", "b"], ["Deployment"], ""), SubjectRow(OTHER, ["b"], ["Deployment", "StatefulSet"], "")]
KNOWN = {CellKey(DEMO, "b", "Deployment"): CellState("rolls")}


def test_each_cell_is_in_the_column_of_its_pool() -> None:
    first, second = fill_table(select(ROWS, Query(), {}), KNOWN, {})
    a = ShownCell(CellKey(DEMO, "a", "Deployment"), "YurtAppSet default/demo", None)
    assert first.columns == [[a], [a._replace(key=CellKey(DEMO, "b", "Deployment"), state=CellState("rolls"))]]
    assert first.unknown == 1
    kinds = ("Deployment", "StatefulSet")
    others = [ShownCell(CellKey(OTHER, "b", kind), "YurtAppSet default/other", None) for kind in kinds]
    assert second.columns == [[], others]


def test_a_folded_group_shows_its_most_urgent_state() -> None:
    pools = ["a-1", "a-2", "a-3"]
    rows = [SubjectRow(DEMO, pools, ["Deployment"], ""), SubjectRow(OTHER, ["b"], ["Deployment"], "")]
    known = {DEMO: {("Deployment", "a-1"): CellState("unchanged"), ("Deployment", "a-2"): CellState("error")}}
    first, second = fill_table(select(rows, Query(groups="a"), {}), {}, known)
    assert first.columns[0] == [ShownGroup(Column("a", "a", pools), 3, 2, "error", 1)]
    assert first.unknown == 1
    assert second.columns[0] == []


@pytest.mark.parametrize(("changes", "level"), [(0, 0), (1, 1), (2, 2), (3, 2), (4, 3), (9, 3)])
def test_the_heat_grows_with_the_changed_fields(changes: int, level: int) -> None:
    assert ShownCell(CellKey(DEMO, "a", "Deployment"), "", CellState("overridden", changes)).level == level


def test_a_list_has_the_cells_with_the_titles_of_their_subjects() -> None:
    found = fill_list(select(ROWS, Query(layout="list"), {}), KNOWN, {row.key: row for row in ROWS})
    assert [(one.title, one.key.pool, one.state) for one in found][:3] == [
        ("YurtAppSet default/demo", "a", None),
        ("YurtAppSet default/demo", "b", CellState("rolls")),
        ("YurtAppSet default/other", "b", None),
    ]


SET = yurt_app_set()
EDITED = format_overrider(overrider(entry("*", items=[image("nginx", "nginx:3.0")])))


def serve(directory: Path, *objects: dict[str, Any]) -> OverriderService:
    (directory / "now.yaml").write_text(yaml.safe_dump_all(objects))
    store = make_store()
    source = ManifestSource([directory], store)
    source.load()
    return make_service(ConsoleContext(store, source))


async def test_the_states_of_all_cells_are_listed_as_the_scan_finds_them(tmp_path: Path) -> None:
    service = serve(tmp_path, SET, NEW_IMAGE)
    first = await service.list_states()
    assert ([row.key for row in first.rows], first.states, first.is_complete) == ([DEMO], {}, False)
    await until(lambda: service.scan.is_complete)
    known = await service.list_states()
    assert ({one.state for one in known.states[DEMO].values()}, known.is_complete) == ({"overridden"}, True)


async def test_a_page_of_the_matrix_has_the_states_of_its_cells_before_the_scan_ends(tmp_path: Path) -> None:
    service = serve(tmp_path, SET, NEW_IMAGE, workload())
    view = await service.show_matrix(Query())
    assert not view.is_complete
    assert [cell.state.state for column in view.rows[0].columns for cell in column if cell.state] == [
        "overridden",
        "rolls",
    ]
    assert (view.subjects, view.size, view.known) == (1, 2, 0)
    assert service.scan._task is not None
    await service.scan._task
    view = await service.show_matrix(Query(state="rolls", layout="list"))
    assert view.is_complete
    assert [(cell.key.pool, cell.state.state if cell.state else "") for cell in view.cells] == [("hangzhou", "rolls")]
    assert view.totals == {"error": 0, "rolls": 1, "overridden": 1, "unchanged": 0}


async def test_a_list_by_node_pool_checks_the_inputs_of_each_subject_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = serve(tmp_path, SET, yurt_app_set("other"))
    await service.show_matrix(Query())
    await until(lambda: service.scan.is_complete)
    asked: list[ObjectKey] = []
    find_current = service.scan.find_current

    def note(key: ObjectKey) -> CellStates:
        asked.append(key)
        return find_current(key)

    monkeypatch.setattr(service.scan, "find_current", note)
    view = await service.show_matrix(Query(layout="list", sort="pool"))
    assert len(view.cells) > len(asked)
    assert {one.state.state for one in view.cells if one.state} == {"unchanged"}
    assert asked == [DEMO, OTHER]
    await service.close()


async def test_folded_groups_are_counted_in_a_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[threading.Thread] = []

    def note(*arguments: Any) -> list[ShownRow]:
        threads.append(threading.current_thread())
        return fill_table(*arguments)

    monkeypatch.setattr("fleethook.engines.overrider.pages.overrider_service.fill_table", note)
    service = serve(tmp_path, SET)
    await service.show_matrix(Query())
    assert len(threads) == 1
    assert threads[0] is not threading.main_thread()
    await service.close()


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


async def test_an_edit_is_compared_with_the_stored_workloads(tmp_path: Path) -> None:
    view = await serve(tmp_path, SET, NEW_IMAGE, workload()).show_edit(EDITED, opened=None)
    assert view.report.totals is not None
    assert view.report.totals.headline == "rolls 1 of 1 workload, 2 pods"
    assert (view.unread, view.named_namespace) == (0, True)


async def test_a_text_that_is_no_overrider_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(EditError):
        await serve(tmp_path, SET).show_edit("a: 1", opened=None)


class Reader:
    """A cluster whose workloads a user may not read."""

    def __init__(self) -> None:
        self.asked = 0

    async def read(self, _key: ObjectKey) -> JSONObject:
        self.asked += 1
        raise UnreachableError("no")


async def test_workloads_that_cannot_be_read_are_counted() -> None:
    reader = Reader()
    store = make_store(SET, NEW_IMAGE, workload())
    service = OverriderService(store, ClusterWorkloads(reader.read), Worker())
    view = await service.show_edit(EDITED, opened=None)
    assert (view.unread, view.report.stored, view.report.outcomes) == (1, 1, [])


async def test_no_more_workloads_are_read_than_the_limit() -> None:
    reader = Reader()
    names = [f"p{number:03}" for number in range(MAX_WORKLOADS + 1)]
    running = [workload(pool=name) for name in names]
    store = make_store(yurt_app_set(pools=[pool(name) for name in names]), NEW_IMAGE, *running)
    view = await OverriderService(store, ClusterWorkloads(reader.read), Worker()).show_edit(EDITED, opened=None)
    assert (reader.asked, view.report.outcomes, view.report.stored) == (0, None, MAX_WORKLOADS + 1)
    assert view.report.estimate is not None
    assert view.report.estimate.rolls == MAX_WORKLOADS + 1


async def test_the_service_ends_its_scan(tmp_path: Path) -> None:
    service = serve(tmp_path, SET)
    await service.show_matrix(Query())
    await service.close()
    assert service.scan._task is not None
    assert service.scan._task.done()


def test_the_source_of_the_console_decides_where_workloads_are_read(tmp_path: Path) -> None:
    store = make_store()
    from_files = make_service(ConsoleContext(store, ManifestSource([tmp_path], store)))
    assert isinstance(from_files._workloads, ManifestWorkloads)
    assert isinstance(make_service(ConsoleContext(store))._workloads, ClusterWorkloads)
