"""The section ``/overriders``: the matrix of subjects and node pools, the diff of one workload, and the editor."""

import shlex
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Final, cast, get_args
from urllib.parse import urlencode

from fastapi import APIRouter
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from fleethook.cluster.followed_cluster import Followed
from fleethook.cluster.kubernetes.resources import WORKLOADS
from fleethook.cluster.store import ObjectKey, PartialObject, Store, key_of
from fleethook.console.attention import Attention, AttentionLine, FindingCount
from fleethook.console.context import ConsoleContext
from fleethook.console.forms import FormFields
from fleethook.console.pages.reviews import review_url
from fleethook.console.rendering import SAME, Context, find_context, render
from fleethook.console.reviews.summary import ReviewSummary
from fleethook.console.sections import ConsolePage, Hit, Section
from fleethook.console.shared_value import KeptValue, Watch
from fleethook.console.users.permissions import select_permitted, select_permitted_reviews
from fleethook.engines.overrider.pages.addresses import (
    LINKS,
    MAX_TEXT,
    cell_url,
    edit_url,
    findings_url,
    link_pages,
    matrix_url,
    new_url,
    parse_cell,
    parse_overrider_key,
    parse_query,
    subject_url,
    workload_url,
)
from fleethook.engines.overrider.pages.edit_report import (
    EditError,
    format_command,
    format_overrider,
    make_overrider,
    normalize,
    show_source,
)
from fleethook.engines.overrider.pages.findings import (
    LEVELS,
    Concerned,
    FindingFilter,
    list_cell_lines,
    list_condition_lines,
    list_finding_lines,
    list_findings,
    list_named_pools,
    prepare_findings,
)
from fleethook.engines.overrider.pages.fleet import LABELS, State, SubjectRow, find_overrider
from fleethook.engines.overrider.pages.matrix import SORTS, Column, Query, group_columns
from fleethook.engines.overrider.pages.overrider_service import CellView, EditView, MatrixView, make_service
from fleethook.engines.overrider.pages.running_workload import EVENT, find_events, select_last_reviews
from fleethook.engines.overrider.rules.finding import MEANINGS
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

_SHOWN: Final = (YURT_APP_OVERRIDER, *_SUBJECTS, *(one.group_kind for one in WORKLOADS))
_SERVICE: Final = KeptValue(make_service)
FINDINGS: Final = KeptValue(lambda context: Watch(context.store, partial(prepare_findings, context)))
"""The findings of lint about the present objects."""


async def find_attention(request: Request) -> Attention:
    """Return the findings about permitted kinds and, with the rights for the section, the states of workloads."""
    context, found = find_context(request), FINDINGS.find(request).find()
    kinds = await select_permitted(request, {*_SHOWN, *(one.key.group_kind for one in found.value or ())})
    shown = [one for one in found.value or () if one.key.group_kind in kinds]
    counts = Counter((one.level, one.finding.code, one.key.group_kind.kind) for one in shown)
    listed = [
        FindingCount(level, code, kind, total, findings_url(FindingFilter(level, code, kind)))
        for (level, code, kind), total in counts.items()
    ]
    is_current, lines, failing = found.is_current, list[AttentionLine](), set[ObjectKey | None]()
    if kinds.issuperset(_SHOWN):
        view = await _SERVICE.find(request).list_states()
        lines += await context.worker.run("", list_cell_lines, view.rows, view.states, _address_state)
        titles = {one.about for one in lines if one.severity == "failing"}
        failing = {row.overrider_key for row in view.rows if row.title in titles}
        is_current = is_current and view.is_complete
    lines += list_finding_lines(shown, failing, findings_url)
    if YURT_APP_OVERRIDER in kinds:
        overriders = [(key, context.store.get(*key)) for key in context.store.keys(YURT_APP_OVERRIDER)]
        stored = [(key, one) for key, one in overriders if isinstance(one, dict)]
        lines += list_condition_lines(stored, lambda key: matrix_url(Query(subject=key.name, layout="list")))
    return Attention(lines, listed, is_current, (found.problem,) if found.problem else ())


def _address_state(row: SubjectRow, state: str) -> str:
    found = next((one for one in get_args(State) if one == state), None)
    return matrix_url(Query(f"{row.key.namespace or 'default'}/{row.key.name}", state=found, layout="list"))


async def list_pools(request: Request) -> Iterable[Hit]:
    """Return the node pools that have no NodePool, if the user may see the section.

    Subjects, overriders and the labels of workloads name them.
    """
    store = find_context(request).store
    if not (await select_permitted(request, _SHOWN)).issuperset(_SHOWN):
        return ()
    view = await _SERVICE.find(request).list_states()
    return _find_pools(store, view.rows)


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
            yield Hit(pool, key.cluster, edit_url(key))
    for index in POOL_INDEXES:
        for cluster, run in groupby(sorted(cast("Iterator[tuple[str, str]]", store.index_keys(index))), itemgetter(0)):
            for pool in take_new(cluster, map(itemgetter(1), run)):
                first = store.find(index, cluster, (cluster, pool))[0]
                workload = ObjectKey(cluster, index.group_kind, first.namespace, first.name)
                yield Hit(pool, cluster, workload_url(store, workload))


PAGE: Final = ConsolePage(
    Section("/overriders", "Overriders", _SHOWN),
    router,
    indexes=(*WORKLOAD_INDEXES.values(), *POOL_INDEXES),
    followed=Followed(advisory=WORKLOADS),
    on_demand={EVENT: "events"},
    reviewed=(YURT_APP_OVERRIDER,),
    replayed=_SUBJECTS,
    attention=find_attention,
    addresses={
        YURT_APP_OVERRIDER: lambda _store, key: edit_url(key),
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
    """Show the matrix, or the list of its cells."""
    query = parse_query(request.query_params)
    view = await _SERVICE.find(request).show_matrix(query)
    shown = view.query
    first = shown._replace(page=1, columns=1)
    found = FINDINGS.find(request).find()
    return await render(
        request,
        "overriders/matrix.html",
        command=_make_command(context, "render", *(_select_shown(view) or ()), "--output", "diff"),
        command_title=SAME if _select_shown(view) is not None else "All workloads on the command line",
        fill_command=context.fill_command("yurtappsets,yurtappdaemons,yurtappoverriders,nodepools"),
        view=view,
        findings=found,
        concerned=Concerned(context.store, found.value or ()),
        labels=LABELS,
        sorts=SORTS,
        here=matrix_url(shown),
        groups=[(one, matrix_url(shown.toggle(one.name))) for one in group_columns(view.selection.columns)],
        group_url=lambda row, column: matrix_url(_select_group(row, column)),
        state_urls={state: matrix_url(first._replace(state=state)) for state in (None, *LABELS)},
        page_urls=link_pages(view.selection.paging, lambda page: shown._replace(page=page)),
        column_urls=link_pages(view.selection.column_paging, lambda page: shown._replace(columns=page)),
        **LINKS,
    )


def _select_group(row: SubjectRow, column: Column) -> Query:
    """Return the query of the list of a subject's workloads in a group of node pools, the most urgent first."""
    return Query(
        subject=f"{row.key.namespace or 'default'}/{row.key.name}", pool=column.name, layout="list", sort="state"
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
        command=_make_command(context, "render", *_select_subject(key.subject), "--pool", key.pool, "--output", "diff"),
        view=view,
        shown=view.shown,
        findings=findings,
        found=Concerned(context.store, findings.value or ()).find_of_cell(key),
        events=await find_events(request, key, view.running),
        reviews=await _find_last_reviews(request, view),
        here=cell_url(key, everything=everything),
        everything_url=cell_url(key, everything=True),
        row_url=subject_url(key.subject),
        reviews_url=f"/reviews?{urlencode({'text': f'{key.subject.namespace}/{key.subject.name}-'})}",
        new_url=new_url(key.subject),
        **LINKS,
    )


async def _find_last_reviews(request: Request, view: CellView) -> list[tuple[str, ReviewSummary]] | None:
    """Return the last reviews of a cell's workloads that the user may see, with addresses; None without recordings."""
    context = find_context(request)
    if context.reviews is None:
        return None
    indexed = await context.reviews.find()
    permitted = await select_permitted_reviews(request, indexed)
    found = await context.worker.run("", select_last_reviews, permitted, view.shown.key.kind, view.running)
    return [(review_url(indexed, one), one) for one in found]


@router.get("/findings")
async def show_findings(
    request: Request,
    context: Context,
    level: str = "",
    code: str = "",
    kind: str = "",
    text: str = "",
    pool: str = "",
    page: int = 1,
) -> HTMLResponse:
    """List the findings about overriders and their subjects."""
    found = await FINDINGS.find(request).get()
    wanted = FindingFilter(level, code, kind, text[:MAX_TEXT].strip(), pool[:MAX_TEXT].strip(), page)
    listed = list_findings(found.value or (), wanted, Concerned(context.store, ()))
    return await render(
        request,
        "overriders/findings.html",
        command=f"fleethook lint {context.command_source}".strip(),
        command_title="The findings about all objects on the command line",
        problem=found.problem,
        listed=listed,
        wanted=wanted,
        levels=LEVELS,
        meanings=MEANINGS,
        page_url=lambda number: findings_url(wanted, page=number),
        **LINKS,
    )


@router.get("/edit")
async def open_editor(request: Request, context: Context) -> HTMLResponse:
    """Show the editor with a stored overrider, or with a new one for a subject."""
    key = parse_overrider_key(request.query_params)
    stored = context.store.get(*key)
    file = None if context.manifests is None else context.manifests.find(key)
    if file is not None:
        text = show_source(file)
    elif stored is not None:
        text = format_overrider(stored)
    elif subject := request.query_params.get("subject", ""):
        text = format_overrider(make_overrider(key, subject))
    else:
        raise HTTPException(404, f"there is no YurtAppOverrider {key.namespace or 'default'}/{key.name}")
    return await _show_editor(request, context, key, text, at=request.query_params.get("at", "")[:MAX_TEXT])


@router.post("/edit")
async def show_effect(request: Request, context: Context, fields: FormFields) -> HTMLResponse:
    """Show the editor with the effect of a typed text."""
    key = parse_overrider_key(request.query_params)
    pool = fields.get("pool", "")[:MAX_TEXT].strip()
    return await _show_editor(request, context, key, normalize(fields.get("text", "")), pool=pool)


@router.post("/download")
async def download(fields: FormFields) -> Response:
    """Return a typed text as a file."""
    return Response(
        normalize(fields.get("text", "")).encode(errors="replace"),
        media_type="application/yaml",
        headers={"content-disposition": 'attachment; filename="overrider.yaml"'},
    )


async def _show_editor(
    request: Request, context: ConsoleContext, key: ObjectKey, text: str, *, pool: str = "", at: str = ""
) -> HTMLResponse:
    problem: EditError | None = None
    view: EditView | None = None
    try:
        view = await _SERVICE.find(request).show_edit(text, opened=key, pool=pool, at=at)
    except EditError as error:
        problem = error
    query = {name: value for name, value in request.query_params.items() if name in _KEY_PARAMETERS}
    return await render(
        request,
        "overriders/edit.html",
        command=_make_command(context, "diff", "-f", "overrider.yaml"),
        command_title="The findings and the effect on the command line, with the text in overrider.yaml",
        key=key,
        subject=_find_subject(context.store, key),
        text=text,
        pool=pool,
        problem=problem,
        view=view,
        at=view.parts.get(at) if view else None,
        here=f"/overriders/edit?{urlencode(query)}",
        kubectl_command=format_command(text, namespace=_find_namespace(view)),
        **LINKS,
    )


def _find_subject(store: Store, key: ObjectKey) -> ObjectKey | None:
    """Return the subject that a stored overrider names, None without one."""
    stored = store.get(*key)
    named = subject_of(stored) if isinstance(stored, dict) else None
    return ObjectKey(key.cluster, GroupKind(GROUP, named[0]), key.namespace, named[1]) if named else None


def _find_namespace(view: EditView | None) -> str:
    """Return the namespace for kubectl if the text names none."""
    if view is None or view.named_namespace:
        return ""
    return view.edited.key.namespace


_KEY_PARAMETERS: Final = frozenset({"cluster", "namespace", "name", "subject"})


def _select_shown(view: MatrixView) -> tuple[str, ...] | None:
    """Return the options that select the shown workloads, None if the command cannot select exactly these."""
    query, selection = view.query, view.selection
    if query.state is not None or max(selection.paging.pages, selection.column_paging.pages) > 1:
        return None
    subjects = {one.key for one in selection.rows} or {one.subject for one in selection.cells}
    columns = {pool for one in selection.columns for pool in one.pools or (one.name,)}
    pools = columns or {one.pool for one in selection.cells}
    if (query.subject and len(subjects) != 1) or (query.pool and len(pools) != 1):
        return None
    options = _select_subject(*subjects) if query.subject else ()
    return (*options, "--pool", *pools) if query.pool else options


def _select_subject(key: ObjectKey) -> tuple[str, ...]:
    """Return the options that select one subject; ``--subject`` takes the forms of ``--without``."""
    name = f"{key.group_kind.kind}/{key.namespace or 'default'}/{key.name}"
    return "--subject", f"{name}@{key.cluster}" if key.cluster else name


def _make_command(context: ConsoleContext, command: str, *options: str) -> str:
    """Return the command that prints the same; ``diff`` takes the edit by ``-f``, and manifests by ``--against``."""
    words = shlex.split(context.command_source)
    if command == "diff":
        words = ["--against" if word == "-f" else word for word in words]
    return shlex.join(["fleethook", command, *words, *options])
