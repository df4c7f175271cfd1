"""The search for recorded reviews."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

from fleethook.console.rendering import take_page
from fleethook.console.reviews.review_index import VERDICTS, ReviewSummary

PAGE_SIZE: Final = 100
SORTS: Final = ("newest", "oldest", "slowest")
MAX_TEXT: Final = 300
"""Characters of a filter; the rest is ignored."""


class ReviewQuery(NamedTuple):
    """A search. An empty member selects every review.

    Attributes:
        route: A template of a route.
        kind: A kind, without its group.
        text: A part of ``namespace/name``, without regard to case, or a uid.
        cluster: A logical cluster.
        verdict: One of `VERDICTS`.
        slower: Milliseconds; only reviews that took at least as long.
        since: An RFC 3339 time in UTC, or its beginning; only reviews from then on.
        until: Only reviews before this time.
        sort: One of `SORTS`.
        page: The number of the page, from 1.
    """

    route: str = ""
    kind: str = ""
    text: str = ""
    cluster: str = ""
    verdict: str = ""
    slower: float = 0.0
    since: str = ""
    until: str = ""
    sort: str = SORTS[0]
    page: int = 1


class ReviewPage(NamedTuple):
    """One page of the reviews that a search found.

    Attributes:
        reviews: The reviews of the page.
        total: The number of all that were found.
        page: The number of the page.
        pages: The number of pages, at least 1.
        verdicts: The number of found reviews by verdict.
        slowest: The longest duration among them, in seconds.
    """

    reviews: Sequence[ReviewSummary]
    total: int
    page: int
    pages: int
    verdicts: Mapping[str, int]
    slowest: float


def parse_query(values: Mapping[str, str]) -> ReviewQuery:
    """Return the search in the query of a URL. Values that cannot be read select everything."""
    texts = {name: values.get(name, "")[:MAX_TEXT].strip() for name in ReviewQuery._fields}
    return ReviewQuery(
        route=texts["route"],
        kind=texts["kind"],
        text=texts["text"],
        cluster=texts["cluster"],
        verdict=texts["verdict"] if texts["verdict"] in VERDICTS else "",
        slower=_read_number(texts["slower"]),
        since=texts["since"].replace(" ", "T", 1),
        until=texts["until"].replace(" ", "T", 1),
        sort=texts["sort"] if texts["sort"] in SORTS else SORTS[0],
        page=max(1, int(_read_number(texts["page"]))),
    )


def _read_number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        return 0.0
    return number if 0 <= number < 1e9 else 0.0


def encode_query(query: ReviewQuery, **changes: object) -> str:
    """Return a search as the query of a URL, without members that have their default."""
    changed = query._replace(**changes)  # type: ignore[arg-type]
    default = ReviewQuery()
    pairs = zip(ReviewQuery._fields, changed, default, strict=True)
    return urlencode(
        {name: f"{value:g}" if name == "slower" else value for name, value, usual in pairs if value != usual}
    )


def find_reviews(reviews: Sequence[ReviewSummary], query: ReviewQuery) -> list[ReviewSummary]:
    """Return the reviews that a search finds, in its order; ``reviews`` are all, oldest first."""
    found = list(reviews)
    for condition in _list_conditions(query):
        found = list(filter(condition, found))
    found.sort(key=_ORDERS[query.sort], reverse=query.sort != "oldest")
    return found


_ORDERS: Final[Mapping[str, Callable[[ReviewSummary], Any]]] = {
    "newest": lambda one: (one.time, one.file, one.line),
    "oldest": lambda one: (one.time, one.file, one.line),
    "slowest": lambda one: (one.seconds, one.time),
}


def _list_conditions(query: ReviewQuery) -> Iterator[Callable[[ReviewSummary], bool]]:
    """Yield the conditions of the members that are set, the cheap ones first."""
    if query.slower:
        seconds = query.slower / 1000
        yield lambda one: one.seconds >= seconds
    if query.verdict:
        yield lambda one: one.verdict == query.verdict
    if query.kind:
        yield lambda one: one.kind == query.kind
    if query.route:
        yield lambda one: one.route == query.route
    if query.cluster:
        yield lambda one: one.cluster == query.cluster
    if query.since:
        yield lambda one: one.time >= query.since
    if query.until:
        yield lambda one: one.time < query.until
    if query.text:
        text = query.text.casefold()
        yield lambda one: text in f"{one.namespace}/{one.name}".casefold() or query.text == one.uid


def select_page(reviews: Sequence[ReviewSummary], page: int) -> ReviewPage:
    """Return a page of found reviews; a page beyond the end is the last one."""
    shown, paging = take_page(reviews, page, PAGE_SIZE)
    counts = Counter(one.verdict for one in reviews)
    verdicts = {name: counts[name] for name in VERDICTS if counts[name]}
    slowest = max((one.seconds for one in reviews), default=0.0)
    return ReviewPage(shown, len(reviews), paging.page, paging.pages, verdicts, slowest)


class Choices(NamedTuple):
    """The values that occur, for the fields of the search."""

    routes: Sequence[str]
    kinds: Sequence[str]
    clusters: Sequence[str]


def list_choices(reviews: Sequence[ReviewSummary]) -> Choices:
    """Return the routes, kinds and logical clusters of some reviews, sorted."""
    return Choices(
        sorted({one.route for one in reviews}),
        sorted({one.kind for one in reviews} - {""}),
        sorted({one.cluster for one in reviews} - {""}),
    )
