"""The section ``/reviews``: the search for recorded reviews, one review, and reviews asked again ("and now?")."""

import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

from fastapi import APIRouter
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse

from fleethook.cluster.store import ObjectKey, Store
from fleethook.console.context import MUTATING, VALIDATING, ConsoleContext, Hit, engine_pages, list_addresses
from fleethook.console.forms_and_guard import FormFields
from fleethook.console.page_frame import SAME, Context, render, take_page
from fleethook.console.reviews.review_detail_and_replay import (
    ReplayJob,
    ReviewReplay,
    ShownCall,
    describe_outcome,
    describe_review,
    list_columns,
)
from fleethook.console.reviews.review_index import VERDICTS, Indexed, ReviewIndex, ReviewSummary
from fleethook.console.shared_value import KeptValue
from fleethook.recordings.replay.decision_changes import describe_change

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


router: Final = APIRouter(prefix="/reviews")
_NO_RECORDS: Final = "There are no recordings: start the console with --records DIR."


def _describe_emptiness(context: ConsoleContext, indexed: Indexed) -> tuple[str, str]:
    """Return the reason why there is no review at all and the command that makes some, ``""`` if there are reviews."""
    if context.reviews is None:
        return f"{_NO_RECORDS} This server records reviews:", "fleethook serve --record DIR"
    if indexed.reviews or indexed.is_reading:
        return "", ""
    command = shlex.join(["fleethook", "serve", "--record", str(context.records or "DIR")])
    return "There are no reviews in the directory yet. This server records reviews:", command


@router.get("")
async def show_list(request: Request, context: Context) -> HTMLResponse:
    """Show the reviews that a search finds."""
    query = parse_query(request.query_params)
    indexed = Indexed() if context.reviews is None else await context.reviews.find()
    found = await context.worker.run("", find_reviews, indexed.reviews, query)
    selection = select_page(found, query.page)
    notice, advice = _describe_emptiness(context, indexed)
    return render(
        request,
        "reviews/list.html",
        command=_make_command(context, query),
        command_title=_title_command(query),
        notice=notice,
        advice=advice,
        indexed=indexed,
        query=query,
        selection=selection,
        choices=await context.worker.run("", list_choices, indexed.reviews),
        verdicts=VERDICTS,
        sorts=SORTS,
        page_url=lambda page: f"/reviews?{encode_query(query, page=page)}",
        verdict_url=lambda name: f"/reviews?{encode_query(query, verdict=name, page=1)}",
        replay_url=f"/reviews/replay?{encode_query(query, page=1)}",
        review_url=lambda one: review_url(indexed, one),
    )


@router.get("/review")
async def show_review(request: Request, context: Context, file: str, line: int, now: bool = False) -> HTMLResponse:  # noqa: FBT001, FBT002 - a parameter of the URL
    """Show one review and, on request, its outcome with the current objects."""
    index, replay = _need_records(context)
    await index.find()
    summary = index.locate(file, line)
    entries = [] if summary is None else await index.load([summary])
    if summary is None or not entries:
        raise HTTPException(404, f"there is no review at line {line} of {file}; its file may have been deleted")
    detail = describe_review(entries[0])
    results = await replay.replay(entries) if now else []
    here = {"file": file, "line": line}
    return render(
        request,
        "reviews/review.html",
        command=_make_command(context, ReviewQuery(route=summary.route)),
        command_title="All reviews of the route, asked again on the command line",
        one=summary,
        file=file,
        detail=detail,
        related=_find_related(context.store, summary),
        call_urls=_find_configurations(context.store, summary, detail.calls),
        outcome=describe_outcome(results[0]) if results else None,
        columns=list_columns,
        now_url=f"/reviews/review?{urlencode({**here, 'now': '1'})}#now",
    )


@router.post("/replay")
async def start_replay(request: Request, context: Context, fields: FormFields) -> RedirectResponse:
    """Start to ask the reviews that a search finds again, or stop it, and lead to the page that shows the progress."""
    index, replay = _need_records(context)
    query = parse_query(request.query_params)._replace(page=1)
    job = _JOB.find(request).find(query)
    if fields.get("action") == "stop":
        if job is not None:
            job.stop()
    else:
        await _begin(request, context, query, index=index, replay=replay)
    return RedirectResponse(f"/reviews/replay?{encode_query(query)}", status_code=303)


@router.get("/replay")
async def show_replay(request: Request, context: Context, resume: bool = False) -> HTMLResponse:  # noqa: FBT001, FBT002 - a parameter of the URL
    """Ask the next reviews of the job again, and show the changes so far.

    Without a job, start one. A request that resumes does not: otherwise two open pages would drop each other's job.
    """
    index, replay = _need_records(context)
    query = parse_query(request.query_params)._replace(page=1)
    here = f"/reviews/replay?{encode_query(query)}"
    job = _JOB.find(request).find(query)
    if job is None and resume:
        return render(request, "reviews/replaced.html", here=here, list_url=f"/reviews?{encode_query(query)}")
    if job is None:
        job = await _begin(request, context, query, index=index, replay=replay)
    await job.advance(replay, context.worker)
    groups = job.list_groups()
    return render(
        request,
        "reviews/replay.html",
        command=_make_command(context, query),
        command_title=SAME if not _selects_more(query) else _title_command(query),
        query=query,
        selects_more=_selects_more(query),
        job=job,
        are_objects_changed=job.version != replay.version,
        rows=[(one, describe_change(one.example)) for one in groups],
        groups_left_out=len(job.report.groups) - len(groups),
        here=here,
        resume_url=f"/reviews/replay?{encode_query(query)}&resume=1",
        list_url=f"/reviews?{encode_query(query)}",
        change_url=lambda change: (
            f"/reviews/review?{urlencode({'file': change.file, 'line': change.line, 'now': '1'})}#now"
        ),
    )


def _find_related(store: Store, summary: ReviewSummary) -> list[Hit]:
    """Return the pages of a review's object, and of the objects that decide about it; none of an unknown object."""
    key = ObjectKey(summary.cluster, summary.group_kind, summary.namespace, summary.name)
    finders = [one.related[key.group_kind] for one in engine_pages() if key.group_kind in one.related]
    found = [key, *(other for find in finders if (other := find(store, key)) is not None)]
    return [hit for one in found if (hit := _find_page(store, one)) is not None]


def _find_configurations(store: Store, summary: ReviewSummary, calls: Sequence[ShownCall]) -> list[Hit | None]:
    """Return the page of each call's configuration, None if it has none; mutating and validating ones share names."""
    hooks = (MUTATING, VALIDATING) if "mutate" in summary.route else (VALIDATING, MUTATING)
    kinds = (*hooks, *(kind for kind in list_addresses() if kind not in hooks))
    pages: list[Hit | None] = []
    for call in calls:
        name = call.name.partition("/")[0]
        keys = [ObjectKey(call.cluster, kind, "", name) for kind in kinds] if call.kind != "read" else []
        found = [hit for key in keys if (hit := _find_page(store, key)) is not None]
        pages.append(found[0] if found else None)
    return pages


def _find_page(store: Store, key: ObjectKey) -> Hit | None:
    """Return the page of a stored object, None without one."""
    find_address = list_addresses().get(key.group_kind)
    if find_address is None or store.get(*key) is None:
        return None
    return Hit(f"{key.group_kind.kind} {key.path}", key.cluster, find_address(store, key))


async def _begin(
    request: Request, context: ConsoleContext, query: ReviewQuery, *, index: ReviewIndex, replay: ReviewReplay
) -> ReplayJob:
    indexed = await index.find()
    found = await context.worker.run("", find_reviews, indexed.reviews, query)
    job, latest = ReplayJob(found, replay.version, index.each(found)), _JOB.find(request)
    latest.query, latest.job = query, job
    return job


class _Latest:
    """The last job of the console; a new one takes its place."""

    def __init__(self, _context: ConsoleContext) -> None:
        self.query = ReviewQuery()
        self.job: ReplayJob | None = None

    def find(self, query: ReviewQuery) -> ReplayJob | None:
        """Return the job if it is for a search, else None."""
        return self.job if self.query == query else None


_JOB: Final = KeptValue(_Latest)


def _need_records(context: ConsoleContext) -> tuple[ReviewIndex, ReviewReplay]:
    if context.reviews is None or context.replay is None:
        raise HTTPException(404, _NO_RECORDS)
    return context.reviews, context.replay


def review_url(indexed: Indexed, review: ReviewSummary) -> str:
    """Return the address of a recorded review."""
    return f"/reviews/review?{urlencode({'file': indexed.files[review.file], 'line': review.line})}"


def _selects_more(query: ReviewQuery) -> bool:
    """Return whether a search has conditions that the command has no options for."""
    return query._replace(route="", sort=SORTS[0], page=1) != ReviewQuery()


def _title_command(query: ReviewQuery) -> str:
    shown = "The reviews of the route" if _selects_more(query) else "These reviews"
    return f"{shown}, asked again on the command line"


def _make_command(context: ConsoleContext, query: ReviewQuery) -> str:
    if context.records is None:
        return ""
    words = ["fleethook", "replay", str(context.records)]
    words += ["--route", query.route] if query.route else []
    return f"{shlex.join(words)} {context.command_source}"
