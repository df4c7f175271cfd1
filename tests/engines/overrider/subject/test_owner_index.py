"""Tests of the overriders that are bound to a subject."""

from typing import Any

import pytest

from fleethook.cluster.store import PartialBuilder
from fleethook.engines.overrider.subject.owner_index import (
    OTHER_VERSION_INDEXES,
    RENDERED_INDEXES,
    WORKLOAD_INDEXES,
    Binding,
    Owner,
    binding_of,
    find_owner,
    hash_of,
    overriders_of,
    pool_of,
    select_overriders,
    subject_of,
)
from fleethook.model.gvk import GroupKind
from fleethook.model.openyurt import RENDERED_ANNOTATION, YURT_APP_DAEMON, YURT_APP_SET
from tests.builders import API, API_V1BETA1, UID, overrider, owner, store_of, workload

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
    found = overriders_of(store_of(*documents), cluster="", namespace="default", group_kind=YURT_APP_SET, name="demo")
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


def test_a_selection_names_the_selectable_fields() -> None:
    selection = select_overriders("default", "YurtAppSet", "demo")
    assert selection.fields == (("subject.kind", "YurtAppSet"), ("subject.name", "demo"))
    assert selection.namespace == "default"


SUBJECT = Binding("", YURT_APP_SET, "default", "demo")


def test_a_workload_belongs_to_its_owner_in_its_cluster() -> None:
    assert binding_of(PartialBuilder().build(workload()), "ws1") == Binding("ws1", YURT_APP_SET, "default", "demo")
    other = workload(owners=[owner(kind="YurtAppDaemon", name="agent")])
    assert binding_of(PartialBuilder().build(other), "") == Binding(
        "", GroupKind("apps.openyurt.io", "YurtAppDaemon"), "default", "agent"
    )
    assert binding_of(PartialBuilder().build(workload(owners=[])), "") is None


def test_workloads_of_a_later_version_are_found_by_their_subject_and_others_are_not() -> None:
    keys = OTHER_VERSION_INDEXES["Deployment"].keys
    later = workload(owners=[owner(apiVersion="apps.openyurt.io/v1beta2")])
    assert list(keys("", PartialBuilder().build(later))) == [SUBJECT]
    beta = workload(owners=[owner(apiVersion="apps.openyurt.io/v1beta1")])
    for document in (
        workload(),
        beta,
        workload(owners=[]),
        workload(owners=[owner(apiVersion="apps/v1", kind="Other")]),
    ):
        assert list(keys("", PartialBuilder().build(document))) == []


def test_only_rendered_workloads_are_in_the_index_of_rendered_workloads() -> None:
    bare, marked = workload(), workload()
    marked["metadata"]["annotations"] = {RENDERED_ANNOTATION: "abc"}
    for document, keys, digest in ((bare, [], ""), (marked, [SUBJECT], "abc")):
        kept = PartialBuilder().build(document)
        assert list(WORKLOAD_INDEXES["Deployment"].keys("", kept)) == [SUBJECT]
        assert list(RENDERED_INDEXES["Deployment"].keys("", kept)) == keys
        assert hash_of(kept) == digest


def test_a_workload_without_the_pool_label_has_no_pool() -> None:
    assert pool_of(PartialBuilder().build(workload(pool="hangzhou"))) == "hangzhou"
    assert pool_of(PartialBuilder().build(workload(pool=None))) == ""
