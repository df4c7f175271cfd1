"""The effect of a change on one workload, and the number of pods that it replaces."""

import copy
from typing import Any

import pytest

from fleethook.engines.overrider.render.member_differences import ABSENT, Difference
from fleethook.engines.overrider.rollout.effect import (
    NEW_REVISION,
    Effect,
    OwnerEdit,
    compare,
    is_default,
    is_written,
    owns_by_label,
    write,
)
from fleethook.model.gvk import GroupKind
from fleethook.model.openyurt import YURT_APP_DAEMON, YURT_APP_SET
from tests.builders import container, workload


def changed(path: str, value: Any, **fields: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a workload with these fields of its spec, and the same with a value at a path; None removes it."""
    before = workload(**fields)
    after = copy.deepcopy(before)
    *parents, name = path.split("/")
    place: Any = after
    for token in parents:
        place = place[int(token)] if isinstance(place, list) else place.setdefault(token, {})
    if value is None:
        del place[name]
    else:
        place[name] = value
    return before, after


def effect_of(before: dict[str, Any], after: dict[str, Any], kind: str = "Deployment") -> Effect:
    return compare(kind, before, after)


IMAGE = "spec/template/spec/containers/0/image"


@pytest.mark.parametrize(
    ("path", "value", "name"),
    [
        (IMAGE, "nginx:2", "rolls"),
        ("spec/template/metadata/annotations", {"a": "b"}, "rolls"),
        ("spec/template/spec/hostNetwork", True, "rolls"),
        ("spec/replicas", 3, "scales"),
        ("spec/minReadySeconds", 3, "spec"),
        ("spec/paused", True, "spec"),
        ("metadata/labels/team", "a", "metadata"),
        ("metadata/annotations/note", "a", "metadata"),
        ("status/replicas", 1, "unchanged"),
        ("metadata/generation", 2, "unchanged"),
    ],
)
def test_the_strongest_change_names_the_effect(path: str, value: Any, name: str) -> None:
    assert effect_of(*changed(path, value)).name == name


@pytest.mark.parametrize(
    ("path", "stored"),
    [
        ("spec/template/spec/containers/0/terminationMessagePath", "/dev/termination-log"),
        ("spec/template/spec/containers/0/imagePullPolicy", "Always"),
        ("spec/template/spec/terminationGracePeriodSeconds", 30),
        ("spec/template/spec/securityContext", {}),
        ("spec/template/spec/nodeSelector", {}),
        ("spec/template/spec/tolerations", []),
        ("spec/strategy", {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}),
    ],
)
def test_a_default_that_a_write_drops_is_stored_again(path: str, stored: Any) -> None:
    without, present = changed(path, stored)
    assert effect_of(present, without) == Effect("unchanged", 0, (2, 2))


def test_a_dropped_value_that_is_no_default_counts() -> None:
    without, present = changed("spec/template/spec/terminationGracePeriodSeconds", 60)
    assert effect_of(present, without).name == "rolls"


def test_quantities_are_compared_by_value() -> None:
    cpu = "spec/template/spec/containers/0/resources"
    _, before = changed(cpu, {"limits": {"cpu": "1"}})
    _, same = changed(cpu, {"limits": {"cpu": "1000m"}})
    _, other = changed(cpu, {"limits": {"cpu": "1001m"}})
    assert effect_of(before, same).name == "unchanged"
    assert effect_of(before, other).name == "rolls"


def test_the_controller_of_stateful_sets_compares_the_texts_of_quantities() -> None:
    memory = "spec/template/spec/containers/0/resources"
    before, same, other = (
        {**changed(memory, {"limits": {"memory": text}})[1], "kind": "StatefulSet"}
        for text in ("1Gi", "1024Mi", "1073741824")
    )
    assert effect_of(before, same, "StatefulSet").name == "unchanged"
    assert effect_of(before, other, "StatefulSet").name == "rolls"
    deployments = [{**one, "kind": "Deployment"} for one in (before, other)]
    assert effect_of(*deployments).name == "unchanged"


def test_the_order_of_variables_is_a_change_of_the_pod_template() -> None:
    one, two = {"name": "A", "value": "1"}, {"name": "B", "value": "2"}
    path = "spec/template/spec/containers"
    _, before = changed(path, [container(env=[one, two])])
    _, after = changed(path, [container(env=[two, one])])
    assert effect_of(before, after).name == "rolls"


def test_an_empty_node_affinity_of_openyurt_is_no_change() -> None:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}}
    without, present = changed("spec/template/spec/affinity", {"nodeAffinity": required})
    assert effect_of(present, without).name == "unchanged"
    assert effect_of(without, present).name == "unchanged"


def test_a_rollout_counts_the_replicas_after_it() -> None:
    before, after = changed(IMAGE, "nginx:2")
    after["spec"]["replicas"] = 5
    assert effect_of(before, after)[:3] == ("rolls", 5, (2, 5))


def test_a_workload_without_replicas_rolls_no_pods() -> None:
    assert effect_of(*changed(IMAGE, "nginx:2", replicas=0))[:2] == ("rolls", 0)


def test_a_paused_deployment_rolls_when_it_is_resumed() -> None:
    effect = effect_of(*changed(IMAGE, "nginx:2", paused=True))
    assert effect[:2] == ("rolls", 0)
    assert effect.notes == ("the Deployment is paused: 2 pods are replaced when it is resumed",)


def test_a_resumed_deployment_rolls_if_its_template_changed_meanwhile() -> None:
    before, after = changed("spec/paused", False, paused=True)
    before["status"] = after["status"] = {"replicas": 2}
    assert effect_of(before, after)[:2] == ("rolls", 2)
    before["status"]["updatedReplicas"] = 2
    assert effect_of(before, after).name == "spec"


@pytest.mark.parametrize(
    ("strategy", "pods", "note"),
    [
        ({"type": "OnDelete"}, 0, "updateStrategy is OnDelete: 4 pods are replaced as you delete them"),
        (
            {"type": "RollingUpdate", "rollingUpdate": {"partition": 3}},
            1,
            "updateStrategy has partition 3: 3 pods stay as they are",
        ),
        (
            {"type": "RollingUpdate", "rollingUpdate": {"partition": 9}},
            0,
            "updateStrategy has partition 9: 4 pods stay as they are",
        ),
    ],
)
def test_a_statefulset_rolls_as_its_strategy_says(strategy: dict[str, Any], pods: int, note: str) -> None:
    before, after = changed(IMAGE, "nginx:2", kind="StatefulSet", replicas=4, updateStrategy=strategy)
    effect = effect_of(before, after, "StatefulSet")
    assert (effect.name, effect.pods, effect.notes) == ("rolls", pods, (note,))


def test_replicas_that_an_autoscaler_set_are_noted() -> None:
    before, after = changed("spec/replicas", 1, replicas=7)
    assert not effect_of(before, after).notes
    before["metadata"]["managedFields"] = [{"subresource": "scale"}]
    assert "an autoscaler sets them again" in effect_of(before, after).notes[0]


_PODS = "/spec/template/spec"


def removed(pointer: str, stored: object) -> Difference:
    return Difference(pointer, tuple(pointer.split("/")[1:]), ABSENT, stored)


@pytest.mark.parametrize(
    ("pointer", "stored"),
    [
        (f"{_PODS}/containers/0/livenessProbe/periodSeconds", 10),
        (f"{_PODS}/initContainers/3/ports/0/protocol", "TCP"),
        (f"{_PODS}/containers/0/lifecycle/preStop/httpGet/scheme", "HTTP"),
        (f"{_PODS}/volumes/2/configMap/defaultMode", 420),
        (f"{_PODS}/volumes/2/projected/sources/0/serviceAccountToken/expirationSeconds", 3600),
        (f"{_PODS}/serviceAccount", "robot"),
        (f"{_PODS}/containers/0/imagePullPolicy", "Always"),
        ("/spec/revisionHistoryLimit", 10),
    ],
)
def test_a_removed_default_comes_back(pointer: str, stored: object) -> None:
    assert is_default(removed(pointer, stored))


@pytest.mark.parametrize(
    ("pointer", "stored"),
    [
        (f"{_PODS}/containers/0/livenessProbe/periodSeconds", 11),
        (f"{_PODS}/containers/0/image", "nginx"),
        (f"{_PODS}/volumes/0/emptyDir/sizeLimit", "1Gi"),
        (f"{_PODS}/affinity", {}),
        (f"{_PODS}/serviceAccountName", "robot"),
        ("/metadata/labels/replicas", 1),
    ],
)
def test_any_other_removed_value_is_gone(pointer: str, stored: object) -> None:
    assert not is_default(removed(pointer, stored))


REVISION = "apps.openyurt.io/controller-revision-hash"
PATCH = "apps.openyurt.io/patch"
NODE_POOL = "apps.openyurt.io/nodepool"
Document = dict[str, Any]


def subject(image: str = "nginx:1", *, version: str = "v1alpha1", **spec: Any) -> Document:
    template = {"deploymentTemplate": {"spec": {"template": {"spec": {"containers": [{"name": "a", "image": image}]}}}}}
    member = {"workload": {"workloadTemplate": template}} if version == "v1beta1" else {"workloadTemplate": template}
    return {"apiVersion": f"apps.openyurt.io/{version}", "metadata": {"name": "demo"}, "spec": {**member, **spec}}


def edit(before: Document, after: Document, group_kind: GroupKind = YURT_APP_SET) -> OwnerEdit:
    return OwnerEdit.of(group_kind, before, after)


SAME = edit(subject(), subject())
NEW = edit(subject(), subject("nginx:2"))


def owned_workload(**spec: Any) -> Document:
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


@pytest.mark.parametrize(
    ("stored", "wanted", "is_different"),
    [
        (owned_workload(), bare(), False),
        (owned_workload(), bare(replicas=3), True),
        (owned_workload(paused=True), bare(minReadySeconds=7), False),
        ({**owned_workload(), "spec": {}}, bare(replicas=1), False),
        (owned_workload(), {**bare(), "metadata": {"annotations": {PATCH: "{}"}}}, True),
    ],
)
def test_an_app_set_of_v1alpha1_is_written_for_another_number_or_patch(
    stored: Document, wanted: Document, *, is_different: bool
) -> None:
    assert is_written(SAME, stored, "a", bare=wanted, taints=None) is is_different
    assert is_written(NEW, stored, "a", bare=wanted, taints=None)


def test_an_app_set_of_v1beta1_is_written_only_for_another_revision() -> None:
    same = edit(subject(version="v1beta1"), subject(version="v1beta1", replicas=9))
    assert not is_written(same, owned_workload(), "a", bare=bare(replicas=9), taints=None)


def tolerating(*tolerations: Document, pool: str = "a") -> Document:
    made = owned_workload()
    made["spec"]["template"]["spec"].update(nodeSelector={NODE_POOL: pool}, tolerations=list(tolerations))
    return made


@pytest.mark.parametrize(
    ("stored", "taints", "expected"),
    [
        (tolerating(), None, False),
        (tolerating(), "text", False),
        (tolerating(pool="b"), None, True),
        (owned_workload(), None, True),
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
    labelled = owned_workload()
    labelled["metadata"]["labels"]["apps.openyurt.io/ref-yurtappset"] = "demo"
    assert [owns_by_label(beta, one) for one in (labelled, owned_workload())] == [True, False]
    assert owns_by_label(SAME, owned_workload())


def test_a_write_merges_metadata_and_sets_the_revision_in_both_places() -> None:
    stored = owned_workload()
    made = write(NEW, stored, kind="Deployment", bare=bare())
    assert made["metadata"]["labels"] == {"app": "demo", "pool": "a", REVISION: NEW_REVISION}
    assert made["metadata"]["annotations"] == {"note": "kept"}
    assert made["spec"]["template"]["metadata"]["labels"] == {"app": "demo", REVISION: NEW_REVISION}
    assert stored == owned_workload()
    kept = write(SAME, stored, kind="Deployment", bare=bare())
    assert kept["metadata"]["labels"][REVISION] == "r1"


def test_a_workload_without_a_revision_gets_none() -> None:
    stored = owned_workload()
    del stored["metadata"]["labels"][REVISION]
    made = write(SAME, stored, kind="Deployment", bare=bare())
    assert REVISION not in made["spec"]["template"]["metadata"]["labels"]


def test_v1alpha1_copies_some_members_and_keeps_the_others() -> None:
    stored = owned_workload(paused=True, minReadySeconds=1, custom="kept", selector={"a": "b"})
    wanted = bare(minReadySeconds=7, other="dropped", selector={"x": "y"})
    del wanted["spec"]["replicas"]
    spec = write(SAME, stored, kind="Deployment", bare=wanted)["spec"]
    del spec["template"]
    assert spec == {"minReadySeconds": 7, "custom": "kept", "selector": {"a": "b"}, "replicas": 0}


@pytest.mark.parametrize(
    "beta", [edit(subject(version="v1beta1"), subject(version="v1beta1")), edit(subject(), subject(), YURT_APP_DAEMON)]
)
def test_the_others_replace_all_but_the_members_that_no_update_can_change(beta: OwnerEdit) -> None:
    stored = owned_workload(paused=True, custom="dropped", selector={"a": "b"}, serviceName="s")
    wanted = bare(minReadySeconds=7, selector={"x": "y"}, podManagementPolicy="Parallel")
    spec = write(beta, stored, kind="StatefulSet", bare=wanted)["spec"]
    del spec["template"]
    assert spec == {"minReadySeconds": 7, "selector": {"a": "b"}, "serviceName": "s", "replicas": 2}
