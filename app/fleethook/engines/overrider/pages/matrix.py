"""Selects the cells that a page of the matrix shows, and compares the workload of one cell with its template.

Filters, order and paging need no rendering. The comparison is side by side, and names the entry behind each changed
line.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import groupby, islice
from typing import Final, Literal, NamedTuple

from fleethook.cluster.store import ObjectKey, StoreView
from fleethook.console.rendering import Paging, paginate
from fleethook.console.yaml_paths import Line, list_lines
from fleethook.engines.overrider.pages.fleet import STATES, CellKey, CellState, State, SubjectRow
from fleethook.engines.overrider.plan.plan import Plan
from fleethook.engines.overrider.plan.plan_cache import PlanCache
from fleethook.engines.overrider.render.delta import name_tokens
from fleethook.engines.overrider.rollout.preview import Cell, Preview, preview, without_bookkeeping
from fleethook.model.json import JSONObject, as_object
from fleethook.model.openyurt import NODE_POOL
from fleethook.patch import format_pointer

Layout = Literal["matrix", "list"]
LAYOUTS: Final[tuple[Layout, ...]] = ("matrix", "list")
Sort = Literal["subject", "pool", "state"]
SORTS: Final[tuple[Sort, ...]] = ("subject", "pool", "state")

# A table of 40 rows and 30 columns fits a screen of 1440 x 900.
ROWS_ON_A_PAGE: Final = 40
COLUMNS_ON_A_PAGE: Final = 30
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
        groups: The groups of node pools whose folding differs from the default, separated by commas.
        by: The label of NodePools whose values name the groups. Without it, the names of node pools begin with the
            group.
    """

    subject: str = ""
    pool: str = ""
    state: State | None = None
    layout: Layout = "matrix"
    sort: Sort = "subject"
    page: int = 1
    columns: int = 1
    groups: str = ""
    by: str = ""

    @property
    def toggled(self) -> frozenset[str]:
        """The names in `groups`. No node pool has a comma in its name."""
        return frozenset(self.groups.split(",")) - {""}

    def toggle(self, group: str) -> "Query":
        """Return the query with one group folded or unfolded."""
        return self._replace(groups=",".join(sorted(self.toggled ^ {group})), columns=1)

    @property
    def needs_states(self) -> bool:
        """Whether the selection depends on the states of all cells."""
        return self.state is not None or (self.layout == "list" and self.sort == "state")

    def parameters(self) -> dict[str, str]:
        """Return the parameters that differ from their defaults, for a URL."""
        default = Query()
        shown = self._asdict()
        return {name: str(value) for name, value in shown.items() if value != getattr(default, name)}


class Column(NamedTuple):
    """A node pool, or a folded group of them.

    Attributes:
        name: The node pool, or the group.
        group: The group of the node pool, ``""`` without one.
        pools: The node pools of a folded group, empty for a single node pool.
    """

    name: str
    group: str = ""
    pools: Sequence[str] = ()

    @property
    def short_name(self) -> str:
        """The name without its group, such as ``01`` for ``hangzhou-01``."""
        is_prefix = self.group and self.name.startswith(self.group)
        return (self.name[len(self.group) + 1 :] if is_prefix else "") or self.name


class ColumnGroup(NamedTuple):
    """Neighbouring columns of one group, as a cell of the header.

    Attributes:
        name: The group, ``""`` for node pools without one.
        span: The number of columns.
        is_folded: Whether the only column stands for all node pools of the group.
    """

    name: str
    span: int
    is_folded: bool


class Selection(NamedTuple):
    """The cells of one page.

    Attributes:
        rows: The rows of the table, empty for a list.
        columns: The columns of the table.
        cells: The cells to render.
        paging: The page of rows, or of cells.
        column_paging: The page of columns.
    """

    rows: Sequence[SubjectRow]
    columns: Sequence[Column]
    cells: Sequence[CellKey]
    paging: Paging
    column_paging: Paging


NO_GROUPS: Final[Mapping[str, str]] = {}


def read_labels(store: StoreView, clusters: Collection[str], label: str) -> dict[str, str]:
    """Return the values of a label of the NodePools of some clusters, by the name of the node pool."""
    found: dict[str, str] = {}
    for cluster in clusters:
        for node_pool in store.each(cluster, NODE_POOL):
            metadata = node_pool["metadata"] if isinstance(node_pool, dict) else {}
            value = as_object(metadata.get("labels")).get(label)
            if isinstance(value, str) and value:
                found.setdefault(metadata["name"], value)
    return found


def select(
    rows: Sequence[SubjectRow], query: Query, states: States, groups: Mapping[str, str] = NO_GROUPS
) -> Selection:
    """Return the cells that a query shows.

    Args:
        rows: All subjects, in order.
        query: The parameters.
        states: The known states, which only a query that `needs_states` reads.
        groups: The group of each node pool that has one, for a query by a label.
    """
    found = filter_rows(rows, query)
    return (
        _select_table(found, query, states, groups) if query.layout == "matrix" else _select_list(found, query, states)
    )


def filter_rows(rows: Sequence[SubjectRow], query: Query) -> list[SubjectRow]:
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
    """Return a test of names. It remembers each result, because thousands of subjects share the names."""
    wanted, known = text.casefold(), dict[str, bool]()

    def matches(pool: str) -> bool:
        answer = known.get(pool)
        if answer is None:
            answer = known[pool] = wanted in pool.casefold()
        return answer

    return matches


def _select_table(rows: Sequence[SubjectRow], query: Query, states: States, groups: Mapping[str, str]) -> Selection:
    if query.state is not None:
        kept = (_keep_state(row, query.state, states) for row in rows)
        rows = [row for row in kept if row.pools]
    paging = paginate(len(rows), query.page, ROWS_ON_A_PAGE)
    shown = rows[paging.start : paging.start + ROWS_ON_A_PAGE]
    names = sorted({pool for row in shown for pool in row.pools})
    found = fold_pools(names, query.toggled, groups if query.by else name_groups(names))
    column_paging = paginate(len(found), query.columns, COLUMNS_ON_A_PAGE)
    columns = found[column_paging.start : column_paging.start + COLUMNS_ON_A_PAGE]
    wanted = frozenset(one.name for one in columns if not one.pools)
    cells = [
        CellKey(row.key, pool, kind) for row in shown for pool in row.pools if pool in wanted for kind in row.kinds
    ]
    return Selection(shown, columns, cells, paging, column_paging)


def fold_pools(names: Sequence[str], toggled: Collection[str], group_of: Mapping[str, str]) -> list[Column]:
    """Return the columns of some node pools. If not all node pools fit on one page, groups are folded.

    Args:
        names: The node pools, sorted.
        toggled: The groups that differ from the default.
        group_of: The group of each node pool that has one.
    """
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(group_of.get(name, ""), []).append(name)
    is_large = len(names) > COLUMNS_ON_A_PAGE
    columns: list[Column] = []
    for group, pools in groups.items():
        if not group or len(pools) == 1:
            columns += map(Column, pools)
        elif (group in toggled) != is_large:
            columns.append(Column(group, group, pools))
        else:
            columns += [Column(pool, group) for pool in pools]
    return columns


def name_groups(names: Iterable[str]) -> dict[str, str]:
    """Return the group of each node pool by its name without the last part: ``hangzhou`` for ``hangzhou-01``."""
    return {name: name[: max(0, *(name.rfind(one) for one in "-._"))] for name in names}


def group_columns(columns: Sequence[Column]) -> list[ColumnGroup]:
    """Return the groups of the columns of a page, in order."""
    runs = ((name, list(run)) for name, run in groupby(columns, lambda one: one.group))
    return [ColumnGroup(name, len(run), bool(run[0].pools)) for name, run in runs]


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


def _each_cell(rows: Iterable[SubjectRow]) -> Iterator[CellKey]:
    for row in rows:
        for pool in row.pools:
            for kind in row.kinds:
                yield CellKey(row.key, pool, kind)


def _find(states: States, key: CellKey) -> CellState | None:
    return states.get(key.subject, {}).get((key.kind, key.pool))


def _rank(state: CellState | None) -> int:
    return len(STATES) if state is None else _RANKS[state.state]


def count_states(states: States, rows: Iterable[SubjectRow] | None = None) -> dict[State, int]:
    """Return the numbers of known cells by state, of the given rows or of all."""
    if rows is None:
        found = Counter(one.state for of_subject in states.values() for one in of_subject.values())
    else:
        found = Counter(one.state for key in _each_cell(rows) if (one := _find(states, key)) is not None)
    return {state: found[state] for state in STATES}


# The time of a comparison grows with the square of the lines in the worst case: 4,000 lines take less than a second.
MAX_LINES: Final = 4_000
CONTEXT: Final = 3
EVERY_LINE: Final = -1

LineKind = Literal["same", "changed", "gap"]


class DiffLine(NamedTuple):
    """One line of both sides.

    Attributes:
        kind: ``gap`` replaces lines that are the same on both sides and are left out.
        left: The line of the template, None if it has none.
        right: The line of the rendered workload, None if it has none.
        left_number: The line's number, 0 without a line.
        right_number: As `left_number`.
        source: The part of the overrider that made the difference, such as ``entries[0].items[1]``.
        skipped: The number of lines that a gap leaves out.
    """

    kind: LineKind
    left: str | None = None
    right: str | None = None
    left_number: int = 0
    right_number: int = 0
    source: str = ""
    skipped: int = 0


class PoolDiff(NamedTuple):
    """The workload of one cell beside its template.

    Attributes:
        preview: The rendered workload, as the command ``render`` prints it.
        lines: The comparison; empty if the texts are too long, see `is_too_long`.
        is_too_long: Whether only the list of changes can be shown.
    """

    preview: Preview
    lines: Sequence[DiffLine]
    is_too_long: bool


class DiffInput(NamedTuple):
    """The rendered workload of one cell with its plan; nothing changes either later."""

    preview: Preview
    plan: Plan


def prepare_diff(cell: Cell, *, store: StoreView, plans: PlanCache) -> DiffInput:
    """Return the input of a comparison. Only this part reads the store.

    Args:
        cell: The subject, overrider, node pool and kind.
        store: Overriders, subjects and node pools.
        plans: The plans that were compiled from them.

    Raises:
        SubjectError: The subject describes no workload.
        RenderError: The overrider does not fit.
    """
    shown = preview(cell, store, plans)
    group_kind, document, cluster = cell.subject
    plan = plans.plan(
        group_kind, document, cell.overrider, kind=cell.kind, pool=cell.pool, cluster=cluster, store=store
    )
    return DiffInput(shown, plan.full)


def compare_with_template(of: DiffInput, *, context: int = CONTEXT) -> PoolDiff:
    """Return the comparison of a rendered workload with its template.

    The annotations with which fleethook remembers its changes are left out: no entry makes them.

    Args:
        of: The workload and its plan.
        context: Unchanged lines to show around changes; negative for all lines.
    """
    left, right = of.plan.bare, without_bookkeeping(of.preview.workload)
    before, after = list_lines(left), list_lines(right)
    if max(len(before), len(after)) > MAX_LINES:
        return PoolDiff(of.preview, (), is_too_long=True)

    def name_source(line: Line | None, other: Line | None) -> str:
        return _find_source(of.plan, right, other) or _find_source(of.plan, left, line)

    lines = list(_compare(before, after, name_source))
    return PoolDiff(of.preview, lines if context < 0 else list(_shorten(lines, context)), is_too_long=False)


def _find_source(plan: Plan, document: JSONObject, line: Line | None) -> str:
    """Return the path of the step that changed the line of a side, or the nearest parent of an unnamed member."""
    tokens = () if line is None else name_tokens(document, format_pointer(line.path))
    return next((found for end in range(len(tokens), 0, -1) if (found := plan.source_of(tokens[:end]))), "")


def _compare(
    before: Sequence[Line], after: Sequence[Line], name_source: Callable[[Line | None, Line | None], str]
) -> Iterator[DiffLine]:
    matcher = SequenceMatcher(None, [one.text for one in before], [one.text for one in after], autojunk=False)
    for tag, start, end, other_start, other_end in matcher.get_opcodes():
        for offset in range(max(end - start, other_end - other_start)):
            left = before[start + offset] if start + offset < end else None
            right = after[other_start + offset] if other_start + offset < other_end else None
            yield DiffLine(
                "same" if tag == "equal" else "changed",
                None if left is None else left.text,
                None if right is None else right.text,
                0 if left is None else start + offset + 1,
                0 if right is None else other_start + offset + 1,
                "" if tag == "equal" else name_source(left, right),
            )


def _shorten(lines: Sequence[DiffLine], context: int) -> Iterator[DiffLine]:
    """Yield the changed lines with some lines around them, and a gap in place of the others."""
    near = {
        position
        for number, line in enumerate(lines)
        if line.kind == "changed"
        for position in range(number - context, number + context + 1)
    }
    for is_near, run in groupby(enumerate(lines), lambda one: one[0] in near):
        shown = [line for _, line in run]
        if is_near:
            yield from shown
        elif near:
            yield DiffLine("gap", skipped=len(shown))
