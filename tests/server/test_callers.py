"""Callers that settings name by their client certificate."""

import contextlib
from typing import Any

import pytest

from fleethook.server.callers import (
    EXTENSION,
    FullQuotaError,
    NamedCallers,
    RequestQuota,
    describe_certificate,
    find_certificate_names,
    make_client_extension,
)
from fleethook.server.protocol.bodies import BodyBudget, BodyCharge

CERTIFICATE: dict[str, Any] = {
    "subject": (
        (("organizationName", "system:masters"),),
        (("commonName", "mallory"),),
        (("commonName", "kube-apiserver"),),
    ),
    "subjectAltName": (
        ("DNS", "apiserver.example.org"),
        ("URI", "spiffe://example.org/apiserver"),
        ("IP Address", "10.0.0.1"),
        ("email", "root@example.org"),
    ),
}


def test_a_certificate_names_its_holder_by_common_name_dns_name_and_uri() -> None:
    assert find_certificate_names(CERTIFICATE) == {
        "kube-apiserver", "apiserver.example.org", "spiffe://example.org/apiserver",
    }  # fmt: skip


@pytest.mark.parametrize("certificate", [None, {}, {"subject": ((("commonName", ""),),)}])
def test_without_a_certificate_there_is_no_name(certificate: dict[str, Any] | None) -> None:
    assert find_certificate_names(certificate) == frozenset()


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["kube-apiserver"], "kube-apiserver"),
        (["other", "apiserver.example.org"], "apiserver.example.org"),
        (["spiffe://example.org/apiserver"], "spiffe://example.org/apiserver"),
        (["mallory"], ""),
        (["system:masters"], ""),
        (["10.0.0.1"], ""),
        (["KUBE-APISERVER"], ""),
        (["commonName=kube-apiserver"], ""),
        (["kube"], ""),
        ([], ""),
    ],
)
def test_a_caller_is_found_by_an_exact_name(names: list[str], found: str) -> None:
    scope = {"type": "http", "extensions": {"tls": {}, EXTENSION: make_client_extension(CERTIFICATE)}}
    assert NamedCallers(names).find(scope) == found


@pytest.mark.parametrize("extensions", [None, {}, {EXTENSION: {}}, {EXTENSION: make_client_extension(None)}])
def test_a_caller_without_a_certificate_is_not_found(extensions: dict[str, Any] | None) -> None:
    scope = {"type": "http", "extensions": extensions}
    assert NamedCallers(["kube-apiserver", ""]).find(scope) == ""


@pytest.mark.parametrize(
    ("certificate", "text"),
    [
        (None, None),
        ({}, None),
        (CERTIFICATE, "organizationName=system:masters,commonName=mallory,commonName=kube-apiserver"),
        ({"subject": (), "subjectAltName": (("URI", "spiffe://a/b"), ("DNS", "b"))}, "URI=spiffe://a/b,DNS=b"),
        ({"subject": ()}, ""),
        ({"serialNumber": "1"}, ""),
    ],
)
def test_messages_name_a_caller_by_subject_or_alternative_names(certificate: Any, text: str | None) -> None:
    assert describe_certificate(certificate) == text


def test_a_quota_forgets_consumers_without_requests() -> None:
    quota = RequestQuota(2)
    with quota.hold("ws2"):
        with (
            quota.hold("ws3"),
            pytest.raises(FullQuotaError, match=r"1 requests of logical cluster ws2 .* max_connections"),
            quota.hold("ws2"),
        ):
            pass
        assert quota.in_flight == {"ws2": 1}
    with pytest.raises(ZeroDivisionError), quota.hold("ws2"):
        _ = 1 / 0
    assert quota.in_flight == {}


@pytest.mark.parametrize("consumers", [1, 2, 4])
def test_consumers_share_the_requests_and_leave_room_for_the_next_one(consumers: int) -> None:
    quota = RequestQuota(10)
    with contextlib.ExitStack() as held:
        for _ in range(10):
            for number in range(consumers):
                with contextlib.suppress(FullQuotaError):
                    held.enter_context(quota.hold(f"ws{number}"))
        assert max(quota.in_flight.values()) - min(quota.in_flight.values()) <= 1
        assert sum(quota.in_flight.values()) in (5, 7, 8, 9)
        with quota.hold("next"):
            pass


def test_bodies_count_to_the_consumer_and_leave_room_for_the_next_one() -> None:
    budget, quota = BodyBudget(1000), RequestQuota(100)
    charges = [BodyCharge(budget, "10.0.0.1") for _ in range(5)]
    with contextlib.ExitStack() as held:
        for charge in charges[:4]:
            assert charge.take(200)
            if charge is not charges[3]:
                held.enter_context(quota.hold("ws2", charge, size=200))
            else:
                with pytest.raises(FullQuotaError, match="ws2 hold its share of body_memory"):
                    held.enter_context(quota.hold("ws2", charge, size=200))
                charge.give_back()
        assert charges[4].take(200), "the address of all tenants holds nothing, so the next body has room"
        held.enter_context(quota.hold("ws3", charges[4], size=200))
        # A body that is not charged yet needs room for all that it may be decoded to.
        with pytest.raises(FullQuotaError), quota.hold("ws3", BodyCharge(budget, "10.0.0.1"), size=200):
            pass
    for charge in charges:
        charge.give_back()
    assert budget.total == 0
