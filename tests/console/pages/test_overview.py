import base64
import json
import re
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from fleethook.cluster.api_errors import APIError
from fleethook.cluster.leader_election import LEASE
from fleethook.cluster.manifests.manifest_source import ManifestSource
from fleethook.cluster.store import ObjectKey
from fleethook.console.pages.overview import (
    CONFIGURATIONS,
    MAX_CERTIFICATES,
    Bundle,
    Certificate,
    Leader,
    Row,
    build_charts,
    collect_bundles,
    count_objects,
    describe_lease,
    judge_certificates,
    list_certificate_lines,
    list_leader_lines,
    list_rows,
)
from fleethook.console.review_rates import Rates
from fleethook.console.reviews.review_index import ReviewIndex
from fleethook.console.sections import MUTATING, VALIDATING
from fleethook.console.server_watch import LeaseWatch, MetricsSampler, MetricsTarget
from fleethook.console.users.local_access import User
from fleethook.model.openyurt import YURT_APP_DAEMON, YURT_APP_SET
from fleethook.outbound.tls.trust import Validity
from tests.builders import yurt_app_daemon, yurt_app_set
from tests.console.metrics_server import serving_metrics
from tests.console.pages.reading import HOSTILE, get
from tests.console.recorded import record_workloads
from tests.console.visits import console_of, make_context, visit
from tests.e2e.pki import Authority

TODAY = datetime(2026, 1, 1, tzinfo=UTC)


def configuration(webhooks: Any, name: str = "c", kind: str = "ValidatingWebhookConfiguration") -> dict[str, Any]:
    version = "admissionregistration.k8s.io/v1"
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "webhooks": webhooks}


def bundle(*ends: int, name: str = "c", cluster: str = "") -> Bundle:
    authorities = [Validity(TODAY - timedelta(days=99), TODAY + timedelta(days=end)) for end in ends]
    return Bundle(ObjectKey(cluster, VALIDATING, "", name), 1, authorities)


def judge(*bundles: Bundle, server_end: float | None = None) -> list[Certificate]:
    return list(judge_certificates(bundles, CONFIGURATIONS, server_end=server_end, now=TODAY).rows)


def test_the_bundles_of_webhooks_are_collected_by_configuration(tmp_path: Path) -> None:
    text = base64.b64encode(Authority(tmp_path, "ca").certificate.read_bytes()).decode()
    webhooks = [{"clientConfig": {"caBundle": one}} for one in (text, text, "%%", "")]
    context = make_context(
        configuration(webhooks),
        configuration(webhooks[:1], "d", "MutatingWebhookConfiguration"),
        configuration(None, "e"),
    )
    found = [
        (one.key.group_kind, one.key.name, one.webhooks, len(one.authorities)) for one in collect_bundles(context.store)
    ]
    assert found == [(MUTATING, "d", 1, 1), (VALIDATING, "c", 2, 1), (VALIDATING, "c", 1, 0)]


@pytest.mark.parametrize(
    "webhooks", ["x", {}, [None, 1, "x"], [{"clientConfig": 1}], [{"clientConfig": {"caBundle": None}}]]
)
def test_webhooks_of_another_shape_have_no_bundle(webhooks: Any) -> None:
    assert collect_bundles(make_context(configuration(webhooks)).store) == []


@pytest.mark.parametrize(("days", "state"), [(-1, "expired"), (13, "ends soon"), (15, "valid")])
def test_the_state_depends_on_the_end(days: int, state: str) -> None:
    until = f"{TODAY + timedelta(days=days):%Y-%m-%d %H:%M}"
    name = "ValidatingWebhookConfiguration c"
    assert judge(bundle(days)) == [Certificate(name, 1, state, until, bundle(days).key)]  # type: ignore[arg-type]
    end = (TODAY + timedelta(days=days)).timestamp()
    assert judge(server_end=end) == [Certificate("server", None, state, until)]  # type: ignore[arg-type]


def test_certificates_that_need_attention_are_first() -> None:
    found = judge(
        bundle(90, name="a"), bundle(3, name="b"), bundle(2, 1, name="c"), bundle(name="d"), bundle(-1, name="e")
    )
    assert [(one.name[-1], one.state) for one in found] == [
        ("d", "unreadable"), ("e", "expired"), ("c", "ends soon"), ("b", "ends soon"), ("a", "valid"),
    ]  # fmt: skip


def test_a_logical_cluster_is_named() -> None:
    assert judge(bundle(90, cluster="root:org"))[0].name == "ValidatingWebhookConfiguration c in root:org"


@pytest.mark.parametrize("seconds", [1e15, -1e15])
def test_an_impossible_end_is_unreadable(seconds: float) -> None:
    assert [one.state for one in judge(server_end=seconds)] == ["unreadable"]


def test_a_server_without_a_certificate_has_no_row() -> None:
    assert judge(server_end=0.0) == judge(server_end=None) == []


def test_only_permitted_kinds_are_shown() -> None:
    assert judge_certificates([bundle(90)], [MUTATING], server_end=None, now=TODAY).total == 0


def test_the_rows_are_bounded_and_all_are_counted() -> None:
    found = judge_certificates([bundle(90)] * 30, CONFIGURATIONS, server_end=None, now=TODAY)
    assert (len(found.rows), found.total) == (MAX_CERTIFICATES, 30)


def test_certificates_that_end_soon_have_a_line() -> None:
    found = judge_certificates(
        [bundle(90, name="a"), bundle(3, name="b"), bundle(name="d"), bundle(-1, name="e")],
        CONFIGURATIONS,
        server_end=(TODAY + timedelta(days=1)).timestamp(),
        now=TODAY,
    )
    lines = list_certificate_lines(found, lambda key: f"/{key.name}")
    assert [(one.severity, one.about, one.address) for one in lines] == [
        ("waiting", "Serving certificate", "/#certificates-title"),
        ("waiting", "CAs of ValidatingWebhookConfiguration b", "/b"),
    ]


@pytest.mark.parametrize(("days", "severity"), [(-1, "failing"), (1, "waiting"), (30, "")])
def test_the_serving_certificate_has_a_line_unless_it_is_valid(days: int, severity: str) -> None:
    end = (TODAY + timedelta(days=days)).timestamp()
    found = judge_certificates([], CONFIGURATIONS, server_end=end, now=TODAY)
    assert "".join(one.severity for one in list_certificate_lines(found, str)) == severity


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


def test_times_of_other_zones_are_shown_in_utc() -> None:
    assert describe(acquireTime="2026-01-01T13:00:00+02:00").since == "2026-01-01 11:00:00"


def test_without_a_lease_there_is_no_leader() -> None:
    assert describe_lease(None, now=NOW) == Leader("absent")


@pytest.mark.parametrize("value", ["", "yesterday", 5, [], {}, "0001-01-01T00:00:00+14:00"])
def test_values_of_another_shape_are_unknown(value: Any) -> None:
    found = describe(acquireTime=value, renewTime=value, leaseDurationSeconds=value, leaseTransitions=str(value))
    assert (found.state, found.since, found.renewed, found.transitions) == ("not renewed", "", None, 0)


@pytest.mark.parametrize("lease", [{}, {"spec": None}])
def test_a_lease_without_a_spec_is_released(lease: Any) -> None:
    assert describe_lease(lease, now=NOW).state == "released"


@pytest.mark.parametrize("state", ["leads", "released", "absent"])
def test_a_leader_that_renews_or_released_the_lease_needs_no_attention(state: Any) -> None:
    assert list_leader_lines(Leader(state), "") == list_leader_lines(None, "") == []


def test_a_lease_that_is_not_renewed_or_not_read_has_a_line() -> None:
    (line,) = list_leader_lines(Leader("not renewed", "pod-1_ab"), "")
    assert (line.severity, line.reason.split()[0]) == ("failing", "pod-1_ab")
    assert list_leader_lines(None, "x")[0].reason == "it cannot be read: x"


def test_objects_are_counted_by_kind() -> None:
    context = make_context(yurt_app_set("a"), yurt_app_set("b"), yurt_app_daemon())
    assert count_objects(context.store) == [(YURT_APP_DAEMON, 1), (YURT_APP_SET, 2)]


def test_a_kind_without_objects_is_left_out() -> None:
    context = make_context(yurt_app_set("a"))
    (key,) = context.store.keys(YURT_APP_SET)
    context.store.remove(key)
    assert count_objects(context.store) == []


RATES = Rates([0.0, 60.0], [1.0, 12345.6], [0.001, None], [0.01234, None], {"allowed": [1.0, 0.5]})


def test_charts_have_durations_in_milliseconds() -> None:
    charts = build_charts(RATES)
    assert [one["title"] for one in charts] == ["Reviews per second", "Duration", "Verdicts per second"]
    assert all(one["times"] == [0.0, 60.0] for one in charts)
    assert charts[1]["lines"] == [{"name": "median", "values": [1.0, None]}, {"name": "99 %", "values": [12.34, None]}]
    assert charts[2]["lines"] == [{"name": "allowed", "values": [1.0, 0.5]}]


def test_a_chart_without_a_figure_is_empty() -> None:
    none = Rates((1.0, 2.0), (0.0, 0.0), (None, None), (None, 0.5), {"allowed": (0.0, 0.0)})
    assert [one["is_empty"] for one in build_charts(none)] == [True, False, True]


def test_rows_are_newest_first_with_three_digits() -> None:
    assert list_rows(RATES) == [
        Row("1970-01-01 00:01:00", "12346", "-", "-", ("0.5",)),
        Row("1970-01-01 00:00:00", "1", "1", "12.3", ("1",)),
    ]


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
    reviews = ReviewIndex(tmp_path)
    await reviews.wait()
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


async def test_an_unknown_window_is_the_default(tmp_path: Path) -> None:
    app = console_of(reviews=ReviewIndex(tmp_path))
    assert "<option selected>15m</option>" in (await visit(app, "/", query="window=%3Cscript%3E")).body.decode()


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


async def test_the_ends_of_certificates_are_shown_and_names_are_text(tmp_path: Path) -> None:
    text = base64.b64encode(Authority(tmp_path, "ca").certificate.read_bytes()).decode()
    found = [
        configuration([{"clientConfig": {"caBundle": text}}], name=f"{number}{name}")
        for number, name in enumerate(HOSTILE)
    ]
    with serving_metrics() as server:
        sampler = MetricsSampler(MetricsTarget(server.url))
        await sampler.sample()
        page = await get(console_of(*found, sampler=sampler), "/")
    assert "Serving certificate valid 2027-01-15 08:00" in page.text
    for number, name in enumerate(HOSTILE):
        assert f"CAs of ValidatingWebhookConfiguration {number}{' '.join(name.split())} ends soon" in page.text


async def test_without_certificates_the_overview_says_so() -> None:
    page = await get(console_of(), "/")
    assert "no webhook configuration has a caBundle, and --metrics-url names no server" in page.text


def lease_of(holder: str, *, failure: Exception | None = None) -> LeaseWatch:
    """Return the watch of a Lease that was renewed just now, or that cannot be read."""
    now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 3600, "acquireTime": now, "renewTime": now}

    async def get(_method: str, _path: str, **_rest: Any) -> Any:
        if failure is not None:
            raise failure
        return {"spec": spec}

    return LeaseWatch(get, "/lease", namespace="servers")


async def test_the_leader_is_shown() -> None:
    page = await get(console_of(lease=lease_of("pod-1_ab")), "/")
    assert re.search(
        r"State leads Replica pod-1_ab Leads since 20\S+ \S+ UTC \(.* ago\) Renewed \d+ s ago Changes 0", page.text
    )


@pytest.mark.parametrize("holder", HOSTILE)
async def test_the_holder_of_a_lease_is_text(holder: str) -> None:
    page = await get(console_of(lease=lease_of(holder)), "/")
    assert f"Replica {' '.join(holder.split())} Leads since" in page.text


async def test_without_a_cluster_there_is_no_leader() -> None:
    assert "Leader" not in (await get(console_of(), "/")).text


async def test_a_missing_lease_names_its_namespace() -> None:
    absent = lease_of("", failure=APIError(404, "NotFound", "not found"))
    assert "no Lease fleethook in the namespace servers" in (await get(console_of(lease=absent), "/")).text


async def test_a_lease_that_cannot_be_read_is_a_problem() -> None:
    refused = lease_of("", failure=APIError(403, "Forbidden", "the console cannot get <b>leases</b>"))
    page = await get(console_of(lease=refused), "/")
    assert "The Lease cannot be read: the console cannot get <b>leases</b>" in page.text
    assert "has not been read yet" in page.text


class Deciding:
    """Permits one question."""

    needs_credentials = True
    limits_kinds = True

    def __init__(self, *permitted: Any) -> None:
        self._permitted = permitted

    async def authenticate(self, _request: Any) -> User:
        return User("jane")

    async def permits(self, user: User, group_kind: Any, namespace: str) -> bool:
        return (user.name, group_kind, namespace) == self._permitted


async def test_the_leader_is_shown_to_users_who_may_get_leases_in_its_namespace() -> None:
    app = console_of(lease=lease_of("pod-1_ab"), authorizer=Deciding("jane", LEASE, "servers"))
    assert "pod-1_ab" in (await get(app, "/")).text


async def test_the_lease_is_not_even_read_for_other_users() -> None:
    lease = lease_of("pod-1_ab")
    page = await get(console_of(lease=lease, authorizer=Deciding("jane", LEASE, "")), "/")
    assert "You may not get Leases in the namespace servers" in page.text
    assert "pod-1_ab" not in page.text
    assert lease._reading is None


async def test_only_certificates_of_permitted_kinds_are_shown() -> None:
    found = [configuration([{"clientConfig": {"caBundle": "%%"}}], kind=f"{one.kind}") for one in CONFIGURATIONS]
    page = await get(console_of(*found, authorizer=Deciding("jane", MUTATING, "")), "/")
    assert "CAs of MutatingWebhookConfiguration c unreadable" in page.text
    assert "ValidatingWebhookConfiguration" not in page.text
