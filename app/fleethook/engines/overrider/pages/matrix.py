"""Selects the cells that a page of the matrix shows: filters, order and paging. Nothing is rendered here."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, Literal, NamedTuple

from fleethook.cluster.store import ObjectKey
from fleethook.console.rendering import Paging, paginate
from fleethook.engines.overrider.pages.fleet import STATES, CellKey, CellState, State, SubjectRow

Layout = Literal["matrix", "list"]
LAYOUTS: Final[tuple[Layout, ...]] = ("matrix", "list")
Sort = Literal["subject", "pool", "state"]
SORTS: Final[tuple[Sort, ...]] = ("subject", "pool", "state")

# 240 cells with templates of 6 KB take about 100 ms.
ROWS_ON_A_PAGE: Final = 20
COLUMNS_ON_A_PAGE: Final = 12
CELLS_ON_A_PAGE: Final = 100
_RANKS: Final[Mapping[State, int]] = {state: rank for rank, state in enumerate(STATES)}

States = Mapping[ObjectKey, Mapping[tuple[str, str], CellState]]
"""The known states by subject, then by kind and node pool."""


class Query(NamedTuple):
    """The parameters of the matrix, as the URL has them.

    Attributes:
        subject: Text that the title of a subject or the name of its overrider contains, in any case.
        pool: Text that the name of a node pool contains, in any case.
        state: The state to show, None for all.
        layout: A table of subjects and node pools, or a list of cells.
        sort: The order of the list.
        page: The page, counted from 1.
        columns: The page of the columns of the table, counted from 1.
    """

    subject: str = ""
    pool: str = ""
    state: State | None = None
    layout: Layout = "matrix"
    sort: Sort = "subject"
    page: int = 1
    columns: int = 1

    @property
    def needs_states(self) -> bool:
        """Whether the selection depends on the states of all cells."""
        return self.state is not None or (self.layout == "list" and self.sort == "state")

    def parameters(self) -> dict[str, str]:
        """Return the parameters that differ from their defaults, for a URL."""
        default = Query()
        shown = self._asdict()
        return {name: str(value) for name, value in shown.items() if value != getattr(default, name)}


class Selection(NamedTuple):
    """The cells of one page.

    Attributes:
        rows: The rows of the table, empty for a list.
        columns: The node pools of the table's columns.
        cells: The cells to render.
        paging: The page of rows, or of cells.
        column_paging: The page of columns.
    """

    rows: Sequence[SubjectRow]
    columns: Sequence[str]
    cells: Sequence[CellKey]
    paging: Paging
    column_paging: Paging


def select(rows: Sequence[SubjectRow], query: Query, states: States) -> Selection:
    """Return the cells that a query shows.

    Args:
        rows: All subjects, in order.
        query: The parameters.
        states: The known states, which only a query that `needs_states` reads.
    """
    found = _filter_rows(rows, query)
    return _select_table(found, query, states) if query.layout == "matrix" else _select_list(found, query, states)


def _filter_rows(rows: Sequence[SubjectRow], query: Query) -> list[SubjectRow]:
    """Return the rows whose subject matches, each with its matching node pools."""
    text = query.subject.casefold()
    matches = _match_pool(query.pool)
    found = []
    for row in rows:
        if text and text not in row.title.casefold() and text not in row.overrider.casefold():
            continue
        pools = [pool for pool in row.pools if matches(pool)] if query.pool else row.pools
        # A subject without node pools is shown, because that is usually a mistake.
        if pools or not query.pool:
            found.append(row._replace(pools=pools))
    return found


def _match_pool(text: str) -> Callable[[str], bool]:
    """Return a test of names that looks at each name once: thousands of subjects share them."""
    wanted, known = text.casefold(), dict[str, bool]()

    def matches(pool: str) -> bool:
        answer = known.get(pool)
        if answer is None:
            answer = known[pool] = wanted in pool.casefold()
        return answer

    return matches


def _select_table(rows: Sequence[SubjectRow], query: Query, states: States) -> Selection:
    if query.state is not None:
        kept = (_keep_state(row, query.state, states) for row in rows)
        rows = [row for row in kept if row.pools]
    paging = paginate(len(rows), query.page, ROWS_ON_A_PAGE)
    shown = rows[paging.start : paging.start + ROWS_ON_A_PAGE]
    names = sorted({pool for row in shown for pool in row.pools})
    column_paging = paginate(len(names), query.columns, COLUMNS_ON_A_PAGE)
    columns = names[column_paging.start : column_paging.start + COLUMNS_ON_A_PAGE]
    wanted = frozenset(columns)
    cells = [
        CellKey(row.key, pool, kind) for row in shown for pool in row.pools if pool in wanted for kind in row.kinds
    ]
    return Selection(shown, columns, cells, paging, column_paging)


def _keep_state(row: SubjectRow, state: State, states: States) -> SubjectRow:
    of_row = states.get(row.key, {})
    with_state = {pool for (_, pool), one in of_row.items() if one.state == state}
    return row._replace(pools=[pool for pool in row.pools if pool in with_state])


def _select_list(rows: Sequence[SubjectRow], query: Query, states: States) -> Selection:
    no_columns = paginate(0, 1, COLUMNS_ON_A_PAGE)
    if query.sort == "subject" and query.state is None:
        # In the order of the subjects, the page needs no list of all cells.
        paging = paginate(sum(row.size for row in rows), query.page, CELLS_ON_A_PAGE)
        cells = list(islice(_each_cell(rows), paging.start, paging.start + CELLS_ON_A_PAGE))
        return Selection((), (), cells, paging, no_columns)
    found = list(_each_cell(rows))
    if query.state is not None:
        found = [key for key in found if (one := _find(states, key)) is not None and one.state == query.state]
    if query.sort == "pool":
        found.sort(key=lambda key: key.pool)
    elif query.sort == "state":
        found.sort(key=lambda key: _rank(_find(states, key)))
    paging = paginate(len(found), query.page, CELLS_ON_A_PAGE)
    return Selection((), (), found[paging.start : paging.start + CELLS_ON_A_PAGE], paging, no_columns)


def _each_cell(rows: Sequence[SubjectRow]) -> Iterator[CellKey]:
    for row in rows:
        for pool in row.pools:
            for kind in row.kinds:
                yield CellKey(row.key, pool, kind)


def _find(states: States, key: CellKey) -> CellState | None:
    return states.get(key.subject, {}).get((key.kind, key.pool))


def _rank(state: CellState | None) -> int:
    return len(STATES) if state is None else _RANKS[state.state]


def count_states(states: States) -> dict[State, int]:
    """Return the numbers of known cells by state."""
    totals: dict[State, int] = dict.fromkeys(STATES, 0)
    for of_subject in states.values():
        for one in of_subject.values():
            totals[one.state] += 1
    return totals
