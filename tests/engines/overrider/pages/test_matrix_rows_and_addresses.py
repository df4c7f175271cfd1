from collections.abc import Sequence
from urllib.parse import parse_qsl, urlsplit

import pytest

from fleethook.cluster.store import ObjectKey
from fleethook.engines.overrider.pages.matrix_rows_and_addresses import (
    COLUMNS_ON_A_PAGE,
    MAX_TEXT,
    MatrixPage,
    MatrixQuery,
    SubjectRow,
    cell_url,
    find_part,
    list_running,
    list_subject_keys,
    matrix_url,
    overrider_url,
    parse_cell,
    parse_overrider_key,
    parse_query,
    select,
)
from fleethook.model.openyurt import YURT_APP_OVERRIDER, YURT_APP_SET
from tests.builders import (
    workload,
    yurt_app_daemon,
    yurt_app_set,
)
from tests.engines.overrider.pages.fleet_stores import DEMO, cell_key, make_store

HOSTILE_NAME = "a&b=c d/ü?#<script>\u202e\"'+%00"


def parameters(address: str) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(address).query, keep_blank_values=True))


@pytest.mark.parametrize(
    "query",
    [
        MatrixQuery(),
        MatrixQuery(subject=HOSTILE_NAME, pool=HOSTILE_NAME),
        MatrixQuery(page=7),
        MatrixQuery(columns=12),
    ],
)
def test_the_address_of_a_view_is_read_back(query: MatrixQuery) -> None:
    assert parse_query(parameters(matrix_url(query))) == query


def test_the_first_view_has_a_plain_address() -> None:
    assert matrix_url(MatrixQuery()) == "/overriders"


@pytest.mark.parametrize("text", ["", "x", "-1", "0", "1.5", "9" * 400, "²"])
def test_a_page_that_is_no_number_is_the_first(text: str) -> None:
    assert parse_query({"page": text, "columns": text}) == MatrixQuery()


def test_unknown_values_are_ignored_and_long_texts_cut() -> None:
    found = parse_query({"state": "x", "subject": "s" * 5_000})
    assert found == MatrixQuery(subject="s" * MAX_TEXT)


def test_the_address_of_a_cell_is_read_back() -> None:
    key = cell_key(HOSTILE_NAME, subject=DEMO._replace(name=HOSTILE_NAME, namespace="", cluster="root:a"))
    assert parse_cell(parameters(cell_url(key))) == key
    assert parameters(cell_url(key, everything=True))["all"] == "1"


def test_the_address_of_an_overrider_is_read_back() -> None:
    key = ObjectKey("root:a", YURT_APP_OVERRIDER, "shop", HOSTILE_NAME)
    assert parse_overrider_key(parameters(overrider_url(key, HOSTILE_NAME))) == key
    assert parameters(overrider_url(key, HOSTILE_NAME))["at"] == HOSTILE_NAME
    assert "at" not in parameters(overrider_url(key))


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("entries[0].items[1]: no container is named 'x'; there are: y", "entries[0].items[1]"),
        ("subject.name: is not known", "subject.name"),
        ("node pools a, b: entries[0]: x", ""),
        ("entries[0] changes nothing", ""),
    ],
)
def test_a_message_names_the_part_that_it_is_about(text: str, part: str) -> None:
    assert find_part(text) == part


def test_subjects_are_sorted_by_namespace_and_name() -> None:
    store = make_store(yurt_app_set("b"), yurt_app_daemon("a"))
    assert [key.name for key in list_subject_keys(store)] == ["a", "b"]


def test_running_workloads_are_found_by_pool_without_deleted_ones() -> None:
    deleting = workload(pool="beijing")
    deleting["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    found = list_running(make_store(yurt_app_set(), workload(), deleting), DEMO, "Deployment")
    assert {name: [one.name for one in workloads] for name, workloads in found.items()} == {
        "hangzhou": ["demo-hangzhou-x"]
    }


def row(name: str, *pools: str, kinds: Sequence[str] = ("Deployment",), overrider: str = "") -> SubjectRow:
    return SubjectRow(ObjectKey("", YURT_APP_SET, "shop", name), pools, kinds, overrider)


ROWS = [row("api", "beijing", "hangzhou", overrider="special"), row("web", "hangzhou", "jinan")]


def names(selection: MatrixPage) -> list[str]:
    return [f"{one.subject.name}_{one.pool}" for one in selection.cells]


def test_the_table_has_the_pools_of_the_shown_subjects_as_columns() -> None:
    found = select(ROWS, MatrixQuery())
    assert [one.key.name for one in found.rows] == ["api", "web"]
    assert found.columns == ["beijing", "hangzhou", "jinan"]
    assert names(found) == ["api_beijing", "api_hangzhou", "web_hangzhou", "web_jinan"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (MatrixQuery(subject="API"), ["api_beijing", "api_hangzhou"]),
        (MatrixQuery(subject="special"), ["api_beijing", "api_hangzhou"]),
        (MatrixQuery(subject="shop/we"), ["web_hangzhou", "web_jinan"]),
        (MatrixQuery(pool="HANG"), ["api_hangzhou", "web_hangzhou"]),
        (MatrixQuery(subject="web", pool="jinan"), ["web_jinan"]),
        (MatrixQuery(subject="none"), []),
    ],
)
def test_texts_filter_subjects_and_pools(query: MatrixQuery, expected: list[str]) -> None:
    assert names(select(ROWS, query)) == expected


def test_a_subject_without_pools_has_a_row_unless_a_filter_needs_a_pool() -> None:
    rows = [*ROWS, row("idle")]
    assert [one.key.name for one in select(rows, MatrixQuery()).rows] == ["api", "web", "idle"]
    assert [one.key.name for one in select(rows, MatrixQuery(pool="jinan")).rows] == ["web"]


def test_thousands_of_pools_are_on_pages_of_columns() -> None:
    pools = [f"p{number:04}" for number in range(5_000)]
    found = select([row("api", *pools)], MatrixQuery(columns=2))
    assert found.columns == pools[COLUMNS_ON_A_PAGE : 2 * COLUMNS_ON_A_PAGE]
    assert len(found.cells) == COLUMNS_ON_A_PAGE
    assert found.column_paging.pages == -(-5_000 // COLUMNS_ON_A_PAGE)
