"""The metrics of the limits at the HTTP edge."""

import asyncio
import socket

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from fleethook.app import create_app
from fleethook.outbound.call_errors import OverloadedError
from fleethook.outbound.call_limits import Quotas
from fleethook.outbound.client import HookClient
from fleethook.server.metrics.edge_metrics import CallSlots
from fleethook.server.protocol.connections import Connections, Stage
from fleethook.server.protocol.request_body import BodyCharge, OverBudgetError
from fleethook.settings import Settings
from tests.asgi_client import call
from tests.faults.webhook_calls import endpoint
from tests.hook_server import RawHook, http, respond
from tests.server.protocol.test_connections import Held
from tests.waiting import NET, until


def read(client: HookClient) -> dict[str, float]:
    """Return the samples of the client's metrics that are not 0."""
    registry = CollectorRegistry()
    registry.register(CallSlots(client))
    lines = generate_latest(registry).decode().splitlines()
    samples = {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[0] != "#")}
    assert len(samples) == 2 + len(Quotas._fields) + 2
    return {name.removeprefix("fleethook_webhook_"): value for name, value in samples.items() if value}


async def test_calls_in_flight_waiting_and_refused_are_counted(hook: RawHook) -> None:
    answering = asyncio.Event()

    async def answer(_: object, writer: asyncio.StreamWriter) -> None:
        await answering.wait()
        writer.write(http())

    hook.answer = answer
    async with HookClient(allow_private=True, quotas=Quotas(connections=1)) as client:
        assert read(client) == {}
        calls = [asyncio.create_task(client.post(endpoint(hook), b"{}", seconds=NET)) for _ in range(3)]
        await until(lambda: hook.asked and client.slots.queued == 2)
        assert read(client) == {"calls_in_flight": 1, "calls_waiting": 2}
        with pytest.raises(OverloadedError):
            await client.post(endpoint(hook), b"{}", seconds=0.1)
        refused = {'calls_refused_total{quota="connections"}': 1}
        assert read(client) == {"calls_in_flight": 1, "calls_waiting": 2, **refused}
        answering.set()
        await asyncio.gather(*calls)
        assert read(client) == refused


@pytest.mark.parametrize(("status", "code"), [("429 Too Many Requests", "429"), ("503 Unavailable", "5xx")])
async def test_repeated_calls_are_counted_by_status(client: HookClient, hook: RawHook, status: str, code: str) -> None:
    again, accepted = http(status=status, retry_after="0"), http()
    answers = iter([again, again, accepted])

    async def answer(request: object, writer: asyncio.StreamWriter) -> None:
        await respond(next(answers))(request, writer)  # type: ignore[arg-type]

    hook.answer = answer
    await client.post(endpoint(hook), b"{}", seconds=NET)
    assert read(client) == {f'call_retries_total{{code="{code}"}}': 2}


TYPES = (
    "fleethook_connections", "fleethook_connections_limit", "fleethook_connections_closed_total",
    "fleethook_connections_health_only_total", "fleethook_body_bytes", "fleethook_body_bytes_limit",
    "fleethook_bodies_refused_total",
)  # fmt: skip


async def test_connections_and_bodies_are_counted_with_their_limits() -> None:
    app = create_app(Settings(max_connections=2, body_memory=2**20), log=None)

    async def found() -> dict[str, float]:
        lines = (await call(app, "/metrics", method="GET")).body.decode().splitlines()
        return {name: float(value) for name, _, value in (line.partition(" ") for line in lines) if name in TYPES}

    # A server that does not listen has no connections.
    assert set(await found()) == set(TYPES[4:])
    ours, theirs = socket.socketpair()
    with ours, theirs:
        app.connections = Connections(app.capacity.connections)
        for stage in (Stage.IDLE, Stage.ANSWERING, Stage.ANSWERING, Stage.ANSWERING):
            app.connections.admit(ours, ("10.0.0.1", 1)).exchange = Held(stage)
        app.bodies._max_wait = 0.0  # type: ignore[misc]
        with BodyCharge(app.bodies, "a") as charge, BodyCharge(app.bodies, "b") as other:
            await charge.add(2**18 + 2**17)
            await charge.add(2**17)
            await other.add(1)
            with pytest.raises(OverBudgetError):
                await other.add(2**19)
            assert await found() == dict(zip(TYPES, (3, 2, 1, 1, 2**19 + 1, 2**20, 1), strict=True))
    assert (await found())["fleethook_body_bytes"] == 0
