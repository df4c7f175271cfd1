"""Spans of reviews, as a collector receives them."""

import json
import logging
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

from fleethook.app import Fleethook, create_app
from fleethook.server.log import JSONFormatter
from fleethook.settings import Settings
from fleethook.tracing.otlp import OTLPTracing, start_otlp
from fleethook.tracing.spans_and_otel_variables import enter_span
from tests.asgi_client import call
from tests.engines.dispatch.builders import binding, configuration, export, review, webhook
from tests.engines.dispatch.webhook_server import Webhooks, allow, webhooks
from tests.tracing.collector import Collector, collecting
from tests.waiting import wait_for

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SAMPLED = {"content-type": "application/json", "traceparent": f"00-{TRACE}-{PARENT}-01", "tracestate": "a=1,b=2"}
UNSAMPLED = {**SAMPLED, "traceparent": f"00-{TRACE}-{PARENT}-00"}
OPEN_METRICS = {"accept": "application/openmetrics-text; version=1.0.0"}
ROUTE = "POST /clusters/{cluster}/validate"
CONDITION = [{"name": "always", "expression": "true"}]


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as running:
        yield running


@pytest.fixture
def tracing(collector: Collector) -> Iterator[OTLPTracing]:
    made = start_otlp(collector.url)
    yield made
    made.close()


@pytest.fixture
async def hooks(tmp_path: Path) -> AsyncIterator[Webhooks]:
    async with webhooks(tmp_path) as made:
        made.answers["/w"] = allow
        yield made


@pytest.fixture
async def app(tracing: OTLPTracing, hooks: Webhooks) -> AsyncIterator[Fleethook]:
    made = create_app(Settings(), log=None, trace=tracing.start)
    hook = webhook(clientConfig=hooks.client_config("/w"), matchConditions=CONDITION)
    for document in (binding("ws3", "ws1", "widgets.example.org"), export("ws1", "widgets.example.org")):
        made.store.put(document)
    made.store.put(configuration("ws1", "validating", hook))
    async with made.router.lifespan_context(made):
        yield made


async def ask(app: Fleethook, headers: dict[str, str]) -> Any:
    return await call(app, "/clusters/ws3/validate", json.dumps(review()).encode(), headers=headers)


async def test_a_review_continues_the_trace_of_its_caller(
    app: Fleethook, tracing: OTLPTracing, collector: Collector, hooks: Webhooks
) -> None:
    assert (await ask(app, SAMPLED)).json()["response"]["allowed"]
    tracing.close()
    (root,) = collector.named(ROUTE)
    assert (root.trace, root.parent, root.kind, root.failed) == (TRACE, PARENT, "server", False)
    assert root.attributes == {
        "http.request.method": "POST",
        "http.route": "/clusters/{cluster}/validate",
        "http.response.status_code": 200,
        "fleethook.review.uid": "u-1",
        "fleethook.review.operation": "CREATE",
        "fleethook.review.outcome": "allowed",
        "fleethook.cluster": "ws3",
    }
    assert root.resource["service.name"] == "fleethook"
    assert collector.tree(root) == {"evaluate matchConditions": {}, "call webhook": {}}
    (called,) = collector.named("call webhook")
    assert (called.kind, called.attributes["fleethook.webhook"]) == ("client", "hooks/w.example.org/0")
    (headers,) = hooks.headers
    assert headers["traceparent"] == f"00-{TRACE}-{called.id}-01"
    assert headers["tracestate"] == "a=1,b=2"
    assert {path for path, _ in collector.requests} == {"/v1/traces"}


async def test_a_review_for_a_rule_has_a_span_with_its_name(
    tracing: OTLPTracing, collector: Collector, tmp_path: Path
) -> None:
    (tmp_path / "rules.py").write_text(
        'from fleethook.admission import validate\n@validate("v1", "Pod")\ndef admits(): pass\n'
    )
    app = create_app(Settings(rules=[tmp_path / "rules.py"]), log=None, trace=tracing.start)
    async with app.router.lifespan_context(app):
        await call(app, "/rules/validate/admits", json.dumps(review()).encode(), headers=SAMPLED)
    tracing.close()
    (root,) = collector.named("POST /rules/validate/admits")
    assert (root.trace, root.attributes["http.route"]) == (TRACE, "/rules/validate/admits")


SHAPES = {
    "/clusters/{cluster}/validate": ("AdmissionReview", "admission.k8s.io/v1"),
    "/interpret": ("ResourceInterpreterContext", "config.karmada.io/v1alpha1"),
}


@pytest.mark.parametrize(("headers", "trace"), [(SAMPLED, TRACE), (UNSAMPLED, None)], ids=["exported", "unsampled"])
@pytest.mark.parametrize("route", SHAPES)
async def test_the_log_line_and_the_exemplar_of_an_exported_review_name_its_trace(
    tracing: OTLPTracing, route: str, headers: dict[str, str], trace: str | None
) -> None:
    lines: list[bytes] = []
    app = create_app(Settings(), log=lines.append, trace=tracing.start)
    kind, version = SHAPES[route]
    body = json.dumps({"apiVersion": version, "kind": kind, "request": {"uid": "u-1"}}).encode()
    given = {**headers, "x-request-id": "i" * 200}
    for _ in range(2):
        assert (await call(app, route.replace("{cluster}", "ws3"), body, headers=given)).status == 200
    assert [json.loads(line).get("traceId") for line in lines] == [trace, trace]
    text = (await call(app, "/metrics", method="GET", headers=OPEN_METRICS)).body.decode()
    found = {line.split(" # ")[1].split(" ")[0] for line in text.splitlines() if " # {" in line}
    assert found == (set() if trace is None else {f'{{trace_id="{trace}"}}'})


def test_a_log_record_of_a_traced_review_names_its_trace(tracing: OTLPTracing) -> None:
    span = tracing.start("POST /x", [(b"traceparent", SAMPLED["traceparent"].encode())])
    record = logging.LogRecord("app", logging.ERROR, __file__, 1, "failed", None, None)
    with enter_span(span):
        assert json.loads(JSONFormatter().format(record))["traceId"] == TRACE
    assert "traceId" not in json.loads(JSONFormatter().format(record))


async def test_a_refused_review_fails_its_span(app: Fleethook, tracing: OTLPTracing, collector: Collector) -> None:
    answer = await call(app, "/clusters/ws3/validate", b"{}", headers=SAMPLED)
    assert answer.status == 400
    tracing.close()
    (root,) = collector.named(ROUTE)
    assert root.failed
    assert root.attributes["http.response.status_code"] == 400


async def test_a_failed_webhook_fails_its_span(
    app: Fleethook, tracing: OTLPTracing, collector: Collector, hooks: Webhooks
) -> None:
    del hooks.answers["/w"]
    assert not (await ask(app, SAMPLED)).json()["response"]["allowed"]
    tracing.close()
    assert [span.failed for span in collector.named("call webhook")] == [True]
    assert [span.failed for span in collector.named(ROUTE)] == [False]


async def test_an_unsampled_trace_is_passed_on_and_not_exported(
    app: Fleethook, tracing: OTLPTracing, collector: Collector, hooks: Webhooks
) -> None:
    await ask(app, UNSAMPLED)
    tracing.close()
    assert collector.spans == []
    (headers,) = hooks.headers
    assert re.fullmatch(f"00-{TRACE}-[0-9a-f]{{16}}-00", headers["traceparent"])
    assert headers["tracestate"] == "a=1,b=2"


@pytest.mark.parametrize("value", ["", "00-xyz", f"00-{TRACE}-{PARENT}", "0" * 200])
def test_a_malformed_traceparent_starts_another_trace(tracing: OTLPTracing, collector: Collector, value: str) -> None:
    span = tracing.start("POST /x", [(b"traceparent", value.encode())])
    span.end()
    tracing.close()
    (found,) = collector.spans
    assert found.trace != TRACE
    assert found.parent == ""


@pytest.mark.parametrize(("sampler", "share"), [("parentbased_traceidratio", 0.25), ("traceidratio", 0.25)])
def test_the_environment_chooses_the_share_of_traces(
    collector: Collector, monkeypatch: pytest.MonkeyPatch, sampler: str, share: float
) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", sampler)
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", str(share))
    tracing = start_otlp(collector.url)
    for _ in range(2000):
        tracing.start("POST /x", []).end()
    tracing.close()
    chosen = len(collector.spans)
    # Eight standard deviations: 19 of 2000.
    assert abs(chosen - 500) < 160
    assert len({span.trace for span in collector.spans}) == chosen


def test_a_sampler_that_ignores_the_caller_decides_about_unsampled_traces(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_on")
    tracing = start_otlp(collector.url)
    span = tracing.start("POST /x", [(name.encode(), text.encode()) for name, text in UNSAMPLED.items()])
    span.end()
    tracing.close()
    assert [(span.trace, span.parent) for span in collector.spans] == [(TRACE, PARENT)]


def test_standard_variables_name_the_service_and_the_headers(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "edge-webhooks")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20abc")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    tracing = start_otlp(None)
    span = tracing.start_root("fetch CRDs")
    span.end("no")
    tracing.close()
    (found,) = collector.spans
    assert (found.kind, found.failed) == ("internal", True)
    assert found.resource["service.name"] == "edge-webhooks"
    assert found.resource["deployment.environment.name"] == "test"
    assert collector.requests[0][1]["authorization"] == "Bearer abc"


def test_a_silent_collector_does_not_keep_the_process(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "3600")
    collector.hold.clear()
    tracing = OTLPTracing(OTLPSpanExporter(f"{collector.url}/v1/traces"), close_seconds=0.1)
    span = tracing.start_root("fetch CRDs")
    span.end()
    tracing.close()
    assert collector.spans == []
    collector.hold.set()
    wait_for(lambda: len(collector.spans) == 1)
