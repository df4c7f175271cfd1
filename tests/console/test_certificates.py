import base64
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from fleethook.cluster.store import ObjectKey
from fleethook.console.certificates import (
    CONFIGURATIONS,
    MAX_ROWS,
    Bundle,
    Certificate,
    collect_bundles,
    judge_certificates,
)
from fleethook.console.sections import MUTATING, VALIDATING
from fleethook.outbound.tls.ca_bundle import Validity
from tests.console.visits import make_context
from tests.e2e.pki import Authority

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def configuration(webhooks: Any, name: str = "c", kind: str = "ValidatingWebhookConfiguration") -> dict[str, Any]:
    version = "admissionregistration.k8s.io/v1"
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "webhooks": webhooks}


def bundle(*ends: int, name: str = "c", cluster: str = "") -> Bundle:
    authorities = [Validity(NOW - timedelta(days=99), NOW + timedelta(days=end)) for end in ends]
    return Bundle(ObjectKey(cluster, VALIDATING, "", name), 1, authorities)


def judge(*bundles: Bundle, server_end: float | None = None) -> list[Certificate]:
    return list(judge_certificates(bundles, CONFIGURATIONS, server_end=server_end, now=NOW).rows)


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
    "webhooks", ["x", {}, [None, 1, "x"], [{"clientConfig": 1}], [{"clientConfig": {"caBundle": [1]}}]]
)
def test_webhooks_of_another_shape_have_no_bundle(webhooks: Any) -> None:
    assert collect_bundles(make_context(configuration(webhooks)).store) == []


@pytest.mark.parametrize(("days", "state"), [(-1, "expired"), (13, "ends soon"), (15, "valid")])
def test_the_state_depends_on_the_end(days: int, state: str) -> None:
    until = f"{NOW + timedelta(days=days):%Y-%m-%d %H:%M}"
    name = "ValidatingWebhookConfiguration c"
    assert judge(bundle(days)) == [Certificate(name, 1, state, until)]  # type: ignore[arg-type]
    end = (NOW + timedelta(days=days)).timestamp()
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
    assert judge_certificates([bundle(90)], [MUTATING], server_end=None, now=NOW).total == 0


def test_the_rows_are_bounded_and_all_are_counted() -> None:
    found = judge_certificates([bundle(90)] * 30, CONFIGURATIONS, server_end=None, now=NOW)
    assert (len(found.rows), found.total) == (MAX_ROWS, 30)
