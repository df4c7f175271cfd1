"""The section ``/``: the list "Needs attention", sources, objects, findings, rates of reviews, and certificates."""

import functools
import shlex
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, Literal, NamedTuple

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import HTMLResponse

from fleethook.cluster.leader_election import LEASE
from fleethook.cluster.store import ObjectKey, Store
from fleethook.console.attention import (
    Attention,
    AttentionLine,
    FirstSeen,
    join_attention,
    list_review_lines,
    list_source_lines,
)
from fleethook.console.rendering import Context, find_context, render
from fleethook.console.review_rates import DEFAULT_WINDOW, WINDOWS, Rates, rate_increases, rate_recordings
from fleethook.console.sections import MUTATING, VALIDATING, engine_pages, find_address
from fleethook.console.shared_value import KeptValue, Memo
from fleethook.console.users.local_access import LOCAL_USER
from fleethook.console.users.permissions import select_permitted, select_permitted_reviews
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSONObject, as_object
from fleethook.outbound.tls.trust import MIN_REMAINING, BundleError, Validity, find_end, read_bundle

CONFIGURATIONS: Final = (MUTATING, VALIDATING)
"""The kinds that have authorities."""
MAX_CERTIFICATES: Final = 20
"""Shown certificates, those that end first."""
CertificateState = Literal["expired", "unreadable", "ends soon", "valid"]
"""``expired`` also means not valid yet."""


class Bundle(NamedTuple):
    """A ``caBundle`` of a webhook configuration.

    Attributes:
        key: The configuration.
        webhooks: The number of its webhooks that have this bundle.
        authorities: The validity of each authority, empty for a bundle that cannot be read.
    """

    key: ObjectKey
    webhooks: int
    authorities: Sequence[Validity]


class Certificate(NamedTuple):
    """A row of the overview.

    Attributes:
        name: The server, or kind and name of a configuration.
        webhooks: The number of webhooks that trust it, None for the server.
        state: Its state.
        until: Its end in UTC, ``""`` if it is unknown.
        key: The configuration, None for the server.
    """

    name: str
    webhooks: int | None
    state: CertificateState
    until: str
    key: ObjectKey | None = None


class Certificates(NamedTuple):
    """The certificates that end first, and the number of all."""

    rows: Sequence[Certificate]
    total: int


def collect_bundles(store: Store) -> list[Bundle]:
    """Return the bundles of all webhook configurations. Webhooks without one trust the authorities of the system."""
    read = functools.cache(_read)  # many configurations have the same authority
    return [
        Bundle(key, total, read(text))
        for kind in CONFIGURATIONS
        for key in store.keys(kind)
        for text, total in _count_bundles(store.get(*key)).items()
    ]


def _count_bundles(configuration: Any) -> dict[str, int]:
    """Return the number of webhooks of a configuration that have each bundle."""
    counts: dict[str, int] = {}
    webhooks = as_object(configuration).get("webhooks")
    for webhook in webhooks if isinstance(webhooks, list) else ():
        text = as_object(as_object(webhook).get("clientConfig")).get("caBundle")
        if text:
            # A value of another type cannot be read either.
            counts[str(text)] = counts.get(str(text), 0) + 1
    return counts


def _read(text: str) -> Sequence[Validity]:
    try:
        return read_bundle(text)
    except BundleError:
        return ()


def judge_certificates(
    bundles: Iterable[Bundle], kinds: Collection[GroupKind], *, server_end: float | None, now: datetime
) -> Certificates:
    """Return the certificates, those that need attention first.

    Args:
        bundles: The bundles of webhook configurations.
        kinds: The kinds that the user may get.
        server_end: End of the server's certificate in seconds since the epoch, None or 0 if unknown.
        now: The time.
    """
    found = [_judge_bundle(one, now) for one in bundles if one.key.group_kind in kinds]
    found += _judge_server(server_end, now)
    found.sort(key=lambda one: (_ORDER.index(one.state), one.until, one.name))
    return Certificates(found[:MAX_CERTIFICATES], len(found))


_ORDER: Final[tuple[CertificateState, ...]] = ("unreadable", "expired", "ends soon", "valid")


def _judge_bundle(bundle: Bundle, now: datetime) -> Certificate:
    key = bundle.key
    where = f" in {key.cluster}" if key.cluster else ""
    name = f"{key.group_kind.kind} {key.name}{where}"
    if not bundle.authorities:
        return Certificate(name, bundle.webhooks, "unreadable", "", key)
    end = find_end(bundle.authorities, now)
    if end is None:
        last = _format_end(max(one.end for one in bundle.authorities))
        return Certificate(name, bundle.webhooks, "expired", last, key)
    return Certificate(name, bundle.webhooks, _judge_end(end, now), _format_end(end), key)


def _judge_server(seconds: float | None, now: datetime) -> Iterator[Certificate]:
    if not seconds:
        return
    try:
        end = datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        yield Certificate("server", None, "unreadable", "")
        return
    yield Certificate("server", None, _judge_end(end, now), _format_end(end))


def _judge_end(end: datetime, now: datetime) -> CertificateState:
    if end < now:
        return "expired"
    return "ends soon" if end - now < MIN_REMAINING else "valid"


def _format_end(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M}"


def list_certificate_lines(certificates: Certificates, find_page: Callable[[ObjectKey], str]) -> list[AttentionLine]:
    """Return a line for each certificate that ends soon, and for one of the server that is not valid.

    A finding of lint is about each authority that is not valid.

    Args:
        certificates: The certificates.
        find_page: Returns the page of a configuration.
    """
    return [
        _make_certificate_line(one, "/#certificates-title" if one.key is None else find_page(one.key))
        for one in certificates.rows
        if one.state == "ends soon" or (one.key is None and one.state != "valid")
    ]


def _make_certificate_line(one: Certificate, page: str) -> AttentionLine:
    about = "Serving certificate" if one.key is None else f"CAs of {one.name}"
    if one.state == "unreadable":
        return AttentionLine("failing", about, "the certificate cannot be read", page)
    if one.state == "expired":
        reason = f"the certificate is not valid: it ended, or has not begun; its end is {one.until}"
        return AttentionLine("failing", about, reason, page, one.until)
    return AttentionLine("waiting", about, f"the certificate ends at {one.until}", page)


State = Literal["leads", "not renewed", "released", "absent"]


class Leader(NamedTuple):
    """The leader.

    Attributes:
        state: ``leads``; ``not renewed`` for longer than the Lease lasts, so another replica may take over;
            ``released`` by a leader that ended; ``absent`` if there is no Lease.
        holder: The identity of the replica: its host name and a random part, ``""`` without a holder.
        since: When it took the Lease, in UTC; ``""`` if unknown.
        renewed: Seconds since the last renewal by the clock of the console, None if unknown.
        transitions: How often the leader has changed.
    """

    state: State
    holder: str = ""
    since: str = ""
    renewed: float | None = None
    transitions: int = 0


def describe_lease(lease: JSONObject | None, *, now: datetime) -> Leader:
    """Return the leader that a Lease names.

    Args:
        lease: The Lease, None if there is none.
        now: The time by the clock of the console.
    """
    if lease is None:
        return Leader("absent")
    spec = as_object(lease.get("spec"))
    holder = str(spec.get("holderIdentity") or "")
    acquired, renewed = _read_time(spec.get("acquireTime")), _read_time(spec.get("renewTime"))
    age = None if renewed is None else max(0.0, (now - renewed).total_seconds())
    duration, transitions = _read_number(spec.get("leaseDurationSeconds")), _read_number(spec.get("leaseTransitions"))
    state: State = "released" if not holder else "leads" if age is not None and age <= duration else "not renewed"
    return Leader(state, holder, "" if acquired is None else f"{acquired:%Y-%m-%d %H:%M:%S}", age, transitions)


def list_leader_lines(leader: Leader | None, problem: str) -> list[AttentionLine]:
    """Return a line if no leader renews the Lease, or if the Lease cannot be read."""
    if problem:
        return [AttentionLine("failing", "Lease of the leader", f"it cannot be read: {problem}", "/#leader-title")]
    if leader is not None and leader.state == "not renewed":
        reason = f"{leader.holder} does not renew it, so nothing converges until another replica leads"
        return [AttentionLine("failing", "Lease of the leader", reason, "/#leader-title")]
    return []


def _read_time(value: Any) -> datetime | None:
    try:
        time = datetime.fromisoformat(value)
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC)
    except (TypeError, ValueError, OverflowError):
        return None


def _read_number(value: Any) -> int:
    return value if isinstance(value, int) else 0


class KindCount(NamedTuple):
    """The number of stored objects of a kind, over all clusters."""

    group_kind: GroupKind
    total: int


def count_objects(store: Store) -> list[KindCount]:
    """Return the numbers of objects, by kind and group."""
    counts = (KindCount(kind, total) for kind, total in store.counts().items() if total)
    return sorted(counts, key=lambda one: (one.group_kind.kind, one.group_kind.group))


MISSING: Final = "-"
"""The text of a figure that was not measured."""
MAX_ROWS: Final = 60
"""Rows of the table, the newest first: all points of a series."""


class Row(NamedTuple):
    """One time span of the table: texts, `MISSING` where nothing was measured."""

    time: str
    per_second: str
    median: str
    tail: str
    verdicts: tuple[str, ...]


def build_charts(rates: Rates) -> list[JSONObject]:
    """Return the charts: ``title``, ``unit``, ``times`` in seconds, ``lines`` (name, values), ``is_empty``."""
    median = [None if one is None else one * 1000 for one in rates.median]
    tail = [None if one is None else one * 1000 for one in rates.tail]
    return [
        _build_chart("Reviews per second", "/s", rates, {"all": list(rates.per_second)}),
        _build_chart("Duration", "ms", rates, {"median": median, "99 %": tail}),
        _build_chart("Verdicts per second", "/s", rates, rates.verdicts),
    ]


def _build_chart(title: str, unit: str, rates: Rates, lines: Mapping[str, Sequence[float | None]]) -> JSONObject:
    named = [{"name": name, "values": list(values)} for name, values in lines.items()]
    return {
        "title": title,
        "unit": unit,
        "times": list(rates.times),
        "lines": named,
        "is_empty": not any(map(any, lines.values())),
    }


def list_rows(rates: Rates) -> list[Row]:
    """Return the rows of the table, newest first."""
    rows = [
        Row(
            f"{datetime.fromtimestamp(time, UTC):%Y-%m-%d %H:%M:%S}",
            _format(rates.per_second[index]),
            _format(rates.median[index], factor=1000),
            _format(rates.tail[index], factor=1000),
            tuple(_format(values[index]) for values in rates.verdicts.values()),
        )
        for index, time in enumerate(rates.times)
    ]
    return rows[::-1][:MAX_ROWS]


def _format(value: float | None, *, factor: float = 1) -> str:
    """Return a figure with three significant digits."""
    if value is None:
        return MISSING
    return f"{value * factor:.3g}" if value * factor < 1000 else f"{value * factor:.0f}"


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
        is_update=False,
        command=f"fleethook lint {context.command_source}".strip(),
        command_title="The findings on the command line",
        fill_command=context.fill_command("all"),
        parts=list(context.parts()),
        counts=[one for one in counts if one.group_kind in permitted],
        **await _find_rates(request),
        **await _find_attention(request),
    )


@router.get("/outdated")
async def show_outdated(request: Request) -> HTMLResponse:
    """Show alone whether the sources can be read; each open page asks for it again and again."""
    return await render(request, "outdated.html")


@router.get("/rates")
async def show_rates(request: Request) -> HTMLResponse:
    """Show the charts alone; the overview asks for them again and again."""
    return await render(request, "overview/rates.html", **await _find_rates(request))


@router.get("/attention")
async def show_attention(request: Request) -> HTMLResponse:
    """Show the list and the findings alone; the overview asks for them while they are being computed."""
    return await render(request, "overview/attention.html", is_update=True, **await _find_attention(request))


async def _find_attention(request: Request) -> dict[str, Any]:
    """Return the list for the user, with the certificates and the leader that it is about."""
    context, now = find_context(request), datetime.now(UTC)
    leader, certificates = await _find_leader(request), await _find_certificates(request)
    find_page = partial(find_address, context.store)
    lines = list_source_lines(context.parts()) + list_certificate_lines(certificates, find_page)
    lines += list_leader_lines(leader["leader"], leader["lease_problem"])
    if context.sampler is not None and (problem := context.sampler.find().problem):
        lines.append(
            AttentionLine("failing", "Metrics of the server", f"they cannot be read: {problem}", "/#rates-title")
        )
    if context.reviews is not None:
        indexed = await context.reviews.find()
        permitted = None
        if context.authorizer.limits_kinds:
            permitted = await select_permitted(request, {one.group_kind for one in indexed.reviews})
        lines += await context.worker.run("", partial(list_review_lines, indexed.reviews, permitted))
    parts = [await one.attention(request) for one in engine_pages() if one.attention is not None]
    found = join_attention([Attention(lines), *parts])
    seen: FirstSeen = request.app.state.first_seen
    user = getattr(request.state, "user", LOCAL_USER).name
    return {
        **leader,
        "certificates": certificates,
        "find_page": find_page,
        "attention": found._replace(lines=seen.fill(user, found.lines, now)),
    }


_METRICS_OPTIONS: Final = ("--metrics-url", "https://localhost:9443/metrics", "--metrics-ca-file", "certs/ca.crt")


async def _find_rates(request: Request) -> dict[str, Any]:
    """Return the series of reviews: of the server with --metrics-url, else of the recordings that the user may see."""
    context, now = find_context(request), time.time()
    asked = request.query_params.get("window", DEFAULT_WINDOW)
    window = asked if asked in WINDOWS else DEFAULT_WINDOW
    command = ["fleethook", "console", *shlex.split(context.command_source), *_METRICS_OPTIONS]
    values: dict[str, Any] = {"window": window, "windows": WINDOWS, "source": "", "age": None, "problem": ""}
    values["rates_command"] = shlex.join(command)
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
        "leader_command": f"fleethook console {context.command_source} --namespace NAMESPACE",
    }
    if context.lease is None:
        return values
    namespace = context.lease.namespace
    if not await context.authorizer.permits(getattr(request.state, "user", LOCAL_USER), LEASE, namespace):
        return {**values, "refused": namespace}
    state = await context.lease.find()
    leader = describe_lease(state.lease, now=datetime.now(UTC)) if state.is_read else None
    return {**values, "leader": leader, "lease_problem": state.problem, "lease_namespace": namespace}
