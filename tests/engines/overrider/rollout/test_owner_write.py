"""The writes of OpenYurt's controllers to existing workloads."""

import copy
from typing import Any

import pytest

from fleethook.engines.overrider.rollout.owner_write import NEW_REVISION, OwnerEdit, is_written, owns_by_label, write
from fleethook.model.gvk import GroupKind
from fleethook.model.openyurt import YURT_APP_DAEMON, YURT_APP_SET

REVISION = "apps.openyurt.io/controller-revision-hash"
PATCH = "apps.openyurt.io/patch"
NODE_POOL = "apps.openyurt.io/nodepool"
Document = dict[str, Any]


def subject(image: str = "nginx:1", *, version: str = "v1alpha1", **spec: Any) -> Document:
    template = {"deploymentTemplate": {"spec": {"template": {"spec": {"containers": [{"name": "a", "image": image}]}}}}}
    member = {"workload": {"workloadTemplate": template}} if version == "v1beta1" else {"workloadTemplate": template}
    return {"apiVersion": f"apps.openyurt.io/{version}", "metadata": {"name": "demo"}, "spec": {**member, **spec}}


def edit(before: Document, after: Document, group_kind: GroupKind = YURT_APP_SET) -> OwnerEdit:
    return OwnerEdit(group_kind, before, after)


SAME = edit(subject(), subject())
NEW = edit(subject(), subject("nginx:2"))


def workload(**spec: Any) -> Document:
    pod = {"metadata": {"labels": {"app": "demo"}}, "spec": {"containers": []}}
    return {
        "metadata": {"name": "w", "labels": {"app": "demo", REVISION: "r1"}, "annotations": {"note": "kept"}},
        "spec": {"replicas": 2, "template": pod, **spec},
    }


def bare(**spec: Any) -> Document:
    pod = {"metadata": {"labels": {"app": "demo"}}, "spec": {"containers": [{"name": "new"}]}}
    return {"metadata": {"labels": {"pool": "a"}, "annotations": {}}, "spec": {"replicas": 2, "template": pod, **spec}}


@pytest.mark.parametrize("version", ["v1alpha1", "v1beta1"])
def test_only_another_template_is_another_revision(version: str) -> None:
    before = subject(version=version)
    assert edit(before, subject("nginx:2", version=version)).changes_revision
    assert not edit(before, copy.deepcopy(before)).changes_revision
    assert not edit(before, subject(version=version, topology={"pools": []})).changes_revision


@pytest.mark.parametrize(("value", "is_changed"), [(None, False), ([], False), ("", True), (0, True), (["x"], True)])
def test_null_and_empty_lists_are_the_same_as_nothing_in_a_template(value: Any, *, is_changed: bool) -> None:
    after = subject()
    after["spec"]["workloadTemplate"]["deploymentTemplate"]["spec"]["template"]["spec"]["tolerations"] = value
    assert edit(subject(), after).changes_revision is is_changed


def test_tweaks_of_a_v1beta1_are_a_revision() -> None:
    before, after = subject(version="v1beta1"), subject(version="v1beta1")
    after["spec"]["workload"]["workloadTweaks"] = [{"pools": ["a"]}]
    assert edit(before, after).changes_revision


@pytest.mark.parametrize(
    ("stored", "wanted", "is_different"),
    [
        (workload(), bare(), False),
        (workload(), bare(replicas=3), True),
        (workload(paused=True), bare(minReadySeconds=7), False),
        ({**workload(), "spec": {}}, bare(replicas=1), False),
        (workload(), {**bare(), "metadata": {"annotations": {PATCH: "{}"}}}, True),
    ],
)
def test_an_app_set_of_v1alpha1_is_written_for_another_number_or_patch(
    stored: Document, wanted: Document, *, is_different: bool
) -> None:
    assert is_written(SAME, stored, "a", bare=wanted, taints=None) is is_different
    assert is_written(NEW, stored, "a", bare=wanted, taints=None)


def test_an_app_set_of_v1beta1_is_written_only_for_another_revision() -> None:
    same = edit(subject(version="v1beta1"), subject(version="v1beta1", replicas=9))
    assert not is_written(same, workload(), "a", bare=bare(replicas=9), taints=None)


def tolerating(*tolerations: Document, pool: str = "a") -> Document:
    made = workload()
    made["spec"]["template"]["spec"].update(nodeSelector={NODE_POOL: pool}, tolerations=list(tolerations))
    return made


@pytest.mark.parametrize(
    ("stored", "taints", "expected"),
    [
        (tolerating(), None, False),
        (tolerating(), "text", False),
        (tolerating(pool="b"), None, True),
        (workload(), None, True),
        (tolerating(), [{"key": "k", "effect": "NoSchedule"}], True),
        (tolerating({"key": "k", "effect": "NoSchedule"}), [{"key": "k", "effect": "NoSchedule"}], False),
        (tolerating({"key": "k"}), [{"key": "k", "effect": "NoSchedule"}], False),
        (tolerating({"key": "k", "effect": "NoExecute"}), [{"key": "k", "effect": "NoSchedule"}], True),
    ],
)
def test_a_daemon_is_written_for_another_node_pool_or_a_new_taint(
    stored: Document, taints: Any, *, expected: bool
) -> None:
    same = edit(subject(), subject(), YURT_APP_DAEMON)
    assert is_written(same, stored, "a", bare=bare(replicas=9), taints=taints) is expected


def test_a_v1beta1_owns_only_workloads_with_its_label() -> None:
    beta = edit(subject(version="v1beta1"), subject(version="v1beta1"))
    labelled = workload()
    labelled["metadata"]["labels"]["apps.openyurt.io/ref-yurtappset"] = "demo"
    assert [owns_by_label(beta, one) for one in (labelled, workload())] == [True, False]
    assert owns_by_label(SAME, workload())


def test_a_write_merges_metadata_and_sets_the_revision_in_both_places() -> None:
    stored = workload()
    made = write(NEW, stored, kind="Deployment", bare=bare())
    assert made["metadata"]["labels"] == {"app": "demo", "pool": "a", REVISION: NEW_REVISION}
    assert made["metadata"]["annotations"] == {"note": "kept"}
    assert made["spec"]["template"]["metadata"]["labels"] == {"app": "demo", REVISION: NEW_REVISION}
    assert stored == workload()
    kept = write(SAME, stored, kind="Deployment", bare=bare())
    assert kept["metadata"]["labels"][REVISION] == "r1"


def test_a_workload_without_a_revision_gets_none() -> None:
    stored = workload()
    del stored["metadata"]["labels"][REVISION]
    made = write(SAME, stored, kind="Deployment", bare=bare())
    assert REVISION not in made["spec"]["template"]["metadata"]["labels"]


def test_v1alpha1_copies_some_members_and_keeps_the_others() -> None:
    stored = workload(paused=True, minReadySeconds=1, custom="kept", selector={"a": "b"})
    wanted = bare(minReadySeconds=7, other="dropped", selector={"x": "y"})
    del wanted["spec"]["replicas"]
    spec = write(SAME, stored, kind="Deployment", bare=wanted)["spec"]
    del spec["template"]
    assert spec == {"minReadySeconds": 7, "custom": "kept", "selector": {"a": "b"}, "replicas": 0}


@pytest.mark.parametrize(
    "beta", [edit(subject(version="v1beta1"), subject(version="v1beta1")), edit(subject(), subject(), YURT_APP_DAEMON)]
)
def test_the_others_replace_all_but_the_members_that_no_update_can_change(beta: OwnerEdit) -> None:
    stored = workload(paused=True, custom="dropped", selector={"a": "b"}, serviceName="s")
    wanted = bare(minReadySeconds=7, selector={"x": "y"}, podManagementPolicy="Parallel")
    spec = write(beta, stored, kind="StatefulSet", bare=wanted)["spec"]
    del spec["template"]
    assert spec == {"minReadySeconds": 7, "selector": {"a": "b"}, "serviceName": "s", "replicas": 2}
