"""A trace from a client of kube-apiserver to a dispatched webhook, as a collector receives it."""

import asyncio
import base64
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.cluster import Api, ControlPlane, control_plane
from tests.e2e.conftest import new_namespace
from tests.engines.dispatch.builders import configuration, logical_cluster, webhook
from tests.engines.dispatch.webhook_server import Webhooks, allow, webhooks
from tests.serving import Server, serving
from tests.tracing.collector import Collector, ReceivedSpan, collecting
from tests.waiting import wait_for

REGISTRATION = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/traced"
CONFIG_MAPS = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]}
ROUTE = "POST /clusters/{cluster}/validate"


@pytest.fixture(scope="module")
def plane(binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane whose apiserver traces every request; no collector listens for its own spans."""
    directory = tmp_path_factory.mktemp("traced")
    tracing = {
        "apiVersion": "apiserver.config.k8s.io/v1", "kind": "TracingConfiguration",
        "endpoint": "127.0.0.1:9", "samplingRatePerMillion": 1_000_000,
    }  # fmt: skip
    file = directory / "tracing.yaml"
    file.write_text(yaml.safe_dump(tracing))
    with control_plane(binaries, directory, f"--tracing-config-file={file}") as running:
        yield running


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as running:
        yield running


@pytest.fixture
async def hooks(tmp_path: Path) -> AsyncIterator[Webhooks]:
    async with webhooks(tmp_path) as made:
        made.answers["/w"] = allow
        yield made


@pytest.fixture
def server(tmp_path: Path, collector: Collector, hooks: Webhooks) -> Iterator[Server]:
    """A server that dispatches the reviews of one logical cluster, and exports each span at once."""
    condition = [{"name": "named", "expression": "object.metadata.name.startsWith('traced')"}]
    hook = webhook(clientConfig=hooks.client_config("/w"), rules=[CONFIG_MAPS], matchConditions=condition)
    manifests = tmp_path / "manifests"
    manifests.mkdir()
    documents = [logical_cluster("ws3"), configuration("ws3", "validating", hook)]
    (manifests / "ws3.yaml").write_text(yaml.safe_dump_all(documents))
    given = ("--otlp-endpoint", collector.url)
    with serving(tmp_path, *given, manifests=manifests, OTEL_BSP_SCHEDULE_DELAY="100") as running:
        yield running


def register(admin: Api, server: Server) -> None:
    """Have the apiserver send every ConfigMap with our label to the logical cluster."""
    config = {
        "url": f"https://127.0.0.1:{server.port}/clusters/ws3/validate",
        "caBundle": base64.b64encode(server.authority.read_bytes()).decode(),
    }
    registered = {
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "traced"},
        "webhooks": [webhook(clientConfig=config, rules=[CONFIG_MAPS], objectSelector={"matchLabels": {"traced": "yes"}})],
    }  # fmt: skip
    admin.apply(REGISTRATION, registered)


def find_reviews(collector: Collector) -> list[ReceivedSpan]:
    return [span for span in collector.named(ROUTE) if len(collector.tree(span)) == 2]


async def test_a_trace_continues_from_the_apiserver_to_the_webhook(
    plane: ControlPlane, server: Server, collector: Collector, hooks: Webhooks
) -> None:
    admin = plane.api()
    register(admin, server)
    namespace = new_namespace(admin)
    numbers = iter(range(10**6))

    def create() -> bool:
        metadata = {"name": f"traced-{next(numbers)}", "labels": {"traced": "yes"}}
        made: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
        admin.create(f"/api/v1/namespaces/{namespace}/configmaps", made)
        return bool(find_reviews(collector))

    await asyncio.to_thread(wait_for, create, what="a trace of a review that was dispatched")
    review = find_reviews(collector)[0]
    # The parent is a span of the apiserver, whose collector does not listen.
    assert review.parent not in {"", *(span.id for span in collector.spans)}
    assert (review.kind, review.failed, review.resource["service.name"]) == ("server", False, "fleethook")
    assert review.attributes["fleethook.review.outcome"] == "allowed"
    assert collector.tree(review) == {"evaluate matchConditions": {}, "call webhook": {}}
    children = [span for span in collector.spans if span.parent == review.id]
    assert {span.trace for span in children} == {review.trace}
    (called,) = (span for span in children if span.name == "call webhook")
    assert f"00-{review.trace}-{called.id}-01" in [headers["traceparent"] for headers in hooks.headers]
    assert server.stop() == 0
