from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleethook.cluster.manifests.manifest_reader import read_documents
from fleethook.cluster.store import ObjectKey
from fleethook.engines.overrider.entries.entry_steps import RenderError
from fleethook.engines.overrider.pages import matrix
from fleethook.engines.overrider.pages.fleet import CellState, State, SubjectRow, find_cell
from fleethook.engines.overrider.pages.matrix import (
    CELLS_ON_A_PAGE,
    COLUMNS_ON_A_PAGE,
    ROWS_ON_A_PAGE,
    Column,
    ColumnGroup,
    PoolDiff,
    Query,
    Selection,
    States,
    compare_with_template,
    count_states,
    filter_rows,
    fold_pools,
    group_columns,
    name_groups,
    prepare_diff,
    read_labels,
    select,
)
from fleethook.engines.overrider.plan.plan_cache import PlanCache
from fleethook.engines.overrider.rollout.preview import cells, without_bookkeeping
from fleethook.model.json import JSONObject
from fleethook.model.openyurt import YURT_APP_SET
from tests.builders import NEW_IMAGE, container, entry, image, node_pool, overrider, patch, store_of, yurt_app_set
from tests.engines.overrider.pages.fleet_stores import cell_key, make_store


def row(name: str, *pools: str, kinds: Sequence[str] = ("Deployment",), overrider: str = "") -> SubjectRow:
    return SubjectRow(ObjectKey("", YURT_APP_SET, "shop", name), pools, kinds, overrider)


ROWS = [row("api", "beijing", "hangzhou", overrider="special"), row("web", "hangzhou", "jinan")]
NOTHING: States = {}


def states(**of_cells: State) -> States:
    found: dict[ObjectKey, dict[tuple[str, str], CellState]] = {}
    for name, state in of_cells.items():
        subject, pool = name.split("_")
        found.setdefault(row(subject).key, {})["Deployment", pool] = CellState(state)
    return found


def names(selection: Selection) -> list[str]:
    return [f"{one.subject.name}_{one.pool}" for one in selection.cells]


def test_the_table_has_the_pools_of_the_shown_subjects_as_columns() -> None:
    found = select(ROWS, Query(), NOTHING)
    assert [one.key.name for one in found.rows] == ["api", "web"]
    assert found.columns == [Column("beijing"), Column("hangzhou"), Column("jinan")]
    assert names(found) == ["api_beijing", "api_hangzhou", "web_hangzhou", "web_jinan"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (Query(subject="API"), ["api_beijing", "api_hangzhou"]),
        (Query(subject="special"), ["api_beijing", "api_hangzhou"]),
        (Query(subject="shop/we"), ["web_hangzhou", "web_jinan"]),
        (Query(pool="HANG"), ["api_hangzhou", "web_hangzhou"]),
        (Query(subject="web", pool="jinan"), ["web_jinan"]),
        (Query(subject="none"), []),
    ],
)
@pytest.mark.parametrize("layout", ["matrix", "list"])
def test_texts_filter_subjects_and_pools(query: Query, expected: list[str], layout: str) -> None:
    assert names(select(ROWS, query._replace(layout=layout), NOTHING)) == expected


@pytest.mark.parametrize("layout", ["matrix", "list"])
def test_a_state_selects_the_cells_that_are_known_to_have_it(layout: str) -> None:
    known = states(api_beijing="rolls", api_hangzhou="unchanged", web_jinan="rolls")
    assert names(select(ROWS, Query(state="rolls", layout=layout), known)) == ["api_beijing", "web_jinan"]


def test_a_list_is_sorted_by_pool_or_by_urgency() -> None:
    known = states(web_hangzhou="error", api_hangzhou="rolls", api_beijing="unchanged", web_jinan="overridden")
    by_pool = Query(layout="list", sort="pool")
    assert names(select(ROWS, by_pool, known)) == ["api_beijing", "api_hangzhou", "web_hangzhou", "web_jinan"]
    by_state = Query(layout="list", sort="state")
    assert names(select(ROWS, by_state, known)) == ["web_hangzhou", "api_hangzhou", "web_jinan", "api_beijing"]


def test_cells_without_a_known_state_come_last() -> None:
    found = select(ROWS, Query(layout="list", sort="state"), states(web_jinan="unchanged"))
    assert names(found)[0] == "web_jinan"


def test_a_pool_matches_in_any_case() -> None:
    assert names(select([row("api", "East")], Query(pool="eAST"), NOTHING)) == ["api_East"]


def test_a_subject_without_pools_has_a_row_unless_a_filter_needs_a_pool() -> None:
    rows = [*ROWS, row("idle")]
    assert [one.key.name for one in select(rows, Query(), NOTHING).rows] == ["api", "web", "idle"]
    assert [one.key.name for one in select(rows, Query(pool="jinan"), NOTHING).rows] == ["web"]
    assert [one.key.name for one in select(rows, Query(state="rolls"), NOTHING).rows] == []


def test_thousands_of_pools_are_on_pages_of_columns() -> None:
    pools = [f"p{number:04}" for number in range(5_000)]
    found = select([row("api", *pools)], Query(columns=2), NOTHING)
    assert [one.name for one in found.columns] == pools[COLUMNS_ON_A_PAGE : 2 * COLUMNS_ON_A_PAGE]
    assert len(found.cells) == COLUMNS_ON_A_PAGE
    assert found.column_paging.pages == -(-5_000 // COLUMNS_ON_A_PAGE)


def test_thousands_of_subjects_are_on_pages_of_rows() -> None:
    rows = [row(f"s{number:04}", "a") for number in range(2_000)]
    found = select(rows, Query(page=50), NOTHING)
    assert [one.key.name for one in found.rows] == [f"s{number:04}" for number in range(1_960, 2_000)]
    assert found.paging.pages == 2_000 // ROWS_ON_A_PAGE


def test_pools_of_one_page_are_columns_unless_their_group_is_folded() -> None:
    names = ["east-1", "east-2", "north", "west-1"]
    assert fold_pools(names, (), name_groups(names)) == [
        Column("east-1", "east"),
        Column("east-2", "east"),
        Column("north"),
        Column("west-1"),
    ]
    assert fold_pools(names, {"east"}, name_groups(names)) == [
        Column("east", "east", ["east-1", "east-2"]),
        Column("north"),
        Column("west-1"),
    ]


def test_groups_of_many_pools_are_folded_unless_they_are_unfolded() -> None:
    pools = [f"{region}-{number:03}" for region in ("east", "west") for number in range(150)]
    assert [one.name for one in fold_pools(pools, (), name_groups(pools))] == ["east", "west"]
    columns = fold_pools(pools, {"west"}, name_groups(pools))
    assert [one.name for one in columns] == ["east", *pools[150:]]
    assert group_columns(columns) == [ColumnGroup("east", 1, is_folded=True), ColumnGroup("west", 150, is_folded=False)]


def test_values_of_a_label_are_groups_of_pools() -> None:
    store = store_of(
        node_pool("a", {"region": "east"}), node_pool("b", {"region": "west"}), node_pool("c", {"region": "east"}),
        node_pool("d"),
    )  # fmt: skip
    groups = read_labels(store, {""}, "region")
    assert groups == {"a": "east", "b": "west", "c": "east"}
    query = Query(by="region", groups="east")
    found = select([row("api", "a", "b", "c", "d")], query, NOTHING, groups)
    assert found.columns == [Column("east", "east", ["a", "c"]), Column("b"), Column("d")]


def test_a_group_that_is_no_prefix_keeps_the_name() -> None:
    assert [Column(name, "east").short_name for name in ("east-1", "hangzhou", "east")] == ["1", "hangzhou", "east"]


def test_a_folded_group_has_no_cells() -> None:
    found = select([row("api", *(f"east-{number:02}" for number in range(40)))], Query(), NOTHING)
    assert [one.name for one in found.columns] == ["east"]
    assert found.cells == []


def test_a_group_is_toggled_twice() -> None:
    once = Query(groups="east,west", columns=3).toggle("north")
    assert (once.groups, once.columns) == ("east,north,west", 1)
    assert once.toggle("north").groups == "east,west"


@pytest.mark.parametrize("sort", ["subject", "pool"])
def test_the_pages_of_a_list_have_each_cell_once(sort: str) -> None:
    rows = [
        row(f"s{number:02}", *(f"p{one}" for one in range(30)), kinds=("Deployment", "StatefulSet"))
        for number in range(9)
    ]
    query = Query(layout="list", sort=sort)
    first = select(rows, query, NOTHING)
    found = [
        cell
        for page in range(first.paging.pages)
        for cell in select(rows, query._replace(page=page + 1), NOTHING).cells
    ]
    assert len(found) == len(set(found)) == first.paging.total == 540
    assert len(first.cells) == CELLS_ON_A_PAGE


def test_a_url_has_only_the_parameters_that_differ_from_the_defaults() -> None:
    assert Query().parameters() == {}
    assert Query(pool="a&b", state="error", page=3).parameters() == {"pool": "a&b", "state": "error", "page": "3"}


def test_states_are_counted() -> None:
    known = states(api_beijing="rolls", api_hangzhou="rolls", web_jinan="error")
    assert count_states(known) == {"error": 1, "rolls": 2, "overridden": 0, "unchanged": 0}


def test_the_counts_are_those_of_the_cells_behind_them() -> None:
    known = states(api_beijing="rolls", api_hangzhou="rolls", web_jinan="error")
    for query in (Query(subject="api"), Query(pool="beijing"), Query(subject="web")):
        counted = count_states(known, filter_rows(ROWS, query))
        for state, number in counted.items():
            assert select(ROWS, query._replace(state=state, layout="list"), known).paging.total == number, query


def test_only_a_filter_or_order_by_state_needs_the_states() -> None:
    assert not Query(sort="state").needs_states
    assert Query(layout="list", sort="state").needs_states
    assert Query(state="error").needs_states


EXAMPLES = Path(__file__).parents[4] / "examples"


def compare(*objects: dict[str, Any], context: int = 3) -> PoolDiff:
    store = make_store(*objects)
    cell = find_cell(store, cell_key())
    assert cell is not None
    return compare_with_template(prepare_diff(cell, store=store, plans=PlanCache()), context=context)


def changed(found: PoolDiff) -> list[tuple[str, str, str]]:
    return [
        ((one.left or "").strip(), (one.right or "").strip(), one.source)
        for one in found.lines
        if one.kind == "changed"
    ]


def test_a_changed_line_names_its_entry() -> None:
    assert changed(compare(yurt_app_set(), NEW_IMAGE)) == [
        ("image: nginx:1.0", "image: nginx:2.0", "entries[0].items[0]")
    ]


def test_the_last_entry_that_set_a_line_is_named() -> None:
    both = overrider(entry("*", items=[image("nginx", "a:1")]), entry("hangzhou", items=[image("nginx", "b:1")]))
    assert changed(compare(yurt_app_set(), both)) == [("image: nginx:1.0", "image: b:1", "entries[1].items[0]")]


def test_an_added_object_names_its_entry_in_each_line() -> None:
    volume = {"name": "logs", "hostPath": {"path": "/data"}}
    one = overrider(
        entry("*", items=[{"replicas": 2}], patches=[patch("add", "/spec/template/spec/volumes/-", volume)])
    )
    found = changed(compare(yurt_app_set(), one))
    assert {source for _, _, source in found} == {"entries[0].patches[0]"}
    assert ("", "- name: logs", "entries[0].patches[0]") in found


def test_a_removed_line_names_its_entry() -> None:
    subject = yurt_app_set()
    template = subject["spec"]["workloadTemplate"]["deploymentTemplate"]["spec"]["template"]
    template["spec"]["containers"] = [container("first"), container("second")]
    one = overrider(entry("*", patches=[patch("remove", "/spec/template/spec/containers/1")]))
    found = changed(compare(subject, one))
    assert [(left, source) for left, right, source in found if not right] == [
        ("- name: second", "entries[0].patches[0]"),
        ("image: nginx:1.0", "entries[0].patches[0]"),
    ]


def test_a_pool_without_changes_has_no_lines() -> None:
    assert compare(yurt_app_set()).lines == []


def test_unchanged_lines_far_from_changes_are_left_out_and_counted() -> None:
    everything = compare(yurt_app_set(), NEW_IMAGE, context=-1)
    shown = compare(yurt_app_set(), NEW_IMAGE, context=1)
    assert {one.kind for one in everything.lines} == {"same", "changed"}
    assert [one.kind for one in shown.lines] == ["gap", "same", "changed", "same", "gap"]
    assert sum(one.skipped for one in shown.lines) + 3 == len(everything.lines)


def test_both_sides_are_the_template_and_the_rendered_workload() -> None:
    found = compare(yurt_app_set(), NEW_IMAGE, context=-1)
    right = "\n".join(one.right for one in found.lines if one.right is not None)
    assert yaml.safe_load(right) == without_bookkeeping(found.preview.workload)
    left = yaml.safe_load("\n".join(one.left for one in found.lines if one.left is not None))
    assert left["spec"]["template"]["spec"]["containers"][0]["image"] == "nginx:1.0"
    numbers = [one.right_number for one in found.lines if one.right_number]
    assert numbers == list(range(1, len(numbers) + 1))


def test_a_text_that_is_too_long_is_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrix, "MAX_LINES", 10)
    found = compare(yurt_app_set(), NEW_IMAGE)
    assert (found.is_too_long, found.lines) == (True, ())
    assert found.preview.changes


def test_an_overrider_that_does_not_fit_is_an_error() -> None:
    with pytest.raises(RenderError):
        compare(yurt_app_set(), overrider(entry("*", patches=[patch("remove", "/spec/nothing")])))


def read_example(directory: Path) -> list[JSONObject]:
    files = [*sorted(directory.glob("*.yaml")), EXAMPLES / "nodepools.yaml"]
    return [one.object for file in files for one in read_documents(file.read_text(), source=file.name)]


@pytest.mark.parametrize("story", sorted((EXAMPLES / "yurtappoverrider").iterdir()), ids=lambda path: path.name)
def test_each_changed_line_of_the_examples_names_an_entry_of_the_preview(story: Path) -> None:
    store = make_store(*read_example(story))
    found = [compare_with_template(prepare_diff(cell, store=store, plans=PlanCache())) for cell in cells(store, [""])]
    assert found
    for one in found:
        sources = {line.source for line in one.lines if line.kind == "changed"}
        assert "" not in sources
        assert sources <= {change.source for change in one.preview.changes}
        assert bool(sources) == bool(one.preview.changes)
