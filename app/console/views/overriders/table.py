"""The values that the templates of the matrix show: rows, cells and links between pages."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from app.console.views.overriders.cell_state import CellState
from app.console.views.overriders.fleet import CellKey, SubjectRow
from app.console.views.overriders.matrix import Selection
from app.store import ObjectKey


class ShownCell(NamedTuple):
    """One cell with its state.

    Attributes:
        key: The cell.
        title: The subject, as its row shows it.
        state: None if the subject has changed while the page was computed.
    """

    key: CellKey
    title: str
    state: CellState | None


class ShownRow(NamedTuple):
    """One row of the table.

    Attributes:
        row: The subject.
        columns: The cells of each column, empty for a node pool without workload of the subject.
    """

    row: SubjectRow
    columns: Sequence[Sequence[ShownCell]]


def fill_table(selection: Selection, states: Mapping[CellKey, CellState]) -> list[ShownRow]:
    """Return the rows of a table with the states of their cells."""
    rows = []
    shown = frozenset(selection.columns)
    for row in selection.rows:
        pools = shown.intersection(row.pools)
        columns = [
            [_show(CellKey(row.key, pool, kind), row.title, states) for kind in row.kinds] if pool in pools else []
            for pool in selection.columns
        ]
        rows.append(ShownRow(row, columns))
    return rows


def fill_list(
    selection: Selection, states: Mapping[CellKey, CellState], rows: Mapping[ObjectKey, SubjectRow]
) -> list[ShownCell]:
    """Return the cells of a list with their states; ``rows`` has the subjects by key."""
    return [_show(key, rows[key.subject].title, states) for key in selection.cells]


def _show(key: CellKey, title: str, states: Mapping[CellKey, CellState]) -> ShownCell:
    return ShownCell(key, title, states.get(key))
