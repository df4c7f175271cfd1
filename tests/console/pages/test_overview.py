import json
import re
from datetime import UTC, datetime
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from fleethook.cluster.api_errors import APIError
from fleethook.cluster.leader_election import Leader, describe_lease
from fleethook.cluster.manifests.reloaded_manifests import ManifestSource
from fleethook.console.metrics_and_lease import LeaseWatch, MetricsSampler, MetricsTarget
from fleethook.console.reviews.review_index import ReviewIndex
from tests.console.metrics_server import serving_metrics
from tests.console.pages.reading import HOSTILE, get
from tests.console.recorded import record_workloads
from tests.console.visits import console_of, make_context, visit
from tests.waiting import NET

NOW = datetime(2026, 1, 1, 12, 0, 20, tzinfo=UTC)
SPEC = {
    "holderIdentity": "pod-1_ab", "leaseDurationSeconds": 15, "acquireTime": "2026-01-01T11:00:00.000000Z",
    "renewTime": "2026-01-01T12:00:10.000000Z", "leaseTransitions": 3,
}  # fmt: skip


def describe(**changes: Any) -> Leader:
    return describe_lease({"spec": {**SPEC, **changes}}, now=NOW)


def test_a_renewed_lease_names_the_leader() -> None:
    assert describe() == Leader("leads", "pod-1_ab", "2026-01-01 11:00:00", 10.0, 3)


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({"renewTime": "2026-01-01T12:00:05Z"}, "leads"),
        ({"renewTime": "2026-01-01T12:00:04Z"}, "not renewed"),
        ({"renewTime": "2026-01-01T12:09:00Z"}, "leads"),
        ({"renewTime": None}, "not renewed"),
        ({"holderIdentity": ""}, "released"),
        ({"holderIdentity": None}, "released"),
    ],
)
def test_the_state_follows_holder_and_renewal(changes: dict[str, Any], state: str) -> None:
    assert describe(**changes).state == state


def test_without_a_lease_there_is_no_leader() -> None:
    assert describe_lease(None, now=NOW) == Leader("absent")


async def test_the_overview_shows_sources_counts_and_the_equivalent_command(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("kind: [")
    source = ManifestSource([tmp_path], make_context().store)
    source.load()
    app = console_of(manifests=source, command_source="-f examples")
    body = (await visit(app, "/")).body.decode()
    assert "<bdi>manifests</bdi>" in body
    assert "failing" in body
    assert "bad.yaml" in body
    assert '<code tabindex="0">fleethook lint -f examples</code>' in body
    assert "There are no objects. This command loads some:" in body


def read_charts(text: str) -> list[Any]:
    """Return the data of the charts on a page."""
    return [json.loads(unescape(one)) for one in re.findall(r'data-chart="([^"]*)"', text)]


async def test_without_a_server_and_recordings_the_overview_names_the_options() -> None:
    page = await get(console_of(), "/")
    assert (
        "fleethook console --metrics-url https://localhost:9443/metrics --metrics-ca-file certs/ca.crt or --records DIR"
        in page.text
    )
    assert '<select name="window"' not in (await visit(console_of(), "/")).body.decode()


async def test_recordings_give_charts_and_a_table(tmp_path: Path) -> None:
    await record_workloads(tmp_path)
    reviews = ReviewIndex(tmp_path, patience=NET)
    await reviews.find()
    app = console_of(reviews=reviews)
    body = (await visit(app, "/", query="window=1h")).body.decode()
    charts = read_charts(body)
    assert [one["title"] for one in charts] == ["Reviews per second", "Duration", "Verdicts per second"]
    assert charts[0]["lines"][0]["values"][-1] == pytest.approx(1 / 60)
    assert charts[2]["lines"] == [{"name": "patched", "values": [0.0] * 59 + [pytest.approx(1 / 60)]}]
    page = await get(app, "/", "window=1h")
    assert "From recordings, up to the newest review." in page.text
    assert "patched /s" in page.text
    assert "0.0167" in page.text
    assert "<option selected>1h</option>" in body
    assert "data-hx-get" not in body.partition('id="rates"')[2].partition(">")[0]


async def test_the_metrics_of_a_server_are_shown_with_their_age() -> None:
    with serving_metrics() as server:
        sampler = MetricsSampler(MetricsTarget(server.url))
        app = console_of(sampler=sampler)
        assert "last sample: none yet. " in (await get(app, "/")).text
        server.count()
        await sampler.sample()
        server.count(times=3)
        await sampler.sample()
        server.status = 500
        await sampler.sample()
        page = await get(app, "/rates", "window=1h")
        body = (await visit(app, "/rates", query="window=1h")).body.decode()
    assert f"From {server.url} ; last sample: 0 s old." in page.text
    assert "The metrics cannot be read: the server answers 500 instead of 200" in page.text
    assert [one["name"] for one in read_charts(body)[2]["lines"]] == ["allowed"]
    assert read_charts(body)[0]["lines"][0]["values"][0] > 0
    assert 'data-hx-get="/rates?window=1h"' in body


async def test_labels_of_metrics_are_text_and_never_markup() -> None:
    with serving_metrics() as server:
        sampler = MetricsSampler(MetricsTarget(server.url))
        for number in (1, 2):
            for name in HOSTILE:
                server.count(name, times=number)
            await sampler.sample()
        app = console_of(sampler=sampler)
        page = await get(app, "/")
        for name in HOSTILE:
            assert " ".join(name.split()) in page.text
        lines = read_charts((await visit(app, "/")).body.decode())[2]["lines"]
    assert {one["name"] for one in lines} == set(HOSTILE)


def lease_of(holder: str, *, failure: Exception | None = None) -> LeaseWatch:
    """Return the watch of a Lease that was renewed just now, or that cannot be read."""
    now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 3600, "acquireTime": now, "renewTime": now}

    async def get(_method: str, _path: str, **_rest: Any) -> Any:
        if failure is not None:
            raise failure
        return {"spec": spec}

    return LeaseWatch(get, "/{}".format, namespace="servers")


async def test_the_leader_is_shown() -> None:
    page = await get(console_of(lease=lease_of("pod-1_ab")), "/")
    assert re.search(
        r"State leads Replica pod-1_ab Leads since 20\S+ \S+ UTC \(.* ago\) Renewed \d+ s ago Changes 0", page.text
    )


def registration(**annotations: str) -> dict[str, Any]:
    """Return a configuration with one webhook of fleethook."""
    webhook = {
        "name": "a.rules.fleethook.io", "failurePolicy": "Fail",
        "clientConfig": {"service": {"namespace": "fleet", "name": "f", "path": "/rules/validate/a"}},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
    }  # fmt: skip
    metadata = {"name": "r", "labels": {"app.kubernetes.io/name": "fleethook"}, "annotations": annotations}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": metadata, "webhooks": [webhook],
    }  # fmt: skip


GONE = APIError(404, "NotFound", "not found")
OF_RULES = registration(**{"fleethook.io/registered-by": "fleet"})


@pytest.mark.parametrize(
    ("lease", "configuration", "reason"),
    [
        (lease_of(""), OF_RULES, "it has stopped: refused: CREATE of pods (a.rules.fleethook.io)"),
        (lease_of("", failure=GONE), OF_RULES, "there is no Lease fleethook in the namespace fleet: refused"),
        (lease_of(""), registration(), "it has stopped: refused: CREATE of pods (a.rules.fleethook.io)"),
        (lease_of("pod-1_ab"), OF_RULES, ""),
        # Without a leader, there is no Lease.
        (lease_of("", failure=GONE), registration(), ""),
    ],
    ids=["stopped", "no Lease", "of another engine", "running", "a server without leader"],
)
async def test_a_stopped_server_is_the_first_line(lease: LeaseWatch, configuration: Any, reason: str) -> None:
    page = await get(console_of(configuration, lease=lease), "/attention")
    lines = re.findall(r"outage Server in fleet (.*)", page.text)
    assert bool(lines) is bool(reason)
    if reason:
        assert lines[0].startswith(reason)
        assert page.text.index("outage") < page.text.index("CREATE of pods")
        assert "Namespace fleet" in (await get(console_of(OF_RULES, lease=lease_of("")), "/")).text


async def test_without_a_cluster_there_is_no_leader() -> None:
    assert "Leader" not in (await get(console_of(), "/")).text


async def test_a_lease_that_cannot_be_read_has_a_line() -> None:
    unreadable = lease_of("", failure=APIError(403, "Forbidden", "no rights"))
    page = await get(console_of(lease=unreadable), "/attention")
    assert "failing Lease of the leader it cannot be read: no rights" in page.text


async def test_a_missing_lease_names_its_namespace() -> None:
    absent = lease_of("", failure=APIError(404, "NotFound", "not found"))
    assert "no Lease fleethook in the namespace servers" in (await get(console_of(lease=absent), "/")).text
