"""The section ``/overriders``: the matrix of subjects and node pools, the diff of one workload, and one overrider."""

import re
import shlex
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import groupby, islice
from operator import itemgetter
from typing import Final, cast
from urllib.parse import urlencode

from fastapi import APIRouter
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse

from fleethook.cluster.followed_cluster import Followed
from fleethook.cluster.kubernetes.resources import WORKLOADS
from fleethook.cluster.store import ObjectKey, PartialObject, Store, key_of
from fleethook.console.attention import Attention, FindingCount
from fleethook.console.context import ConsoleContext
from fleethook.console.pages.reviews import review_url
from fleethook.console.rendering import Context, find_context, render
from fleethook.console.reviews.review_index import ReviewSummary
from fleethook.console.sections import ConsolePage, Hit, Section, has_kinds
from fleethook.console.shared_value import KeptValue, Watch
from fleethook.console.yaml_paths import list_lines
from fleethook.engines.overrider.pages.findings import (
    list_condition_lines,
    list_finding_lines,
    list_named_pools,
    prepare_findings,
    select_findings,
)
from fleethook.engines.overrider.pages.fleet import SubjectRow, find_overrider
from fleethook.engines.overrider.pages.matrix import (
    LINKS,
    MAX_TEXT,
    Query,
    cell_url,
    link_pages,
    matrix_url,
    object_url,
    overrider_url,
    parse_cell,
    parse_overrider_key,
    parse_query,
    subject_url,
    workload_url,
)
from fleethook.engines.overrider.pages.overrider_service import CellView, make_service
from fleethook.engines.overrider.subject.owner_index import POOL_INDEXES, WORKLOAD_INDEXES, binding_of, subject_of
from fleethook.model.gvk import GroupKind
from fleethook.model.openyurt import GROUP, NODE_POOL, YURT_APP_DAEMON, YURT_APP_OVERRIDER, YURT_APP_SET

router: Final = APIRouter(prefix="/overriders")


def _find_overrider_of(store: Store, key: ObjectKey) -> ObjectKey | None:
    """Return the overrider in effect for a workload, None without one."""
    workload = store.get(*key)
    binding = binding_of(workload, key.cluster) if isinstance(workload, PartialObject) else None
    overrider = find_overrider(store, ObjectKey(*binding)) if binding else None
    return key_of(overrider) if overrider else None


_SUBJECTS: Final = (YURT_APP_SET, YURT_APP_DAEMON, NODE_POOL)

_MAX_REVIEWS: Final = 10
_SERVICE: Final = KeptValue(make_service)
FINDINGS: Final = KeptValue(lambda context: Watch(context.store, partial(prepare_findings, context)))
"""The findings of lint about the present objects."""


async def find_attention(request: Request) -> Attention:
    """Return the findings, and the conditions that the controller wrote."""
    context, found = find_context(request), FINDINGS.find(request).find()
    shown = found.value or ()
    counts = Counter((one.level, one.finding.code, one.key.group_kind.kind) for one in shown)
    listed = [FindingCount(level, code, kind, total, "/overriders") for (level, code, kind), total in counts.items()]
    lines = list_finding_lines(shown, object_url)
    overriders = [(key, context.store.get(*key)) for key in context.store.keys(YURT_APP_OVERRIDER)]
    lines += list_condition_lines([(key, one) for key, one in overriders if isinstance(one, dict)], overrider_url)
    return Attention(lines, listed, found.is_current, (found.problem,) if found.problem else ())


async def list_pools(request: Request) -> Iterable[Hit]:
    """Return the node pools that have no NodePool; subjects, overriders and the labels of workloads name them."""
    return _find_pools(find_context(request).store, _SERVICE.find(request).list_rows())


def _find_pools(store: Store, rows: Iterable[SubjectRow]) -> Iterator[Hit]:
    seen: dict[str, set[str]] = defaultdict(set)

    def take_new(cluster: str, pools: Iterable[str]) -> list[str]:
        # Twenty subjects with 5,000 node pools each name the same ones, and sets compare them in little time.
        new = set(pools) - seen[cluster]
        seen[cluster] |= new
        return [pool for pool in sorted(new) if store.get(cluster, NODE_POOL, "", pool) is None]

    for row in rows:
        for pool in take_new(row.key.cluster, row.pools):
            yield Hit(pool, row.key.cluster, matrix_url(Query(pool=pool)))
    for key in list(store.keys(YURT_APP_OVERRIDER)):
        for pool in take_new(key.cluster, list_named_pools(store.get(*key))):
            yield Hit(pool, key.cluster, overrider_url(key))
    for index in POOL_INDEXES:
        for cluster, run in groupby(sorted(cast("Iterator[tuple[str, str]]", store.index_keys(index))), itemgetter(0)):
            for pool in take_new(cluster, map(itemgetter(1), run)):
                first = store.find(index, cluster, (cluster, pool))[0]
                workload = ObjectKey(cluster, index.group_kind, first.namespace, first.name)
                yield Hit(pool, cluster, workload_url(store, workload))


PAGE: Final = ConsolePage(
    Section("/overriders", "Overriders", is_used=has_kinds(YURT_APP_OVERRIDER, *_SUBJECTS)),
    router,
    indexes=(*WORKLOAD_INDEXES.values(), *POOL_INDEXES),
    followed=Followed(advisory=WORKLOADS),
    attention=find_attention,
    addresses={
        YURT_APP_OVERRIDER: lambda _store, key: overrider_url(key),
        YURT_APP_SET: lambda _store, key: subject_url(key),
        YURT_APP_DAEMON: lambda _store, key: subject_url(key),
        NODE_POOL: lambda _store, key: matrix_url(Query(pool=key.name)),
        **dict.fromkeys((one.group_kind for one in WORKLOADS), workload_url),
    },
    related=dict.fromkeys((one.group_kind for one in WORKLOADS), _find_overrider_of),
    names={"Node pool without a NodePool": list_pools},
)


@router.get("")
async def show_matrix(request: Request, context: Context) -> HTMLResponse:
    """Show the matrix."""
    view = await _SERVICE.find(request).show_matrix(parse_query(request.query_params))
    shown, found = view.query, FINDINGS.find(request).find()
    return await render(
        request,
        "overriders/matrix.html",
        command=_make_command(context),
        command_title="All workloads on the command line",
        fill_command=context.fill_command("yurtappsets,yurtappdaemons,yurtappoverriders,nodepools"),
        view=view,
        findings=found,
        find=partial(select_findings, found.value),
        here=matrix_url(shown),
        page_urls=link_pages(view.selection.paging, lambda page: shown._replace(page=page)),
        column_urls=link_pages(view.selection.column_paging, lambda page: shown._replace(columns=page)),
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
    return await render(
        request,
        "overriders/pool.html",
        command=_make_command(context, *_select_subject(key.subject), "--pool", key.pool),
        view=view,
        shown=view.shown,
        findings=findings,
        found=select_findings(findings.value, key.subject, view.overrider),
        reviews=await _find_last_reviews(request, view),
        here=cell_url(key, everything=everything),
        everything_url=cell_url(key, everything=True),
        row_url=subject_url(key.subject),
        reviews_url=f"/reviews?{urlencode({'text': f'{key.subject.namespace}/{key.subject.name}-'})}",
        **LINKS,
    )


async def _find_last_reviews(request: Request, view: CellView) -> list[tuple[str, ReviewSummary]] | None:
    """Return the last reviews of a cell's workloads, with their addresses; None without recordings."""
    context = find_context(request)
    if context.reviews is None:
        return None
    indexed = await context.reviews.find()
    kind = view.shown.key.kind
    found = (one for one in reversed(indexed.reviews) if one.kind == kind and (one.namespace, one.name) in view.running)
    return [(review_url(indexed, one), one) for one in islice(found, _MAX_REVIEWS)]


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
    return await render(
        request,
        "overriders/overrider.html",
        command=f"fleethook lint {context.command_source}".strip(),
        command_title="The findings about all objects on the command line",
        key=key,
        subject=_find_subject(context.store, key),
        lines=[(one.text, bool(place) and one.path[: len(place)] == place) for one in lines],
        findings=found,
        found=select_findings(found.value, key),
        conditions=list_condition_lines([(key, stored)], overrider_url),
        here=overrider_url(key, at),
        **LINKS,
    )


def _find_subject(store: Store, key: ObjectKey) -> ObjectKey | None:
    """Return the subject that a stored overrider names, None without one."""
    stored = store.get(*key)
    named = subject_of(stored) if isinstance(stored, dict) else None
    return ObjectKey(key.cluster, GroupKind(GROUP, named[0]), key.namespace, named[1]) if named else None


def _select_subject(key: ObjectKey) -> tuple[str, ...]:
    """Return the options that select one subject."""
    name = f"{key.group_kind.kind}/{key.namespace or 'default'}/{key.name}"
    return "--subject", f"{name}@{key.cluster}" if key.cluster else name


def _make_command(context: ConsoleContext, *options: str) -> str:
    """Return the command that prints the same."""
    return shlex.join(["fleethook", "render", *shlex.split(context.command_source), *options, "--output", "diff"])
