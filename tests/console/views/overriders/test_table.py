from app.console.views.overriders.cell_state import CellState
from app.console.views.overriders.fleet import CellKey, SubjectRow
from app.console.views.overriders.matrix import Query, select
from app.console.views.overriders.table import fill_list, fill_table
from tests.console.views.overriders.fleet_stores import DEMO

OTHER = DEMO._replace(name="other")
ROWS = [SubjectRow(DEMO, ["a", "b"], ["Deployment"], ""), SubjectRow(OTHER, ["b"], ["Deployment", "StatefulSet"], "")]
KNOWN = {CellKey(DEMO, "b", "Deployment"): CellState("rolls")}


def test_each_cell_is_in_the_column_of_its_pool() -> None:
    first, second = fill_table(select(ROWS, Query(), {}), KNOWN)
    assert [[cell.key.pool for cell in cells] for cells in first.columns] == [["a"], ["b"]]
    assert [[cell.key.kind for cell in cells] for cells in second.columns] == [[], ["Deployment", "StatefulSet"]]
    assert [cell.state for cells in first.columns for cell in cells] == [None, CellState("rolls")]


def test_a_list_has_the_cells_with_the_titles_of_their_subjects() -> None:
    found = fill_list(select(ROWS, Query(layout="list"), {}), KNOWN, {row.key: row for row in ROWS})
    assert [(one.title, one.key.pool, one.state) for one in found][:3] == [
        ("YurtAppSet default/demo", "a", None),
        ("YurtAppSet default/demo", "b", CellState("rolls")),
        ("YurtAppSet default/other", "b", None),
    ]
