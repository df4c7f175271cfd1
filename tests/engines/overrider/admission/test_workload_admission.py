"""Reviews of Deployments and StatefulSets: the ones that are rendered, and the ones that a failed render denies."""

import copy
from typing import Any

import pytest

from tests.builders import (
    NEW_IMAGE,
    container,
    entry,
    is_unchanged,
    overrider,
    owner,
    patch,
    pool,
    rendered,
    review,
    workload,
    yurt_app_set,
)


def test_a_subject_recreated_under_the_same_name_is_another_subject() -> None:
    answer = review(workload(owners=[owner(uid="an-older-one")]), yurt_app_set(), NEW_IMAGE)
    assert is_unchanged(answer)
    assert "is another object now" in answer.warnings[0]


def test_an_overrider_of_another_namespace_does_not_apply() -> None:
    rule = overrider(entry("*", items=[{"replicas": 7}]), namespace="elsewhere")
    assert is_unchanged(review(workload(), yurt_app_set(), rule))


@pytest.mark.parametrize("fields", [{"subResource": "scale"}, {"subResource": "status"}])
def test_subresources_are_not_rendered(fields: dict[str, str]) -> None:
    assert is_unchanged(review(workload(), yurt_app_set(), NEW_IMAGE, operation="UPDATE", old=workload(), **fields))


def test_a_delete_is_admitted() -> None:
    assert is_unchanged(review(None, yurt_app_set(), NEW_IMAGE, operation="DELETE", old=workload()))


def test_a_workload_being_deleted_is_not_rendered() -> None:
    document = workload()
    document["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert is_unchanged(review(document, yurt_app_set(), NEW_IMAGE, operation="UPDATE", old=workload()))


def test_a_dry_run_is_answered_like_other_reviews() -> None:
    objects = yurt_app_set(), NEW_IMAGE
    assert review(workload(), *objects, dryRun=True).patch == review(workload(), *objects).patch != ()


def test_a_missing_subject_is_a_warning() -> None:
    answer = review(workload(), NEW_IMAGE)
    assert is_unchanged(answer)
    assert "its owner YurtAppSet default/demo is not known" in answer.warnings[0]


def test_a_pool_that_the_topology_does_not_list_is_a_warning() -> None:
    answer = review(workload(pool="gone"), yurt_app_set(), NEW_IMAGE)
    assert is_unchanged(answer)
    assert "has no pool 'gone' in spec.topology.pools" in answer.warnings[0]


def test_a_pool_patch_that_does_not_fit_is_a_warning() -> None:
    broken = pool("hangzhou", patch={"spec": {"template": {"spec": {"containers": [{"image": "x"}]}}}})
    answer = review(workload(), yurt_app_set(pools=[broken]), overrider(entry("*", items=[{"replicas": 4}])))
    assert is_unchanged(answer)
    assert "the pool's own patch does not fit" in answer.warnings[0]


BROKEN = overrider(
    entry("*", items=[{"replicas": 9}]),
    entry("hangzhou", patches=[patch("add", "/spec/paused", True), patch("remove", "/spec/template/spec/volumes")]),
)


def test_a_patch_that_does_not_fit_denies_a_create_and_names_entry_operation_and_path() -> None:
    answer = review(workload(), yurt_app_set(), BROKEN)
    assert (answer.allowed, answer.code, answer.reason, answer.patch) == (False, 403, "Forbidden", ())
    assert answer.message == (
        "YurtAppOverrider default/demo1 cannot be rendered for node pool hangzhou: entries[1].patches[1]: "
        "remove /spec/template/spec/volumes: member 'volumes' does not exist"
    )


def test_a_patch_that_does_not_fit_denies_an_update_of_the_spec() -> None:
    changed = workload(template={"metadata": {}, "spec": {"containers": [container(image="other")]}})
    assert not review(changed, yurt_app_set(), BROKEN, operation="UPDATE", old=workload()).allowed


@pytest.mark.parametrize("change", ["annotations", "finalizers", "replicas"])
def test_a_patch_that_does_not_fit_never_blocks_metadata_or_replicas(change: str) -> None:
    document = workload(**({"replicas": 8} if change == "replicas" else {}))
    if change != "replicas":
        document["metadata"][change] = {} if change == "annotations" else ["example.com/x"]
    answer = review(document, yurt_app_set(), BROKEN, operation="UPDATE", old=workload())
    assert is_unchanged(answer)
    assert "cannot be rendered for node pool hangzhou" in answer.warnings[0]


def test_of_two_overriders_the_older_is_in_effect_and_the_other_is_named() -> None:
    older = overrider(entry("*", items=[{"replicas": 3}]), name="z", creationTimestamp="2023-01-01T00:00:00Z")
    newer = overrider(entry("*", items=[{"replicas": 4}]), name="a", creationTimestamp="2024-01-01T00:00:00Z")
    for order in ((older, newer), (newer, older)):
        answer = review(workload(), yurt_app_set(), *order)
        assert answer.warnings == ("YurtAppOverrider z is in effect; a for the same subject is ignored",)
        assert rendered(workload(), yurt_app_set(), *order)["spec"]["replicas"] == 3


def in_cluster(document: dict[str, Any], cluster: str) -> dict[str, Any]:
    made = copy.deepcopy(document)
    made["metadata"].setdefault("annotations", {})["kcp.io/cluster"] = cluster
    return made


def test_the_cluster_annotation_selects_subjects_and_overriders() -> None:
    objects = [
        document
        for cluster, replicas in (("ws1", 11), ("ws2", 12))
        for document in (
            in_cluster(yurt_app_set(), cluster),
            in_cluster(overrider(entry("*", items=[{"replicas": replicas}])), cluster),
        )
    ]
    assert rendered(in_cluster(workload(), "ws1"), *objects)["spec"]["replicas"] == 11
    assert rendered(in_cluster(workload(), "ws2"), *objects)["spec"]["replicas"] == 12
    assert is_unchanged(review(in_cluster(workload(), "ws3"), *objects))
    assert is_unchanged(review(workload(), *objects))
