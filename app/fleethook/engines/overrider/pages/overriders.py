"""The section ``/overriders``: the matrix of subjects and node pools, one workload, one overrider, and findings."""

import re
import shlex
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

from fastapi import APIRouter
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse

from fleethook.cluster.followed_objects import Followed
from fleethook.cluster.kubernetes.watched_resources import WORKLOADS
from fleethook.cluster.manifests.yaml_decoding_and_lines import Document
from fleethook.cluster.partial_and_stale_objects import PARTIAL_KINDS, PartialObject
from fleethook.cluster.store import ObjectKey, Store, key_of
from fleethook.console.attention_lines import (
    Attention,
    AttentionLine,
    FindingCount,
    LintFinding,
    list_object_lines,
    read_since,
)
from fleethook.console.context import ConsoleContext, ConsolePage, Hit, Section, has_kinds
from fleethook.console.page_frame import Context, build_fill_command, find_context, list_lines, render
from fleethook.console.pages.reviews import review_url
from fleethook.console.reviews.review_index import ReviewSummary
from fleethook.console.shared_value import KeptValue, Watch
from fleethook.engines.overrider.controller.overrider_conditions import BOUND, CONFLICT, RENDERED
from fleethook.engines.overrider.pages.matrix_cells import CellView, ShownRow, make_service
from fleethook.engines.overrider.pages.matrix_rows_and_addresses import (
    LINKS,
    MAX_TEXT,
    MatrixPage,
    MatrixQuery,
    cell_url,
    find_overrider,
    link_pages,
    matrix_url,
    object_url,
    overrider_url,
    parse_cell,
    parse_overrider_key,
    parse_query,
    select,
    subject_url,
    workload_url,
)
from fleethook.engines.overrider.rules.finding import Finding
from fleethook.engines.overrider.rules.findings_in_files import ManifestFinding, check_documents
from fleethook.engines.overrider.subject.bound_overriders import OVERRIDERS_BY_SUBJECT, find_binding
from fleethook.engines.overrider.subject.workload_owner import WORKLOAD_INDEXES, binding_of
from fleethook.model.json import JSON, JSONObject, as_object, list_objects
from fleethook.model.openyurt import NODE_POOL, YURT_APP_DAEMON, YURT_APP_OVERRIDER, YURT_APP_SET


class MatrixView(NamedTuple):
    """One page of the matrix.

    Attributes:
        query: The parameters, with an existing page.
        selection: The shown part.
        rows: The rows of the table.
        subjects: The number of all subjects.
        size: The number of all cells.
    """

    query: MatrixQuery
    selection: MatrixPage
    rows: Sequence[ShownRow]
    subjects: int
    size: int


CLUSTER: Final = "cluster"
"""The source of objects that no file has."""
LEVELS: Final = ("error", "warning")


def collect_documents(context: ConsoleContext) -> list[Document]:
    """Return the objects that findings are about, with their files. No finding is about a workload."""
    if context.manifests is not None:
        documents = context.manifests.documents()
        return [document for document in documents if key_of(document.object).group_kind not in PARTIAL_KINDS]
    kinds = [kind for kind in context.store.counts() if kind not in PARTIAL_KINDS]
    stored = (context.store.get(*key) for kind in kinds for key in list(context.store.keys(kind)))
    return [Document(one, CLUSTER, 0) for one in stored if one is not None]


def find_all(documents: Sequence[Document]) -> tuple[ManifestFinding, ...]:
    """Return the findings of ``fleethook lint``, errors first. It reads no other object, so a thread may call it."""
    store = Store([OVERRIDERS_BY_SUBJECT])
    for document in documents:
        store.put(document.object)
    return tuple(sorted(check_documents(documents, store), key=lambda one: LEVELS.index(one.level)))


def select_findings(findings: Iterable[ManifestFinding] | None, *keys: ObjectKey | None) -> list[ManifestFinding]:
    """Return the findings about some objects; ``findings`` is None before the first check."""
    return [finding for finding in findings or () if finding.key in keys]


def needs_attention(finding: Finding) -> bool:
    """Return whether a finding has a line in "Needs attention".

    An error does, and a warning that something fails, differs or never applies. A warning that a part of an overrider
    changes nothing is a note: the workloads are as the overrider wants them.
    """
    return finding.code != "no-effect"


def list_finding_lines(findings: Iterable[ManifestFinding]) -> list[AttentionLine]:
    """Return the lines about findings."""
    return list_object_lines(
        LintFinding(
            one.level,
            one.finding.code,
            one.key.group_kind.kind,
            one.key.text,
            one.finding.text,
            object_url(one.key, one.finding.field),
        )
        for one in findings
        if needs_attention(one.finding)
    )


def list_condition_lines(overriders: Iterable[tuple[ObjectKey, JSONObject]]) -> list[AttentionLine]:
    """Return the lines about conditions that the controller wrote."""
    return [
        AttentionLine(
            "failing"
            if condition.get("status") == "False"
            else "waiting"
            if condition.get("status") == "Unknown"
            else "warning",
            key.text,
            f"{condition.get('reason')}: {condition.get('message')}",
            overrider_url(key),
            read_since(condition.get("lastTransitionTime")),
        )
        for key, overrider in overriders
        for condition in _select_conditions(as_object(overrider.get("status")).get("conditions"))
    ]


def _select_conditions(stored: JSON) -> Iterator[Mapping[str, Any]]:
    """Yield the conditions that need attention. Of several conditions with one reason, yield only the first."""
    reasons = set[Any]()
    for one in list_objects(stored):
        needs_attention = one.get("status") in ("False", "Unknown") or one.get("type") == CONFLICT
        if needs_attention and one.get("reason") not in reasons and one.get("type") in _CONDITIONS:
            reasons.add(one.get("reason"))
            yield one


_CONDITIONS: Final = (BOUND, RENDERED, CONFLICT)
"""The conditions of the controller."""


router: Final = APIRouter(prefix="/overriders")


def _find_overrider_of(store: Store, key: ObjectKey) -> ObjectKey | None:
    """Return the overrider in effect for a workload, None without one."""
    workload = store.get(*key)
    binding = binding_of(workload, key.cluster) if isinstance(workload, PartialObject) else None
    overrider = find_overrider(store, binding) if binding else None
    return key_of(overrider) if overrider else None


_SUBJECTS: Final = (YURT_APP_SET, YURT_APP_DAEMON, NODE_POOL)

_SERVICE: Final = KeptValue(make_service)
FINDINGS: Final = KeptValue(lambda context: Watch(context.store, lambda: partial(find_all, collect_documents(context))))
"""The findings of lint about the present objects."""


async def find_attention(request: Request) -> Attention:
    """Return the findings, and the conditions that the controller wrote."""
    context, found = find_context(request), FINDINGS.find(request).find()
    shown = found.value or ()
    counts = Counter((one.level, one.finding.code, one.key.group_kind.kind) for one in shown)
    listed = [FindingCount(level, code, kind, total, "/overriders") for (level, code, kind), total in counts.items()]
    lines = list_finding_lines(shown)
    overriders = [(key, context.store.get(*key)) for key in context.store.keys(YURT_APP_OVERRIDER)]
    lines += list_condition_lines([(key, one) for key, one in overriders if isinstance(one, dict)])
    return Attention(lines, listed, found.is_current, (found.problem,) if found.problem else ())


async def list_pools(request: Request) -> list[Hit]:
    """Return the node pools that subjects have and that have no NodePool."""
    store, pools = find_context(request).store, defaultdict[str, set[str]](set)
    for row in _SERVICE.find(request).list_rows():
        pools[row.key.cluster].update(row.pools)
    return [
        Hit(pool, cluster, matrix_url(MatrixQuery(pool=pool)))
        for cluster, names in pools.items()
        for pool in sorted(names)
        if store.get(cluster, NODE_POOL, "", pool) is None
    ]


PAGE: Final = ConsolePage(
    Section("/overriders", "Overriders", is_used=has_kinds(YURT_APP_OVERRIDER, *_SUBJECTS)),
    router,
    indexes=tuple(WORKLOAD_INDEXES.values()),
    followed=Followed(advisory=WORKLOADS),
    attention=find_attention,
    addresses={
        YURT_APP_OVERRIDER: lambda _store, key: overrider_url(key),
        YURT_APP_SET: lambda _store, key: subject_url(key),
        YURT_APP_DAEMON: lambda _store, key: subject_url(key),
        NODE_POOL: lambda _store, key: matrix_url(MatrixQuery(pool=key.name)),
        **dict.fromkeys((resource.group_kind for resource in WORKLOADS), workload_url),
    },
    related=dict.fromkeys((resource.group_kind for resource in WORKLOADS), _find_overrider_of),
    names={"Node pool without a NodePool": list_pools},
)


@router.get("")
async def show_matrix(request: Request, context: Context) -> HTMLResponse:
    """Show the matrix."""
    service, query = _SERVICE.find(request), parse_query(request.query_params)
    rows = service.list_rows()
    selection = select(rows, query)
    shown = query._replace(page=selection.paging.page, columns=selection.column_paging.page)
    table, found = await service.show_rows(selection), FINDINGS.find(request).find()
    return render(
        request,
        "overriders/matrix.html",
        command=_make_command(context),
        command_title="All workloads on the command line",
        fill_command=build_fill_command(context, "yurtappsets,yurtappdaemons,yurtappoverriders,nodepools"),
        view=MatrixView(shown, selection, table, len(rows), sum(row.size for row in rows)),
        findings=found,
        find=partial(select_findings, found.value),
        here=matrix_url(shown),
        page_urls=link_pages(selection.paging, lambda page: shown._replace(page=page)),
        column_urls=link_pages(selection.column_paging, lambda page: shown._replace(columns=page)),
        **LINKS,
    )


@router.get("/pool")
async def show_pool(request: Request, context: Context) -> HTMLResponse:
    """Show the workload of one node pool beside its template."""
    key = parse_cell(request.query_params)
    everything = request.query_params.get("all") == "1"
    view = await _SERVICE.find(request).show_cell(key, everything=everything)
    if view is None:
        subject = f"{key.subject.group_kind.kind} {key.subject.namespace or 'default'}/{key.subject.name}"
        raise HTTPException(404, f"{subject} has no {key.kind or 'workload'} in node pool {key.pool!r}")
    findings = FINDINGS.find(request).find()
    return render(
        request,
        "overriders/pool.html",
        command=_make_command(context, *_select_subject(key.subject), "--pool", key.pool),
        view=view,
        shown=view.shown,
        findings=findings,
        found=select_findings(findings.value, key.subject, view.overrider),
        reviews=await _find_last_reviews(context, view),
        here=cell_url(key, everything=everything),
        everything_url=cell_url(key, everything=True),
        row_url=subject_url(key.subject),
        reviews_url=f"/reviews?{urlencode({'text': f'{key.subject.namespace}/{key.subject.name}-'})}",
        **LINKS,
    )


_MAX_REVIEWS: Final = 10


async def _find_last_reviews(context: ConsoleContext, view: CellView) -> list[tuple[str, ReviewSummary]] | None:
    """Return the last reviews of a cell's workloads, with their addresses; None without recordings."""
    if context.reviews is None:
        return None
    indexed = await context.reviews.find()
    kind = view.shown.key.kind
    found = (
        review
        for review in reversed(indexed.reviews)
        if review.kind == kind and (review.namespace, review.name) in view.running
    )
    return [(review_url(indexed, summary), summary) for summary in islice(found, _MAX_REVIEWS)]


@router.get("/overrider")
async def show_overrider(request: Request, context: Context) -> HTMLResponse:
    """Show a stored overrider: its text, its findings and its conditions."""
    key = parse_overrider_key(request.query_params)
    stored, found = context.store.get(*key), FINDINGS.find(request).find()
    if not isinstance(stored, dict):
        raise HTTPException(404, f"there is no YurtAppOverrider {key.namespace or 'default'}/{key.name}")
    at = request.query_params.get("at", "")[:MAX_TEXT]
    metadata = {name: one for name, one in stored["metadata"].items() if name != "managedFields"}
    lines = list_lines({**stored, "metadata": metadata})
    place = tuple(re.findall(r"[^.\[\]]+", at))
    return render(
        request,
        "overriders/overrider.html",
        command=f"fleethook lint {context.command_source}".strip(),
        command_title="The findings about all objects on the command line",
        key=key,
        subject=find_binding(key.cluster, stored),
        lines=[(line.text, bool(place) and line.path[: len(place)] == place) for line in lines],
        findings=found,
        found=select_findings(found.value, key),
        conditions=list_condition_lines([(key, stored)]),
        here=overrider_url(key, at),
        **LINKS,
    )


def _select_subject(key: ObjectKey) -> tuple[str, ...]:
    """Return the options that select one subject."""
    name = f"{key.group_kind.kind}/{key.namespace or 'default'}/{key.name}"
    return "--subject", f"{name}@{key.cluster}" if key.cluster else name


def _make_command(context: ConsoleContext, *options: str) -> str:
    """Return the command that prints the same."""
    return shlex.join(["fleethook", "render", *shlex.split(context.command_source), *options, "--output", "diff"])
