from datetime import UTC, datetime
from typing import Any

import pytest

from app.console.views.leader import Leader, describe_lease

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
