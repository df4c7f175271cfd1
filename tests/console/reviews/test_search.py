"""The search for recorded reviews."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleethook.console.reviews.search import (
    PAGE_SIZE,
    SORTS,
    Query,
    encode_query,
    find_reviews,
    list_choices,
    parse_query,
    select_page,
)
from fleethook.console.reviews.summary import VERDICTS, ReviewSummary


def summary(number: int = 0, **members: Any) -> ReviewSummary:
    known: dict[str, Any] = {
        "file": 0, "line": number, "time": f"2026-11-22T10:00:{number:02}.000000Z", "route": "/r", "cluster": "",
        "group": "apps", "kind": "Deployment", "namespace": "shop", "name": f"web-{number}", "operation": "CREATE",
        "verdict": "allowed", "seconds": number / 1000, "uid": f"u-{number}",
    }  # fmt: skip
    return ReviewSummary(**{**known, **members})


def lines(query: Query, *reviews: ReviewSummary) -> list[int]:
    return [one.line for one in find_reviews(reviews, query)]


REVIEWS = [
    summary(1, route="/a", verdict="patched"),
    summary(2, kind="StatefulSet", cluster="root:a"),
    summary(3, name="Other", verdict="denied", uid="abc"),
]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        (Query(), [3, 2, 1]),
        (Query(route="/a"), [1]),
        (Query(kind="StatefulSet"), [2]),
        (Query(cluster="root:a"), [2]),
        (Query(verdict="denied"), [3]),
        (Query(text="SHOP/OTHER"), [3]),
        (Query(text="abc"), [3]),
        (Query(text="ABC"), []),
        (Query(text="web"), [2, 1]),
        (Query(slower=2), [3, 2]),
        (Query(since="2026-11-22T10:00:02"), [3, 2]),
        (Query(until="2026-11-22T10:00:02"), [1]),
        (Query(sort="oldest"), [1, 2, 3]),
        (Query(sort="slowest", verdict=""), [3, 2, 1]),
        (Query(kind="Deployment", text="web"), [1]),
    ],
)
def test_a_search_finds_the_matching_reviews_in_its_order(query: Query, found: list[int]) -> None:
    assert lines(query, *REVIEWS) == found


def test_pages_have_an_end() -> None:
    found = find_reviews([summary(number % 60) for number in range(PAGE_SIZE + 1)], Query())
    first, beyond = select_page(found, 1), select_page(found, 99)
    assert (len(first.reviews), first.pages, first.total) == (PAGE_SIZE, 2, PAGE_SIZE + 1)
    assert (len(beyond.reviews), beyond.page) == (1, 2)
    assert (first.verdicts, first.slowest) == ({"allowed": PAGE_SIZE + 1}, 0.059)
    assert select_page([], 1).pages == 1


TIMES = st.text(st.characters(exclude_characters=" "), max_size=9).map(str.strip)


@given(
    st.builds(
        Query,
        route=st.text(max_size=9).map(str.strip), kind=st.text(max_size=9).map(str.strip),
        text=st.text(max_size=9).map(str.strip), cluster=st.text(max_size=9).map(str.strip),
        verdict=st.sampled_from(["", *VERDICTS]), slower=st.integers(0, 9999).map(float),
        since=TIMES, until=TIMES,
        sort=st.sampled_from(SORTS), page=st.integers(1, 99),
    )
)  # fmt: skip
def test_a_url_keeps_its_search(query: Query) -> None:
    from urllib.parse import parse_qsl  # noqa: PLC0415 - beside its one use

    assert parse_query(dict(parse_qsl(encode_query(query), keep_blank_values=True))) == query


@pytest.mark.parametrize(
    "values",
    [
        {"page": "x"},
        {"page": "-1"},
        {"slower": "nan"},
        {"slower": "inf"},
        {"verdict": "<b>"},
        {"sort": "x"},
        {"page": "1e99"},
    ],
)
def test_values_that_cannot_be_read_select_everything(values: dict[str, str]) -> None:
    assert parse_query(values) == Query()


def test_the_choices_are_the_values_that_occur() -> None:
    choices = list_choices([*REVIEWS, summary(4, kind="")])
    assert choices == (["/a", "/r"], ["Deployment", "StatefulSet"], ["root:a"])
