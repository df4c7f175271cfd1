"""The metrics of consumers of dispatching, and the refusals of their quota."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from fleethook.app import Fleethook, create_app
from fleethook.engines.dispatch.review.dispatch_metrics import (
    MAX_CLUSTERS,
    MAX_WEBHOOKS_PER_CLUSTER,
    CallMetrics,
    DispatchMetrics,
    WebhookNames,
)
from fleethook.engines.dispatch.webhooks.webhook_defaults_and_compilation import compile_webhooks
from fleethook.outbound.call_errors_and_failure_log import OverloadedError
from fleethook.outbound.calls_and_retries import HookClient
from fleethook.server.metrics import OTHER
from fleethook.settings import Settings
from tests.asgi_client import Answer, call
from tests.engines.dispatch.builders import binding, configuration, export, review, webhook
from tests.engines.dispatch.webhook_server import Webhooks, allow, webhooks
from tests.faults.webhook_calls import endpoint
from tests.hook_server import RawHook, http, respond
from tests.waiting import NET, until


def test_many_webhooks_of_one_cluster_leave_names_for_another() -> None:
    names = WebhookNames()
    made = {names.add_label("ws2", f"w{number}") for number in range(10_000)}
    assert len(made) == MAX_WEBHOOKS_PER_CLUSTER + 1
    assert ("ws2", OTHER) in made
    assert names.add_label("ws3", "w") == ("ws3", "w")
    assert names.add_label("ws2", "w0") == ("ws2", "w0")


def test_clusters_beyond_the_limit_share_one_label_value() -> None:
    names = WebhookNames()
    made = {names.add_label(f"ws{number}", "w") for number in range(10_000)}
    assert len(made) == MAX_CLUSTERS + 1
    assert (OTHER, OTHER) in made
    assert names.add_label("ws0", "w") == ("ws0", "w")


VERBS = ("mutate", "validate", "explain")


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Webhooks]:
    async with webhooks(tmp_path) as made:
        made.answers["/w"] = allow
        yield made


@pytest.fixture
async def app(server: Webhooks) -> AsyncIterator[Fleethook]:
    made = create_app(Settings(max_connections=4), log=None)
    made.store.put(export("ws1", "widgets.example.org"))
    for consumer in ("ws2", "ws3"):
        made.store.put(binding(consumer, "ws1", "widgets.example.org"))
    made.store.put(configuration("ws1", "validating", webhook(clientConfig=server.client_config("/w"))))
    async with made.router.lifespan_context(made):
        yield made


async def ask(app: Fleethook, cluster: str, verb: str = "validate") -> Answer:
    return await call(app, f"/clusters/{cluster}/{verb}", json.dumps(review()).encode())


async def metrics(app: Fleethook) -> list[str]:
    return (await call(app, "/metrics", method="GET")).body.decode().splitlines()


async def test_requests_beyond_the_quota_of_a_cluster_are_refused_and_others_are_not(
    app: Fleethook, server: Webhooks
) -> None:
    server.hold.clear()
    attacking = [asyncio.create_task(ask(app, "ws2")) for _ in range(2)]
    await until(lambda: len(server.calls) == 2)
    for verb in VERBS:
        response = (await ask(app, "ws2", verb)).json()["response"]
        assert (response["uid"], response["allowed"], response["status"]["code"]) == ("u-1", False, 429)
        assert response["status"]["message"] == (
            "2 requests of logical cluster ws2 are being answered, which is its share of max_connections; try again later"
        )
    victim = asyncio.create_task(ask(app, "ws3"))
    await until(lambda: len(server.calls) == 3)
    lines = await metrics(app)
    assert {
        'fleethook_dispatch_requests_refused_total{cluster="ws2"} 3.0',
        # ws3 was not answered yet, so no series has its name.
        'fleethook_dispatch_requests_in_flight{cluster="ws2"} 2.0',
        'fleethook_dispatch_requests_in_flight{cluster="other"} 1.0',
        'fleethook_dispatch_calls_in_flight{cluster="ws2"} 2.0',
        'fleethook_dispatch_calls_in_flight{cluster="other"} 1.0',
    } <= set(lines)
    server.hold.set()
    answers = await asyncio.gather(*attacking, victim)
    assert all(answer.json()["response"]["allowed"] for answer in answers)
    assert (await ask(app, "ws2")).json()["response"]["allowed"]
    assert app.engines["dispatch"].requests.in_flight == {}


async def test_requests_are_counted_by_consumer(app: Fleethook) -> None:
    for verb in VERBS:
        await ask(app, "ws3", verb)
    await ask(app, "ws2")
    await ask(app, "nosuch")
    lines = await metrics(app)
    expected = [
        f'fleethook_dispatch_requests_total{{cluster="ws3",outcome="allowed",route="{verb}"}} 1.0' for verb in VERBS
    ]
    expected += [
        'fleethook_dispatch_requests_total{cluster="ws2",outcome="allowed",route="validate"} 1.0',
        'fleethook_dispatch_requests_total{cluster="other",outcome="denied",route="validate"} 1.0',
        'fleethook_dispatch_duration_seconds_count{cluster="ws3"} 3.0',
    ]
    assert set(expected) <= set(lines)
    assert not any("nosuch" in line for line in lines)


def collect(metrics: DispatchMetrics, requests: dict[str, int]) -> str:
    registry = CollectorRegistry()
    for collector in metrics.collectors(lambda: requests, dict):
        registry.register(collector)
    return generate_latest(registry).decode()


def read_samples(metrics: DispatchMetrics, prefix: str, requests: dict[str, int] | None = None) -> dict[str, float]:
    """Return the samples whose names begin with a prefix, without those of creation times and buckets."""
    lines = [line for line in collect(metrics, requests or {}).splitlines() if line.startswith(prefix)]
    samples = {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}
    return {name: value for name, value in samples.items() if "_bucket" not in name}


def test_many_clusters_create_a_limited_number_of_series() -> None:
    made = DispatchMetrics(max_clusters=3)
    for number in range(1000):
        for verb in VERBS:
            made.count_answered(f"ws{number}", verb, "allowed", seconds=0.1, is_known=True)
        made.count_refused(f"ws{number}", is_known=True)
    collectors = made.collectors(dict, dict)
    families = {family.name: family for collector in collectors for family in collector.collect()}
    requests = families["fleethook_dispatch_requests"].samples
    clusters = {sample.labels["cluster"] for sample in requests}
    assert clusters == {"ws0", "ws1", "ws2", OTHER}
    total = sum(sample.value for sample in requests if sample.name.endswith("_total"))
    assert total == 3000
    for name in ("fleethook_dispatch_requests_refused", "fleethook_dispatch_duration_seconds"):
        assert {sample.labels["cluster"] for sample in families[name].samples} == clusters


def test_names_of_unknown_clusters_use_no_room() -> None:
    metrics = DispatchMetrics(max_clusters=1)
    for number in range(10):
        metrics.count_refused(f"typo{number}", is_known=False)
    metrics.count_refused("ws3", is_known=True)
    name = "fleethook_dispatch_requests_refused_total"
    assert read_samples(metrics, name) == {f'{name}{{cluster="other"}}': 10, f'{name}{{cluster="ws3"}}': 1}


def test_gauges_add_up_clusters_without_a_name() -> None:
    metrics = DispatchMetrics(max_clusters=1)
    metrics.count_refused("ws3", is_known=True)
    name = "fleethook_dispatch_requests_in_flight"
    found = read_samples(metrics, name, {"ws1": 2, "ws2": 3, "ws3": 4})
    assert found == {f'{name}{{cluster="other"}}': 5, f'{name}{{cluster="ws3"}}': 4}


def test_calls_of_dispatched_webhooks_are_counted_by_cluster_outcome_and_status() -> None:
    metrics = DispatchMetrics()
    (hook,) = compile_webhooks("validating", "ws1", configuration("ws1", "validating", webhook()))
    metrics.count_webhook_call(hook, outcome="allowed", code=200, seconds=0.25)
    metrics.count_webhook_call(hook, outcome="allowed", code=200, seconds=0.25)
    metrics.count_webhook_call(hook, outcome="failed", code=418, seconds=0.5)
    labels = f'cluster="ws1",code="{{}}",outcome="{{}}",type="validating",webhook="{hook.uid}"'
    assert read_samples(metrics, "fleethook_webhook_requests_total") == {
        f"fleethook_webhook_requests_total{{{labels.format(200, 'allowed')}}}": 2,
        f"fleethook_webhook_requests_total{{{labels.format('4xx', 'failed')}}}": 1,
    }
    assert read_samples(metrics, "fleethook_webhook_duration") == {
        'fleethook_webhook_duration_seconds_count{type="validating"}': 3,
        'fleethook_webhook_duration_seconds_sum{type="validating"}': 1.0,
    }


def read(client: HookClient) -> dict[str, float]:
    """Return the samples of the client's metrics that are not 0."""
    registry = CollectorRegistry()
    registry.register(CallMetrics(client))
    lines = generate_latest(registry).decode().splitlines()
    samples = {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[0] != "#")}
    assert len(samples) == 5
    return {name.removeprefix("fleethook_webhook_"): value for name, value in samples.items() if value}


async def test_calls_in_flight_waiting_and_refused_are_counted(hook: RawHook) -> None:
    answering = asyncio.Event()

    async def answer(_: object, writer: asyncio.StreamWriter) -> None:
        await answering.wait()
        writer.write(http())

    hook.answer = answer
    async with HookClient(allow_private=True, max_calls=1) as client:
        assert read(client) == {}
        calls = [asyncio.create_task(client.post(endpoint(hook), b"{}", seconds=NET)) for _ in range(3)]
        await until(lambda: hook.asked and client.calls.waiting == 2)
        assert read(client) == {"calls_in_flight": 1, "calls_waiting": 2}
        with pytest.raises(OverloadedError):
            await client.post(endpoint(hook), b"{}", seconds=0.1)
        refused = {"calls_refused_total": 1}
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
