"""Reviews of Deployments and StatefulSets: the ones that are rendered, and the ones that a failed render denies."""

import copy
from typing import Any

import pytest

from tests.builders import (
    NEW_IMAGE,
    container,
    entry,
    image,
    is_unchanged,
    overrider,
    owner,
    patch,
    pod_template,
    pool,
    rendered,
    review,
    workload,
    yurt_app_set,
    yurt_app_set_v1beta1,
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


@pytest.mark.parametrize(
    ("change", "warning"),
    [
        ({"image": "two:2"}, "replaced: /spec/template/spec/containers/[name=two]/image: edit the owner or "),
        ({"args": ["x"]}, ""),
        ({"command": None}, "replaced: /spec/template/spec/containers/[name=two]/command: edit the owner or "),
        ({"image": "two:1"}, ""),
    ],
)
def test_a_value_that_the_template_restores_is_a_warning(change: dict[str, Any], warning: str) -> None:
    """Otherwise `kubectl set image two=…` succeeds and stores nothing."""
    two = container("two", image="two:1", command=["sh"])
    subject = yurt_app_set(template=pod_template(containers=[container(), two]))
    rule = overrider(entry("hangzhou", items=[image("nginx", "nginx:2")]))
    stored = rendered(workload(template=pod_template(containers=[container(), two])), subject, rule)
    edited = copy.deepcopy(stored)
    edited["spec"]["template"]["spec"]["containers"][1] |= change
    answer = review(edited, subject, rule, operation="UPDATE", old=stored)
    assert [one.startswith(warning) for one in answer.warnings] == [True] * bool(warning)


# An entry leaves the number of replicas to another owner, such as an autoscaler.

INITIAL, LEAVE = {"initialReplicas": 3}, {"leave": ["replicas"]}


@pytest.mark.parametrize(
    ("items", "created"),
    [
        ([INITIAL], 3),
        ([LEAVE], 2),
        ([{"replicas": 5}, LEAVE], 5),
        ([LEAVE, {"replicas": 5}], 5),
        ([{"replicas": 5}, INITIAL], 3),
        ([{"initialReplicas": 0}], 0),
    ],
)
@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_a_new_workload_gets_the_initial_replicas(items: list[Any], created: int, kind: str) -> None:
    subject = yurt_app_set(kind=kind)
    assert (
        rendered(workload(kind), subject, overrider(entry("*", items=items)), kind=kind)["spec"]["replicas"] == created
    )


@pytest.mark.parametrize(
    ("items", "kept"),
    [
        ([INITIAL], True),
        ([LEAVE], True),
        ([{"replicas": 5}, LEAVE], True),
        ([{"replicas": 5}, INITIAL], True),
        ([LEAVE, {"replicas": 5}], False),
        ([INITIAL, image("nginx", "nginx:2")], True),
        ([image("nginx", "nginx:2")], None),
    ],
)
@pytest.mark.parametrize("subject", [yurt_app_set(), yurt_app_set_v1beta1(pools=["hangzhou"], replicas=2)])
def test_replicas_of_an_existing_workload_are_left(
    items: list[Any], kept: bool | None, subject: dict[str, Any]
) -> None:
    """The template has two replicas, which OpenYurt writes with each revision; an autoscaler has set seven."""
    owners = [owner(apiVersion=subject["apiVersion"])]
    objects = (subject, overrider(entry("*", items=items)))
    stored = rendered(workload(owners=owners), *objects)
    stored["spec"]["replicas"] = 7
    written = copy.deepcopy(stored)
    written["spec"] |= {"replicas": 2, "minReadySeconds": 1}
    expected = {True: 7, False: 5, None: 2}[kept]
    assert rendered(written, *objects, operation="UPDATE", old=stored)["spec"]["replicas"] == expected
    by_hand = copy.deepcopy(stored)
    by_hand["spec"]["replicas"] = 4
    answer = rendered(by_hand, *objects, operation="UPDATE", old=stored)
    assert answer["spec"]["replicas"] == (5 if kept is False else 4)
    # A touch of the leader changes nothing.
    touched = copy.deepcopy(stored)
    touched["metadata"]["annotations"]["LastOverrideTime"] = "now"
    assert rendered(touched, *objects, operation="UPDATE", old=stored)["spec"]["replicas"] == (
        5 if kept is False else 7
    )


def test_kept_replicas_are_told_to_the_writer() -> None:
    objects = (yurt_app_set(), overrider(entry("*", items=[INITIAL])))
    stored = rendered(workload(), *objects)
    written = copy.deepcopy(stored)
    written["spec"]["replicas"] = 2
    answer = review(written, *objects, operation="UPDATE", old=stored)
    (text,) = answer.warnings
    assert text == (
        "/spec/replicas: 2 is the number of the template, and 3 stays: entries[0].items[0] leaves the replicas to "
        "another owner; use kubectl scale to set this number"
    )


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ([{"replicas": 5}], [INITIAL], 7),
        ([INITIAL], [{"initialReplicas": 4}], 7),
        ([INITIAL], [image("nginx", "nginx:2")], 7),
        ([INITIAL], [{"replicas": 5}], 5),
        ([INITIAL], None, 7),
        ([{"replicas": 5}], [image("nginx", "nginx:2")], 2),
    ],
)
def test_an_edit_of_the_overrider_leaves_replicas(before: Any, after: Any, expected: int) -> None:
    subject = yurt_app_set()
    stored = rendered(workload(), subject, overrider(entry("*", items=before)))
    stored["spec"]["replicas"] = 7
    rules = [] if after is None else [overrider(entry("*", items=after))]
    found = rendered(copy.deepcopy(stored), subject, *rules, operation="UPDATE", old=stored)
    assert found["spec"]["replicas"] == expected


def test_without_replicas_in_the_template_zero_and_one_are_taken_for_openyurts() -> None:
    """OpenYurt 1.4 writes 0 if the topology has no number."""
    objects = (yurt_app_set(pools=[pool("hangzhou", None)]), overrider(entry("*", items=[INITIAL])))
    stored = rendered(workload(replicas=1), *objects)
    for number, expected in ((0, 3), (1, 3), (2, 2)):
        written = copy.deepcopy(stored)
        written["spec"]["replicas"] = number
        assert rendered(written, *objects, operation="UPDATE", old=stored)["spec"]["replicas"] == expected
