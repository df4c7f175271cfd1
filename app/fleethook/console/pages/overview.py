"""The section ``/``: the list "Needs attention", sources, objects, findings and rates of reviews."""

import shlex
import time
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, NamedTuple

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import HTMLResponse

from fleethook.cluster.leader_election import describe_lease
from fleethook.cluster.store import Store
from fleethook.console.attention_lines import (
    Attention,
    FirstSeen,
    find_stopped,
    group_by_server,
    join_attention,
    list_outage_lines,
    list_review_lines,
    list_source_lines,
    list_unread_lines,
)
from fleethook.console.context import ConsoleContext, engine_pages
from fleethook.console.page_frame import Context, build_fill_command, find_context, render
from fleethook.console.review_rates import (
    Rates,
    build_charts,
    list_rate_rows,
    rate_increases,
    rate_recordings,
)
from fleethook.model.gvk import GroupKind


class KindCount(NamedTuple):
    """The number of stored objects of a kind, over all clusters."""

    group_kind: GroupKind
    total: int


def count_objects(store: Store) -> list[KindCount]:
    """Return the numbers of objects, by kind and group."""
    counts = (KindCount(kind, total) for kind, total in store.counts().items() if total)
    return sorted(counts, key=lambda one: (one.group_kind.kind, one.group_kind.group))


router: Final = APIRouter()


@router.get("/")
async def show(request: Request, context: Context) -> HTMLResponse:
    """Show the overview."""
    counts = count_objects(context.store)
    return render(
        request,
        "overview/index.html",
        is_update=False,
        command=f"fleethook lint {context.command_source}".strip(),
        command_title="The findings on the command line",
        fill_command=build_fill_command(context, "all"),
        parts=list(context.parts()),
        counts=counts,
        **await _find_rates(request),
        **await _find_attention(request),
    )


@router.get("/outdated")
async def show_outdated(request: Request) -> HTMLResponse:
    """Show alone whether the sources can be read; each open page asks for it again and again."""
    return render(request, "outdated.html")


@router.get("/rates")
async def show_rates(request: Request) -> HTMLResponse:
    """Show the charts alone; the overview asks for them again and again."""
    return render(request, "overview/rates.html", **await _find_rates(request))


@router.get("/attention")
async def show_attention(request: Request) -> HTMLResponse:
    """Show the list and the findings alone; the overview asks for them while they are being computed."""
    return render(request, "overview/attention.html", is_update=True, **await _find_attention(request))


async def _find_attention(request: Request) -> dict[str, Any]:
    """Return the list, with the leader that it is about."""
    context, now = find_context(request), datetime.now(UTC)
    leader = await _find_leader(context)
    lines = [*list_outage_lines(await find_stopped(context)), *list_source_lines(context.parts())]
    lines += list_unread_lines(leader["lease_problem"], context.sampler.find().problem if context.sampler else "")
    if context.reviews is not None:
        indexed = await context.reviews.find()
        lines += await context.worker.run("", list_review_lines, indexed.reviews)
    # A provider reads no definitions of consumers, without which lint has wrong findings.
    pages = (one for one in engine_pages() if context.settings.kcp_export is None or one.section.path == "/rules")
    parts = [await page.attention(request) for page in pages if page.attention is not None]
    attention_list = join_attention([Attention(lines), *parts])
    seen: FirstSeen = request.app.state.first_seen
    return {**leader, "attention": attention_list._replace(lines=seen.fill(attention_list.lines, now))}


_WINDOWS: Final = {"15m": 900, "1h": 3_600, "6h": 21_600, "24h": 86_400, "7d": 604_800}
"""Lengths of the shown time in seconds, by their name in the URL."""
_DEFAULT_WINDOW: Final = "15m"
_METRICS_OPTIONS: Final = ("--metrics-url", "https://localhost:9443/metrics", "--metrics-ca-file", "certs/ca.crt")


async def _find_rates(request: Request) -> dict[str, Any]:
    """Return the series of reviews: of the server with --metrics-url, else of the recordings."""
    context, now = find_context(request), time.time()
    asked = request.query_params.get("window", _DEFAULT_WINDOW)
    window = asked if asked in _WINDOWS else _DEFAULT_WINDOW
    command = ["fleethook", "console", *shlex.split(context.command_source), *_METRICS_OPTIONS]
    values: dict[str, Any] = {"window": window, "windows": _WINDOWS, "source": "", "age": None, "problem": ""}
    values["rates_command"] = shlex.join(command)
    rates = Rates()
    if context.sampler is not None:
        state = context.sampler.find()
        rates = rate_increases(state.increases, window=_WINDOWS[window], now=now)
        age = None if state.sampled_at is None else max(0.0, now - state.sampled_at)
        values |= {"source": context.sampler.url, "age": age, "problem": state.problem}
    elif context.reviews is not None:
        indexed = await context.reviews.find()
        rates = await context.worker.run("", partial(rate_recordings, indexed.reviews, window=_WINDOWS[window]))
        values["source"] = "recordings"
    return {**values, "rates": rates, "charts": build_charts(rates), "rows": list_rate_rows(rates)}


async def _find_leader(context: ConsoleContext) -> dict[str, Any]:
    """Return the leader, None without a cluster."""
    values: dict[str, Any] = {
        "leader": None,
        "lease_problem": "",
        "lease_namespace": "",
        "has_cluster": context.lease is not None,
        "leader_command": f"fleethook console {context.command_source} --namespace NAMESPACE",
    }
    if context.lease is None:
        return values
    named = next(iter(group_by_server(context.list_configurations())), context.lease.namespace)
    namespace = context.settings.namespace or named
    state = await context.lease.watch(namespace).find()
    leader = describe_lease(state.lease, now=datetime.now(UTC)) if state.is_read else None
    return {**values, "leader": leader, "lease_problem": state.problem, "lease_namespace": namespace}
