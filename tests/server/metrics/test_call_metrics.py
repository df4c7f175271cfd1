"""The metrics of webhook calls, read from a client that makes real calls."""

import asyncio

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from fleethook.outbound.call_errors import OverloadedError
from fleethook.outbound.call_limits import Quotas
from fleethook.outbound.client import HookClient
from fleethook.server.metrics.call_metrics import CallSlots
from tests.faults.webhook_calls import endpoint
from tests.hook_server import RawHook, http, respond
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
