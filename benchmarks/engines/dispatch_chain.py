"""A chain of three hooks: the cost of dispatch without the hooks' own time, beside bare calls of the same hooks."""

import contextlib
import json
import statistics
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NamedTuple

import aiohttp
import msgspec

from benchmarks.engines.dispatch_worlds import (
    CONSUMER,
    HOOKS,
    build_configurations,
    build_exports,
    build_hooks,
    build_review,
)
from benchmarks.reviews import deployment
from fleethook.app import Fleethook, create_app
from fleethook.engines.dispatch.dispatch_server import build_dispatcher
from fleethook.engines.dispatch.dispatcher import Dispatcher
from fleethook.engines.dispatch.errors_and_deadline import Deadline
from fleethook.engines.dispatch.review.access import ClusterAccess
from fleethook.engines.dispatch.review.cluster_endpoint import DispatchContext, DispatchEndpoint
from fleethook.fair_limits import CallLimit
from fleethook.model.admission import AdmissionReview
from fleethook.outbound.calls_and_retries import HookClient
from fleethook.outbound.certificate_trust import create_context
from fleethook.server.reviews.http_checks import NamedCallers
from fleethook.settings import Settings
from fleethook.work.threads_and_gc import run_work
from tests.asgi_client import call

PHASES = {"mutate": "mutating", "validate": "validating"}
BARE, DISPATCH, WHOLE = "bare aiohttp", "Dispatcher.dispatch", "the whole app"


def reviews() -> dict[str, dict[str, Any]]:
    """Return the dispatched reviews by size."""
    spec = {name: value for name, value in deployment()["spec"].items() if name != "replicas"}
    return {"small": build_review(), "large": build_review(**spec)}


class Spans(HookClient):
    """Records the start and end of each call, and the body that was sent."""

    def __init__(self) -> None:
        super().__init__(allow_private=True)
        self.spans: list[tuple[float, float]] = []
        self.sent: list[tuple[str, bytes]] = []

    async def post(self, endpoint: Any, body: Any, **rest: Any) -> Any:
        started = time.perf_counter()
        made = body if isinstance(body, bytes) else body()
        try:
            return await super().post(endpoint, made, **rest)
        finally:
            self.spans.append((started, time.perf_counter()))
            self.sent.append((endpoint.url, made))

    def busy(self) -> float:
        """Return the seconds during which any call was in progress, and forget the calls."""
        assert len(self.spans) == HOOKS
        total, until = 0.0, 0.0
        for started, ended in sorted(self.spans):
            total += max(0.0, ended - max(started, until))
            until = max(until, ended)
        self.spans.clear()
        self.sent.clear()
        return total


class Cost(NamedTuple):
    """Microseconds for each call of a hook."""

    wall: float
    beside: float
    cpu: float


class Turn(NamedTuple):
    """One variant to measure."""

    one: Callable[[], Awaitable[None]]
    seen: Spans | None

    async def cost(self, count: int) -> Cost:
        walls, besides = [], []
        started_cpu = time.process_time()
        for _ in range(count):
            started = time.perf_counter()
            await self.one()
            walls.append(time.perf_counter() - started)
            besides.append(walls[-1] - self.seen.busy() if self.seen is not None else 0.0)
        spent = (time.process_time() - started_cpu) / count
        values = (statistics.median(walls), statistics.median(besides), spent)
        return Cost(*(seconds / HOOKS * 1e6 for seconds in values))


@contextlib.asynccontextmanager
async def chains(base: str, ca_bundle: str) -> AsyncIterator[dict[tuple[str, str, str], Turn]]:
    """Provide turns by phase, size of the review and way; connections are open and caches filled."""
    connector = aiohttp.TCPConnector(ssl=create_context(ca_bundle))
    async with Spans() as client, aiohttp.ClientSession(connector=connector) as bare:
        app = create_app(Settings(), log=lambda _: None)
        _fill(app, base, ca_bundle)
        engine: Any = app.engines["dispatch"]
        dispatcher = build_dispatcher(app.store, client, observe=engine.metrics.count_webhook_call)
        access = ClusterAccess(is_open=True, callers=NamedCallers([]), tokens=None, lack="")
        context = DispatchContext(
            dispatcher,
            app.store,
            engine.synced,
            lambda: "",
            access,
            engine.requests,
            engine.metrics,
            CallLimit(sys.maxsize),
        )
        for verb, phase in PHASES.items():
            path = f"/clusters/{{cluster}}/{verb}"
            app.reviews[path] = DispatchEndpoint(
                path, phase=phase, context=context, metrics=app.metrics, body_limit=1 << 23, log=lambda _: None
            )
        async with app.router.lifespan_context(app):
            made: dict[tuple[str, str, str], Turn] = {}
            for verb, phase in PHASES.items():
                for size, review in reviews().items():
                    ways = await _ways(review, verb, phase, app=app, dispatcher=dispatcher, client=client, bare=bare)
                    made |= {(phase, size, way): turn for way, turn in ways.items()}
            yield made


def _fill(app: Fleethook, base: str, ca_bundle: str) -> None:
    for document in build_exports(1):
        app.store.put(document)
    for phase in PHASES.values():
        urls = [{"url": f"{base}/{phase}/{number}", "caBundle": ca_bundle} for number in range(HOOKS)]
        for document in build_configurations(build_hooks(["widgets"], urls), phase):
            app.store.put(document)


async def _ways(
    made: dict[str, Any],
    verb: str,
    phase: str,
    *,
    app: Fleethook,
    dispatcher: Dispatcher,
    client: Spans,
    bare: aiohttp.ClientSession,
) -> dict[str, Turn]:
    """Return the same three calls: bare, dispatched, and dispatched by the whole app."""
    text = json.dumps(made).encode()
    decode = msgspec.json.Decoder(AdmissionReview).decode

    async def dispatch() -> None:
        deadline = Deadline(time.monotonic() + 30)
        done = await run_work(
            dispatcher.dispatch(decode(text).request, cluster=CONSUMER, phase=phase, deadline=deadline)
        )
        assert done.response.allowed, done.response

    async def whole() -> None:
        answer = await call(app, f"/clusters/{CONSUMER}/{verb}", text)
        assert b'"allowed":true' in answer.body

    await dispatch()
    sent = list(client.sent)
    client.busy()

    async def plainly() -> None:
        for url, body in sent:
            async with bare.post(f"{url}?timeout=10s", data=body, headers={"Content-Type": "application/json"}) as got:
                msgspec.json.decode(await got.read())

    turns = {BARE: Turn(plainly, None), DISPATCH: Turn(dispatch, client), WHOLE: Turn(whole, client)}
    for turn in turns.values():
        await turn.cost(3)
    return turns
