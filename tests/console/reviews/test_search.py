"""The search for recorded reviews."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleethook.console.reviews.review_index import VERDICTS, ReviewSummary
from fleethook.console.reviews.search import (
    SORTS,
    ReviewQuery,
    encode_query,
    find_reviews,
    list_choices,
    parse_query,
)


def summary(number: int = 0, **members: Any) -> ReviewSummary:
    known: dict[str, Any] = {
        "file": 0, "line": number, "time": f"2026-11-22T10:00:{number:02}.000000Z", "route": "/r", "cluster": "",
        "group": "apps", "kind": "Deployment", "namespace": "shop", "name": f"web-{number}", "operation": "CREATE",
        "verdict": "allowed", "seconds": number / 1000, "uid": f"u-{number}",
    }  # fmt: skip
    return ReviewSummary(**{**known, **members})


def lines(query: ReviewQuery, *reviews: ReviewSummary) -> list[int]:
    return [one.line for one in find_reviews(reviews, query)]


REVIEWS = [
    summary(1, route="/a", verdict="patched"),
    summary(2, kind="StatefulSet", cluster="root:a"),
    summary(3, name="Other", verdict="denied", uid="abc"),
]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        (ReviewQuery(), [3, 2, 1]),
        (ReviewQuery(route="/a"), [1]),
        (ReviewQuery(kind="StatefulSet"), [2]),
        (ReviewQuery(cluster="root:a"), [2]),
        (ReviewQuery(verdict="denied"), [3]),
        (ReviewQuery(text="SHOP/OTHER"), [3]),
        (ReviewQuery(text="abc"), [3]),
        (ReviewQuery(text="ABC"), []),
        (ReviewQuery(text="web"), [2, 1]),
        (ReviewQuery(slower=2), [3, 2]),
        (ReviewQuery(since="2026-11-22T10:00:02"), [3, 2]),
        (ReviewQuery(until="2026-11-22T10:00:02"), [1]),
        (ReviewQuery(sort="oldest"), [1, 2, 3]),
        (ReviewQuery(sort="slowest", verdict=""), [3, 2, 1]),
        (ReviewQuery(kind="Deployment", text="web"), [1]),
    ],
)
def test_a_search_finds_the_matching_reviews_in_its_order(query: ReviewQuery, found: list[int]) -> None:
    assert lines(query, *REVIEWS) == found


TIMES = st.text(st.characters(exclude_characters=" "), max_size=9).map(str.strip)


@given(
    st.builds(
        ReviewQuery,
        route=st.text(max_size=9).map(str.strip), kind=st.text(max_size=9).map(str.strip),
        text=st.text(max_size=9).map(str.strip), cluster=st.text(max_size=9).map(str.strip),
        verdict=st.sampled_from(["", *VERDICTS]), slower=st.integers(0, 9999).map(float),
        since=TIMES, until=TIMES,
        sort=st.sampled_from(SORTS), page=st.integers(1, 99),
    )
)  # fmt: skip
def test_a_url_keeps_its_search(query: ReviewQuery) -> None:
    from urllib.parse import parse_qsl  # noqa: PLC0415 - beside its one use

    assert parse_query(dict(parse_qsl(encode_query(query), keep_blank_values=True))) == query


def test_the_choices_are_the_values_that_occur() -> None:
    choices = list_choices([*REVIEWS, summary(4, kind="")])
    assert choices == (["/a", "/r"], ["Deployment", "StatefulSet"], ["root:a"])
