"""Tests of the overriders that are bound to a subject."""

from typing import Any

import pytest

from fleethook.engines.overrider.subject.owner_and_overrider import (
    Binding,
    Owner,
    find_owner,
    overriders_of,
    subject_of,
)
from fleethook.model.openyurt import YURT_APP_DAEMON, YURT_APP_SET
from tests.builders import API, API_V1BETA1, UID, overrider, owner, store_of

OTHER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "other", "uid": "1", "controller": True}


def test_the_controlling_reference_wins_wherever_it_is() -> None:
    first = owner("YurtAppDaemon", "agent", controller=False)
    assert find_owner({"ownerReferences": [OTHER, first, owner()]}) == Owner(YURT_APP_SET, "demo", UID, API)


def test_without_a_controlling_reference_the_first_subject_is_the_owner() -> None:
    references = [owner("YurtAppDaemon", "agent", controller=False), owner(controller=False)]
    assert find_owner({"ownerReferences": references}) == Owner(YURT_APP_DAEMON, "agent", UID, API)


@pytest.mark.parametrize(
    "references",
    [
        None,
        "demo",
        [None, "demo", []],
        [OTHER],
        [owner(apiVersion="apps.openyurt.io/v9")],
        [owner("YurtAppDaemon", apiVersion=API_V1BETA1)],
        [owner(name="")],
        [owner(name=1)],
    ],
)
def test_anything_else_is_no_owner(references: Any) -> None:
    assert find_owner({"ownerReferences": references}) is None


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
