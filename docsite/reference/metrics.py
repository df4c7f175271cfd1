"""The page of metrics, from the registries of each kind of process."""

import asyncio
import tempfile
from pathlib import Path
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric

from docsite.reference.tables import render_page, render_table
from fleethook.app import create_app
from fleethook.cli.serve.leader_tasks import candidate_metrics
from fleethook.engines.crds.controller.crds_metrics import FetchMetrics
from fleethook.recordings.recorder import RecordMetrics
from fleethook.server.metrics import certificate_gauge, leader_gauges
from fleethook.server.protocol.connections import Connections
from fleethook.settings import Settings

_INTRODUCTION: Final = (
    "`GET /metrics` of the server has the metrics of the first table, and `fleethook crds controller` those of the "
    "second. Histograms have the samples `_bucket`, `_sum` and `_count`. In OpenMetrics, the buckets of "
    "`fleethook_review_duration_seconds` have exemplars with the id of an exported trace. "
    "[Stability](../project/versioning.md) describes which changes a release may make to them."
)


async def collect_server_registry(directory: Path) -> CollectorRegistry:
    """Return the registry of a server that follows manifests, listens, records, and is a candidate for the Lease.

    Args:
        directory: A directory of manifests.
    """
    app = create_app(Settings(manifests=directory), log=None)
    app.connections = Connections(1)
    async with app.router.lifespan_context(app):
        for collector in (
            *candidate_metrics(app, lambda: True),
            *RecordMetrics().collectors(),
            certificate_gauge(lambda: 0.0),
        ):
            app.metrics.registry.register(collector)
        return app.metrics.registry


def make_controller_registry() -> CollectorRegistry:
    """Return the registry of the controller for CRD tarballs."""
    registry = CollectorRegistry()
    FetchMetrics(registry)
    for gauge in leader_gauges(lambda: True, lambda: 0):
        registry.register(gauge)
    return registry


def name_samples(family: Metric) -> str:
    """Return the name of a family as queries use it."""
    return f"{family.name}_total" if family.type == "counter" else family.name


def render_metrics() -> str:
    """Return the page."""
    with tempfile.TemporaryDirectory() as directory:
        server = asyncio.run(collect_server_registry(Path(directory)))
        return render_page(
            "Metrics",
            _INTRODUCTION,
            "## The server",
            _render_families(server),
            "## The controller for CRD tarballs",
            _render_families(make_controller_registry()),
        )


def _render_families(registry: CollectorRegistry) -> str:
    labels = _find_labels(registry)
    rows = [
        (f"`{name_samples(one)}`", one.type, ", ".join(f"`{label}`" for label in labels[one.name]), one.documentation)
        for one in sorted(registry.collect(), key=lambda one: one.name)
    ]
    return render_table(["metric", "type", "labels", "meaning"], rows)


def _find_labels(registry: CollectorRegistry) -> dict[str, tuple[str, ...]]:
    """Return the labels of each family. prometheus_client has them only as private members."""
    found: dict[str, tuple[str, ...]] = {}
    for collector in set(registry._collector_to_names):  # noqa: SLF001 - as above
        for family in collector.collect():
            own = getattr(family, "_labelnames", None) or getattr(collector, "_labelnames", None)
            found[family.name] = tuple(own or ())
    return found
