"""The section ``/``: sources and their age, the number of objects of each kind, and findings by severity."""

import time
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import HTMLResponse

from app.console.access import LOCAL_USER
from app.console.kept_value import KeptValue
from app.console.lint_watch import LintWatch
from app.console.memo import Memo
from app.console.permissions import select_permitted
from app.console.permitted_reviews import select_permitted_reviews
from app.console.rendering import Context, find_context, render
from app.console.views.certificates import CONFIGURATIONS, Certificates, collect_bundles, judge_certificates
from app.console.views.findings import select_kinds
from app.console.views.leader import describe_lease
from app.console.views.overview import count_objects
from app.console.views.rate_charts import build_charts, list_rows
from app.console.views.review_rates import DEFAULT_WINDOW, WINDOWS, Rates, rate_increases, rate_recordings
from app.control.server_lease import LEASE

router: Final = APIRouter()
_bundles: Final = KeptValue(lambda context: Memo(context.store, CONFIGURATIONS, collect_bundles))


@router.get("/")
async def show(request: Request, context: Context) -> HTMLResponse:
    """Show the overview."""
    counts = count_objects(context.store)
    permitted = await select_permitted(request, [one.group_kind for one in counts])
    return await render(
        request,
        "overview/index.html",
        command=f"fleethook lint {context.command_source}".strip(),
        parts=list(context.parts()),
        counts=[one for one in counts if one.group_kind in permitted],
        **await _find_leader(request),
        certificates=await _find_certificates(request),
        **await _find_rates(request),
        **await _find_findings(request),
    )


@router.get("/rates")
async def show_rates(request: Request) -> HTMLResponse:
    """Show the charts alone; the overview asks for them again and again."""
    return await render(request, "overview/rates.html", **await _find_rates(request))


@router.get("/findings")
async def show_findings(request: Request) -> HTMLResponse:
    """Show the findings alone; the overview asks for them while they are being computed."""
    return await render(request, "overview/findings.html", **await _find_findings(request))


async def _find_findings(request: Request) -> dict[str, Any]:
    """Return the last findings about the kinds that the user may get."""
    context = find_context(request)
    watch: LintWatch = request.app.state.lint_watch
    state = watch.find()
    permitted = await select_permitted(request, context.store.counts())
    return {"lint": state, "findings": select_kinds(state.counts or (), permitted)}


async def _find_rates(request: Request) -> dict[str, Any]:
    """Return the series of reviews: of the server with --metrics-url, else of the recordings that the user may see."""
    context, now = find_context(request), time.time()
    asked = request.query_params.get("window", DEFAULT_WINDOW)
    window = asked if asked in WINDOWS else DEFAULT_WINDOW
    values: dict[str, Any] = {"window": window, "windows": WINDOWS, "source": "", "age": None, "problem": ""}
    rates = Rates()
    if context.sampler is not None:
        state = context.sampler.find()
        rates = rate_increases(state.increases, window=WINDOWS[window], now=now)
        age = None if state.sampled_at is None else max(0.0, now - state.sampled_at)
        values |= {"source": context.sampler.url, "age": age, "problem": state.problem}
    elif context.reviews is not None:
        permitted = await select_permitted_reviews(request, await context.reviews.find())
        rates = await context.worker.run("", partial(rate_recordings, permitted, window=WINDOWS[window]))
        values["source"] = "recordings"
    return {**values, "rates": rates, "charts": build_charts(rates), "rows": list_rows(rates)}


async def _find_certificates(request: Request) -> Certificates:
    """Return the ends of the server's certificate, and of the authorities in configurations that the user may get."""
    context = find_context(request)
    bundles = await _bundles.find(request).get(context.worker)
    end = None if context.sampler is None else context.sampler.find().certificate_end
    permitted = await select_permitted(request, CONFIGURATIONS)
    return judge_certificates(bundles, permitted, server_end=end, now=datetime.now(UTC))


async def _find_leader(request: Request) -> dict[str, Any]:
    """Return the leader, None without a cluster; ``refused`` has the namespace whose Lease the user may not get."""
    context = find_context(request)
    values: dict[str, Any] = {
        "leader": None,
        "lease_problem": "",
        "refused": "",
        "lease_namespace": "",
        "has_cluster": context.lease is not None,
    }
    if context.lease is None:
        return values
    namespace = context.lease.namespace
    if not await context.authorizer.permits(getattr(request.state, "user", LOCAL_USER), LEASE, namespace):
        return {**values, "refused": namespace}
    state = await context.lease.find()
    leader = describe_lease(state.lease, now=datetime.now(UTC)) if state.is_read else None
    return {**values, "leader": leader, "lease_problem": state.problem, "lease_namespace": namespace}
