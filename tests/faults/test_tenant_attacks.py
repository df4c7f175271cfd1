"""One workspace attacks while another one sends ordinary reviews.

The server, the webhook and both tenants are separate processes. The tests count verdicts. They print latencies
(``pytest -s``) and do not judge them, because they depend on the machine.
"""

from pathlib import Path

import pytest

from tests.faults.tenants import check_victim, request, run_tenant_server

POLICIES = ("Fail", "Ignore")


@pytest.mark.parametrize("policy", POLICIES)
def test_objects_that_break_the_providers_webhook_cost_the_other_consumer_nothing(tmp_path: Path, policy: str) -> None:
    with run_tenant_server(tmp_path, policy=policy) as stage:
        check_victim(stage, stage.victim(count=100), "before")
        with stage.attack(request(broken=True), parallel=4):
            check_victim(stage, stage.victim(count=200), f"broken objects, {policy}")


@pytest.mark.parametrize("policy", POLICIES)
def test_short_timeouts_against_a_slow_webhook_cost_the_other_consumer_nothing(tmp_path: Path, policy: str) -> None:
    with (
        run_tenant_server(tmp_path, policy=policy) as stage,
        stage.attack(request(seconds=2, query="?timeout=1s"), parallel=5, ended=10),
    ):
        check_victim(stage, stage.victim(count=200), f"short timeouts, {policy}")


@pytest.mark.parametrize("policy", POLICIES)
def test_many_slow_objects_cost_the_other_consumer_nothing(tmp_path: Path, policy: str) -> None:
    with run_tenant_server(tmp_path, policy=policy) as stage, stage.attack(request(seconds=5), parallel=200):
        check_victim(stage, stage.victim(count=200), f"200 slow objects, {policy}")


def test_many_hanging_webhooks_of_one_request_cost_the_other_consumer_nothing(tmp_path: Path) -> None:
    with (
        run_tenant_server(tmp_path, policy="Fail", hanging=3_000) as stage,
        stage.attack(request("denied", kind="Gadget", query="?timeout=5s"), parallel=1),
    ):
        check_victim(stage, stage.victim(count=200), "3,000 hanging webhooks")


def test_as_many_hanging_webhooks_as_a_request_may_have_cost_the_other_consumer_nothing(tmp_path: Path) -> None:
    with (
        run_tenant_server(tmp_path, policy="Fail", hanging=128) as stage,
        stage.attack(request("denied", kind="Gadget", query="?timeout=5s"), parallel=4),
    ):
        check_victim(stage, stage.victim(count=200), "128 hanging webhooks, 4 requests at a time")


@pytest.mark.parametrize("size", [0, 200_000])
def test_more_hanging_reviews_than_connections_cost_the_other_consumer_nothing(tmp_path: Path, size: int) -> None:
    """The chart's limits; all requests come from one address, as those of an apiserver do."""
    limits = {"FLEETHOOK_MAX_CONNECTIONS": "256", "FLEETHOOK_BODY_MEMORY": "256Mi"}
    with (
        run_tenant_server(
            tmp_path, policy="Fail", hanging=1, hanging_policy="Ignore", hanging_seconds=30, **limits
        ) as stage,
        stage.attack(request(kind="Gadget", text="x" * size), parallel=300, ended=20),
    ):
        check_victim(
            stage, stage.victim(count=58, parallel=8, size=size), f"300 hanging reviews of {size} bytes, Ignore"
        )
