"""Tests of the owner reference that decides which subject a workload belongs to."""

from typing import Any

import pytest

from fleethook.engines.overrider.subject.owner import Owner, find_owner
from fleethook.model.openyurt import YURT_APP_DAEMON, YURT_APP_SET
from tests.builders import API, API_V1BETA1, UID, owner

OTHER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "other", "uid": "1", "controller": True}


def test_the_controlling_reference_wins_wherever_it_is() -> None:
    first = owner("YurtAppDaemon", "agent", controller=False)
    assert find_owner({"ownerReferences": [OTHER, first, owner()]}) == Owner(YURT_APP_SET, "demo", UID, API)


def test_without_a_controlling_reference_the_first_subject_is_the_owner() -> None:
    references = [owner("YurtAppDaemon", "agent", controller=False), owner(controller=False)]
    assert find_owner({"ownerReferences": references}) == Owner(YURT_APP_DAEMON, "agent", UID, API)


def test_the_version_of_the_reference_is_kept() -> None:
    found = find_owner({"ownerReferences": [owner(apiVersion=API_V1BETA1)]})
    assert found is not None
    assert found.api_version == API_V1BETA1


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


def test_a_uid_of_a_wrong_type_is_dropped() -> None:
    found = find_owner({"ownerReferences": [owner(uid=7)]})
    assert found is not None
    assert found.uid == ""
