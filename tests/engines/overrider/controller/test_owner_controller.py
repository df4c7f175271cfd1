"""Tests of the detection of a missing controller of OpenYurt."""

from typing import Any

import pytest

from fleethook.engines.overrider.controller.owner_controller import (
    DAEMONS_WITHOUT_CONTROLLER,
    describe_lack_of_controller,
    is_behind,
)
from fleethook.engines.overrider.subject.subject_members import has_no_daemon_controller
from fleethook.model.openyurt import YURT_APP_DAEMON, YURT_APP_SET
from tests.builders import node_pool, store_of, yurt_app_daemon, yurt_app_set

NOBODY = (
    "no controller of OpenYurt reconciles YurtAppSets in this cluster, as none of them has a status: check that "
    "yurt-manager runs, and which controllers its argument --controllers disables"
)


def definition(**served: bool) -> dict[str, Any]:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "nodepools.apps.openyurt.io"},
        "spec": {"versions": [{"name": name, "served": value} for name, value in served.items()]},
    }


def in_version(document: dict[str, Any], version: str) -> dict[str, Any]:
    return {**document, "apiVersion": f"apps.openyurt.io/{version}"}


@pytest.mark.parametrize("status", [{"observedGeneration": 1}, {"currentRevision": "a"}])
def test_one_subject_with_a_status_shows_that_there_is_a_controller(status: dict[str, Any]) -> None:
    fresh, old = yurt_app_set("fresh"), {**yurt_app_set("old"), "status": status}
    store = store_of(fresh, old)
    assert describe_lack_of_controller(YURT_APP_SET, cluster="", store=store) == ""


@pytest.mark.parametrize(
    "status",
    [
        {},
        {"currentRevision": "", "readyWorkloads": 0, "updatedWorkloads": 0, "totalWorkloads": 0, "conditions": []},
        {"templateType": "Deployment", "replicas": 0},
    ],
)
def test_the_status_of_a_conversion_shows_no_controller(status: dict[str, Any]) -> None:
    store = store_of({**yurt_app_set(), "status": status})
    assert describe_lack_of_controller(YURT_APP_SET, cluster="", store=store) == NOBODY


def test_without_any_status_there_is_no_controller() -> None:
    daemon = {**yurt_app_daemon(), "status": {"currentRevision": "a"}}
    store = store_of(yurt_app_set("a"), {**yurt_app_set("b"), "status": {}}, daemon)
    assert describe_lack_of_controller(YURT_APP_SET, cluster="", store=store) == NOBODY
    assert describe_lack_of_controller(YURT_APP_DAEMON, cluster="", store=store) == ""


def test_a_status_in_another_cluster_does_not_count() -> None:
    elsewhere = {**yurt_app_set("b"), "status": {"observedGeneration": 1}}
    elsewhere["metadata"] = {**elsewhere["metadata"], "annotations": {"kcp.io/cluster": "other"}}
    store = store_of(yurt_app_set("a"), elsewhere)
    assert describe_lack_of_controller(YURT_APP_SET, cluster="", store=store) == NOBODY
    assert describe_lack_of_controller(YURT_APP_SET, cluster="other", store=store) == ""


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        ([], False),
        ([in_version(node_pool("a"), "v1beta1")], False),
        ([in_version(node_pool("a"), "v1beta2")], True),
        ([definition(v1alpha1=True, v1beta1=True)], False),
        ([definition(v1beta1=True, v1beta2=True)], True),
        ([definition(v1beta1=True, v1beta2=False)], False),
    ],
)
def test_node_pools_in_v1beta2_show_openyurt_1_7(objects: list[dict[str, Any]], *, expected: bool) -> None:
    assert has_no_daemon_controller(store_of(*objects), "") is expected


def test_daemons_have_no_controller_since_1_7_in_spite_of_a_former_status() -> None:
    daemon = {**yurt_app_daemon(), "status": {"currentRevision": "a"}}
    store = store_of(daemon, yurt_app_set(), definition(v1beta2=True))
    assert describe_lack_of_controller(YURT_APP_DAEMON, cluster="", store=store) == DAEMONS_WITHOUT_CONTROLLER
    assert describe_lack_of_controller(YURT_APP_SET, cluster="", store=store) == NOBODY


REFUSED = [{"type": "PoolUpdated", "status": "False", "reason": "Error"}]
NOT_CREATED = [{"type": "PoolProvisioned", "status": "False", "reason": "Error"}]


@pytest.mark.parametrize(
    ("status", "lacks_pools", "behind"),
    [
        ({"observedGeneration": 3}, True, False),
        ({"observedGeneration": 2}, False, True),
        ({}, True, False),
        ({"observedGeneration": "?"}, True, False),
        ({"observedGeneration": 3, "conditions": REFUSED}, False, True),
        ({"observedGeneration": 3, "conditions": [{**REFUSED[0], "status": "True"}]}, True, False),
        ({"observedGeneration": 3, "conditions": NOT_CREATED}, True, True),
        ({"observedGeneration": 3, "conditions": NOT_CREATED}, False, False),
    ],
)
def test_the_status_shows_whether_the_controller_has_written_all_workloads(
    status: dict[str, Any], lacks_pools: bool, behind: bool
) -> None:
    subject = yurt_app_set()
    subject["metadata"]["generation"] = 3
    assert is_behind({**subject, "status": status}, lacks_pools=lacks_pools) is behind


def test_a_condition_of_openyurt_1_4_does_not_count_after_an_upgrade() -> None:
    upgraded = in_version({**yurt_app_set(), "status": {"conditions": REFUSED}}, "v1beta1")
    assert not is_behind(upgraded, lacks_pools=True)
