"""Tests of the overriders that are bound to a subject."""

from typing import Any

import pytest

from fleethook.engines.overrider.subject.bound_overriders import overriders_of, subject_of
from fleethook.engines.overrider.subject.workload_owner import Binding
from fleethook.model.openyurt import YURT_APP_SET
from tests.builders import API, API_V1BETA1, overrider, store_of


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        ({"apiVersion": API, "kind": "YurtAppSet", "name": "demo"}, ("YurtAppSet", "demo")),
        ({"apiVersion": API_V1BETA1, "kind": "YurtAppSet", "name": "demo"}, ("YurtAppSet", "demo")),
        ({"kind": "YurtAppSet", "name": "demo"}, ("YurtAppSet", "demo")),
        ({"apiVersion": "apps/v1", "kind": "Deployment", "name": "demo"}, None),
        ({"apiVersion": API, "kind": "YurtAppSet"}, None),
        ({"apiVersion": 1, "kind": "YurtAppSet", "name": "demo"}, None),
    ],
)
def test_a_subject_is_of_any_version_of_openyurts_group(subject: Any, expected: Any) -> None:
    assert subject_of(overrider(subject=subject)) == expected


def bound(*documents: dict[str, Any]) -> list[str]:
    found = overriders_of(store_of(*documents), Binding("", YURT_APP_SET, "default", "demo"))
    return [one["metadata"]["name"] for one in found]


def test_the_oldest_overrider_is_in_effect_and_the_name_decides_between_equals() -> None:
    late = overrider(name="a", creationTimestamp="2026-06-02T00:00:00Z")
    early = overrider(name="c", creationTimestamp="2026-06-01T00:00:00Z")
    same = overrider(name="b", creationTimestamp="2026-06-01T00:00:00Z")
    unknown = overrider(name="0")
    assert bound(late, early, same, unknown) == ["b", "c", "a", "0"]


def test_overriders_of_other_subjects_are_not_bound() -> None:
    other = overrider(name="other", subject={"apiVersion": API, "kind": "YurtAppSet", "name": "other"})
    daemon = overrider(name="daemon", subject={"apiVersion": API, "kind": "YurtAppDaemon", "name": "demo"})
    elsewhere = overrider(name="elsewhere", namespace="edge")
    assert bound(overrider(), other, daemon, elsewhere) == ["demo1"]
