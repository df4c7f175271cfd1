"""The section ``/reviews``: the search for recorded reviews, one review, and reviews asked again ("and now?")."""

import json
import shlex
from collections.abc import Sequence
from typing import Final, NamedTuple
from urllib.parse import urlencode

import msgspec
from fastapi import APIRouter
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse

from fleethook.cluster.store import ObjectKey, Store
from fleethook.console.context import MUTATING, VALIDATING, ConsoleContext, Hit, engine_pages, list_addresses
from fleethook.console.forms_and_guard import FormFields
from fleethook.console.page_frame import SAME, Context, render
from fleethook.console.reviews.review_index import (
    VERDICTS,
    Indexed,
    ReviewIndex,
    ReviewSummary,
    classify,
    read_recorded_outcome,
)
from fleethook.console.reviews.review_search_and_replay import (
    SORTS,
    ReplayJob,
    ReviewQuery,
    ReviewReplay,
    encode_query,
    find_reviews,
    list_choices,
    parse_query,
    select_page,
)
from fleethook.console.shared_value import KeptValue
from fleethook.model.formats.text import shorten
from fleethook.model.json import JSON, as_object
from fleethook.patch import PatchError, apply
from fleethook.recordings.recording_format import BodyError, RecordedCall, RecordEntry, unwrap_body
from fleethook.recordings.replay.decision_changes import (
    UNDECIDABLE,
    DiffLine,
    OutcomeDifference,
    describe_change,
    describe_difference,
)
from fleethook.recordings.replay.review_replay import Replayed

MAX_CHARACTERS: Final = 100_000
"""Characters of the shown review."""
_MAX_ANSWER: Final = 20_000
MAX_DEPTH: Final = 12
"""Levels of a value that a page shows as a structure. An explanation has five."""


class ShownValue(NamedTuple):
    """A value of a record.

    Attributes:
        text: The value as JSON, cut to a number of characters.
        value: The value.
        is_structure: Whether a page can show a structure: the value is not cut, and has at most `MAX_DEPTH` levels.
    """

    text: str
    value: JSON
    is_structure: bool


def show_value(value: JSON, limit: int) -> ShownValue:
    """Return a value for a page.

    Args:
        value: The value.
        limit: The most characters of the text.
    """
    text = _dump(value)
    is_structure = len(text) <= limit and isinstance(value, dict | list) and _has_levels(value, MAX_DEPTH)
    return ShownValue(shorten(text, limit), value, is_structure)


def _has_levels(value: JSON, most: int) -> bool:
    """Return whether a value has at most so many levels of objects and arrays."""
    if not isinstance(value, dict | list):
        return True
    inner = value.values() if isinstance(value, dict) else value
    return most > 0 and all(_has_levels(one, most - 1) for one in inner)


def list_columns(rows: Sequence[JSON]) -> list[str]:
    """Return the columns of a table of objects, in the order of their first use; none if a row is no object."""
    if not all(isinstance(row, dict) for row in rows):
        return []
    return list(dict.fromkeys(name for row in rows for name in as_object(row)))


class ShownCall(NamedTuple):
    """A webhook, a script or a read that the answer depended on.

    Attributes:
        kind: ``webhook``, ``script`` or ``read``.
        name: Its name, with its configuration.
        cluster: The logical cluster of the configuration.
        key: The key that tells it apart from others of the review.
        answer: The answer, None if there is none.
        error: The reason why there is no answer.
    """

    kind: str
    name: str
    cluster: str
    key: str
    answer: ShownValue | None
    error: str


class ReviewDetail(NamedTuple):
    """One recorded review.

    Attributes:
        verdict: The verdict, as in a summary.
        status: The HTTP status.
        code: Code and reason of a refusal.
        message: The message and the causes of a refusal.
        warnings: The warnings.
        changes: The changes of the object, as lines: ``-`` before, ``+`` after.
        result: The result of an interpreter, or an explanation; None without one.
        calls: The calls that the answer depended on.
        review: The body as JSON.
        redacted: Whether values were replaced by hashes.
    """

    verdict: str
    status: int
    code: str
    message: Sequence[str]
    warnings: Sequence[str]
    changes: Sequence[DiffLine]
    result: ShownValue | None
    calls: Sequence[ShownCall]
    review: str
    redacted: bool


def describe_review(entry: RecordEntry) -> ReviewDetail:
    """Return the parts of a record for its page."""
    record, outcome = entry.record, read_recorded_outcome(entry)
    document = _read_review(entry)
    return ReviewDetail(
        verdict=classify(outcome),
        status=outcome.status,
        code=outcome.code,
        message=outcome.message,
        warnings=outcome.warnings,
        changes=list_changes(document, outcome.patch),
        result=None if outcome.result is None else show_value(outcome.result, MAX_CHARACTERS),
        calls=[_describe_call(call) for call in record.calls],
        review=shorten(_dump(document), MAX_CHARACTERS),
        redacted=record.redacted,
    )


def list_changes(review: JSON, patch: JSON) -> list[DiffLine]:
    """Return the changes that a patch makes to the object of a review, as lines.

    Args:
        review: The review.
        patch: The operations, or the reason why they cannot be read; None without a patch.
    """
    if patch is None:
        return []
    before = as_object(as_object(review).get("request")).get("object")
    if isinstance(patch, str):
        return [DiffLine(" ", patch)]
    try:
        after = apply(before, patch)
    except PatchError as error:
        return [DiffLine(" ", f"the patch does not apply: {error}")]
    return list(describe_difference(OutcomeDifference("object", before, after)))


def _read_review(entry: RecordEntry) -> JSON:
    try:
        body = unwrap_body(entry.record.review)
    except BodyError as error:
        return str(error)
    try:
        document: JSON = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return body.decode(errors="replace")
    return document


def _describe_call(call: RecordedCall) -> ShownCall:
    name = f"{call.configuration}/{call.name}" if call.configuration else call.name
    answer = None if call.answer is msgspec.UNSET else _show_answer(call.answer)
    return ShownCall(call.kind, name, call.cluster, call.key, answer, call.error)


def _show_answer(raw: msgspec.Raw) -> ShownValue:
    try:
        value: JSON = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        value = bytes(raw).decode(errors="replace")
    return show_value(value, _MAX_ANSWER)


def _dump(value: JSON) -> str:
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)


class ReplayOutcome(NamedTuple):
    """The result for one review.

    Attributes:
        state: ``same``, ``changed``, ``undecidable`` or ``skipped``.
        text: The reason why it was not compared, ``""`` if it was.
        lines: The lines about the change: ``-`` was recorded, ``+`` is the answer now.
        unasked: Webhooks that are not asked any more.
    """

    state: str
    text: str
    lines: Sequence[DiffLine]
    unasked: Sequence[str]


def describe_outcome(replayed: Replayed) -> ReplayOutcome:
    """Return the result of replaying one review."""
    state, text = find_state(replayed), replayed.skipped
    if replayed.unknown_route:
        text = f"this fleethook has no route {replayed.entry.record.route}"
    lines = () if replayed.change is None else describe_change(replayed.change)
    return ReplayOutcome(state, text, lines, [str(name) for name in replayed.unasked])


def find_state(replayed: Replayed) -> str:
    """Return the state of a replayed review, as in `ReplayOutcome`."""
    if replayed.skipped or replayed.unknown_route:
        return "skipped"
    if replayed.change is None:
        return "same"
    return UNDECIDABLE if UNDECIDABLE in replayed.change.kinds else "changed"


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
    job = _JOB.find(request).job = ReplayJob(query, found, replay.version, index.each(found))
    return job


class _Latest:
    """The last job of the console; a new one takes its place."""

    def __init__(self, _context: ConsoleContext) -> None:
        self.job: ReplayJob | None = None

    def find(self, query: ReviewQuery) -> ReplayJob | None:
        """Return the job if it is for a search, else None."""
        return self.job if self.job is not None and self.job.query == query else None


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
