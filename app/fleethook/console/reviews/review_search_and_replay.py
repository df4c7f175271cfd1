"""The search for recorded reviews, and jobs that ask the found ones again, some at each request of the page.

A job works only while somebody asks for its page. So a job that nobody watches any more stops without a clock.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

from fleethook.app import Fleethook
from fleethook.cluster.partial_and_stale_objects import PARTIAL_KINDS
from fleethook.cluster.store import ObjectKey, Store, Stored
from fleethook.console.page_frame import take_page
from fleethook.console.reviews.review_index import VERDICTS, ReviewSummary
from fleethook.recordings.recording_format import RecordEntry
from fleethook.recordings.replay.review_replay import OFFLINE, ChangeGroup, Replayed, Report, batch, replay_reviews
from fleethook.settings import Settings
from fleethook.work.threads_and_gc import Worker

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
    counts = Counter(review.verdict for review in reviews)
    verdicts = {name: counts[name] for name in VERDICTS if counts[name]}
    slowest = max((review.seconds for review in reviews), default=0.0)
    return ReviewPage(shown, len(reviews), paging.page, paging.pages, verdicts, slowest)


class Choices(NamedTuple):
    """The values that occur, for the fields of the search."""

    routes: Sequence[str]
    kinds: Sequence[str]
    clusters: Sequence[str]


def list_choices(reviews: Sequence[ReviewSummary]) -> Choices:
    """Return the routes, kinds and logical clusters of some reviews, sorted."""
    return Choices(
        sorted({review.route for review in reviews}),
        sorted({review.kind for review in reviews} - {""}),
        sorted({review.cluster for review in reviews} - {""}),
    )


# Reviews between two pauses for other requests; each takes 0.1 ms, or some milliseconds if a plan is compiled.
_PORTION: Final = 8


class ReviewReplay:
    """Decides with this build and the objects of a store. Webhooks and scripts answer as recorded."""

    def __init__(self, store: Store) -> None:
        """Prepare.

        Args:
            store: The objects, with the indexes of `fleethook.app.list_indexes`. It is still empty: the engines follow
                its changes.
        """
        self._app: Final = Fleethook(Settings(**OFFLINE), log=None, is_replay=True, store=store)
        # The calls of a review are in the context of one task, and an engine may answer only one review at a time.
        self._turn: Final = asyncio.Lock()
        self.version = 0
        """Changes with each object that reviews depend on."""
        store.subscribe(self._note_change)

    async def replay(self, entries: Sequence[RecordEntry]) -> list[Replayed]:
        """Return the result of asking reviews again, in their order."""
        found: list[Replayed] = []
        for start in range(0, len(entries), _PORTION):
            async with self._turn:
                await replay_reviews(entries[start : start + _PORTION], self._app.find_endpoint, found.append)
        return found

    def _note_change(self, key: ObjectKey, _before: Stored | None, _after: object) -> None:
        self.version += key.group_kind not in PARTIAL_KINDS

    async def close(self) -> None:
        """End the threads and the clients of the engines."""
        await self._app.close()


class ChangedReview(NamedTuple):
    """A review with another outcome.

    Attributes:
        file: The file with its record.
        line: The line of the record.
        subject: The object under review.
        kinds: The parts of the outcome that differ.
    """

    file: str
    line: int
    subject: str
    kinds: tuple[str, ...]


MAX_CHANGED: Final = 1_000
"""Changed reviews of a job that have a link; further ones are counted."""
MAX_GROUPS: Final = 50
"""Groups of changes of a job that its page shows."""
REVIEWS_IN_A_REQUEST: Final = 512
_BYTES_IN_A_REQUEST: Final = 32 << 20


class ReplayJob:
    """One search whose reviews are asked again, in the order of their files and lines.

    Attributes:
        query: The search.
        reviews: The reviews that it found when the job started.
        version: The version of the objects then, as `ReviewReplay.version`.
        report: The result so far, which equals that of ``fleethook replay`` for the same reviews.
        changed: The changed reviews with a link.
        is_stopped: Whether the user stopped the job.
        is_done: Whether all reviews were asked, except those that are not in the files any more.
    """

    def __init__(
        self, query: ReviewQuery, reviews: Sequence[ReviewSummary], version: int, entries: Iterator[RecordEntry]
    ) -> None:
        """Prepare; ``entries`` reads the records of the reviews, and a thread continues it."""
        self.query: Final = query
        self.reviews: Final = reviews
        self.version: Final = version
        self.report: Final = Report()
        self.changed: Final[list[ChangedReview]] = []
        self.is_stopped = False
        self.is_done = False
        self._portions: Iterator[list[RecordEntry]] = batch(
            entries, count=REVIEWS_IN_A_REQUEST, size=_BYTES_IN_A_REQUEST
        )
        self._turn: Final = asyncio.Lock()

    @property
    def is_running(self) -> bool:
        """Whether another request would ask more reviews."""
        return not (self.is_done or self.is_stopped)

    @property
    def gone(self) -> int:
        """The number of reviews that are not in the files any more."""
        return len(self.reviews) - self.report.reviews if self.is_done else 0

    def list_groups(self) -> list[ChangeGroup]:
        """Return the largest groups of changes, `MAX_GROUPS` at most."""
        return sorted(self.report.groups.values(), key=lambda one: -one.count)[:MAX_GROUPS]

    async def advance(self, replay: ReviewReplay, worker: Worker) -> None:
        """Ask the next reviews."""
        async with self._turn:
            if not self.is_running:
                return
            portion: list[RecordEntry] = await worker.run("", next, self._portions, [])
            for one in await replay.replay(portion):
                self._add(one)
            if not portion or self.report.reviews == len(self.reviews):
                self.is_done = True
                self._close()

    def stop(self) -> None:
        """Ask no further reviews."""
        self.is_stopped = not self.is_done
        self._close()

    def _close(self) -> None:
        """Drop the iterator, which closes its file as soon as no thread continues it."""
        self._portions = iter(())

    def _add(self, one: Replayed) -> None:
        self.report.add(one)
        if (change := one.change) is not None and len(self.changed) < MAX_CHANGED:
            self.changed.append(ChangedReview(change.file, change.line, str(change.subject), change.kinds))
