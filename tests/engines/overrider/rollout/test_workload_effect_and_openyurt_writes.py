"""The effect of a change on one workload, and the number of pods that it replaces."""

import copy
from typing import Any

import pytest

from fleethook.engines.overrider.rollout.workload_effect_and_openyurt_writes import Effect, compare, encode_revision
from tests.builders import (
    container,
    patch,
    pod_template,
    tweak,
    workload,
    yurt_app_daemon,
    yurt_app_set,
    yurt_app_set_v1beta1,
)


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


POD = "template.spec"
APP = f"{POD}.containers.0"
LIMITS = {"limits": {"cpu": "1", "memory": "1Gi"}}
TEMPLATE = pod_template(containers=[container("app", resources=LIMITS)])
TWEAK = tweak("a", replicas=1, patches=[patch("add", "/spec/paused", True), patch("add", "/spec/x", {"n": 1})])
BETA = yurt_app_set_v1beta1(template=TEMPLATE, tweaks=[TWEAK])


def edit(subject: dict[str, Any], path: str, value: Any, *, spec: bool = True) -> dict[str, Any]:
    """Return a subject with a member of its template's spec, or of the subject's spec, set."""
    made = copy.deepcopy(subject)
    node: Any = made["spec"]
    if spec:
        node = (node.get("workload") or node)["workloadTemplate"]
        node = next(iter(node.values()))["spec"]
    *parents, last = [int(part) if part.isdecimal() else part for part in path.split(".")]
    for part in parents:
        node = node[part]
    node[last] = value
    return made


@pytest.mark.parametrize(
    ("path", "value", "is_same"),
    [
        (f"{APP}.imagePullPolcy", "Always", True),
        (f"{APP}.imagePullPolicy", "IfNotPresent", False),
        (f"{APP}.stdin", False, True),
        (f"{APP}.securityContext", {}, False),
        (f"{APP}.securityContext", None, True),
        (f"{APP}.env", [], True),
        (f"{APP}.env", [{"name": "A", "value": ""}], False),
        (f"{APP}.resources.requests", {}, True),
        (f"{APP}.resources.limits.cpu", "1000m", True),
        (f"{APP}.resources.limits.cpu", 1, True),
        (f"{APP}.resources.limits.cpu", "1.0005", False),
        (f"{APP}.resources.limits.memory", "1024Mi", True),
        (f"{APP}.resources.limits.memory", "1073741824", False),
        (f"{POD}.hostNetwork", False, True),
        (f"{POD}.serviceAccountName", "", True),
        (f"{POD}.serviceAccount", "default", False),
        (f"{POD}.terminationGracePeriodSeconds", 0, False),
        (f"{POD}.terminationGracePeriodSeconds", 30, False),
        (f"{POD}.affinity", {}, False),
        ("template.metadata.creationTimestamp", None, True),
        ("strategy", {}, True),
        ("strategy", {"type": "RollingUpdate"}, False),
        ("strategy", {"rollingUpdate": {"maxSurge": 1}}, False),
        ("minReadySeconds", 0, True),
        ("replicas", 1, False),
    ],
)
def test_a_member_of_a_template_is_compared_as_go_encodes_it(path: str, value: Any, *, is_same: bool) -> None:
    assert (encode_revision(edit(BETA, path, value)) == encode_revision(BETA)) is is_same


@pytest.mark.parametrize(
    ("path", "value", "is_same"),
    [
        ("pools", ["a"], True),
        ("nodepoolSelector", {}, True),
        ("workload.workloadTweaks.0.pools", [], False),
        ("workload.workloadTweaks.0.nodepoolSelector", None, True),
        ("workload.workloadTweaks.0.nodepoolSelector", {}, False),
        ("workload.workloadTweaks.0.tweaks.containerImages", [], True),
        ("workload.workloadTweaks.0.tweaks.replicas", None, False),
        ("workload.workloadTweaks.0.tweaks.image", "nginx", True),
        ("workload.workloadTweaks.0.tweaks.patches.1.value", {"n": 1.0}, True),
        ("workload.workloadTweaks.0.tweaks.patches.1.value", {"n": True}, False),
        ("workload.workloadTweaks.0.tweaks.patches.1.value", {"n": 1, "m": None}, False),
        ("workload.workloadTweaks.0.tweaks.patches.1.comment", "why", True),
        ("workload.workloadTweaks", [], False),
        ("workload.workloadTemplate.statefulSetTemplate", None, True),
    ],
)
def test_a_tweak_is_compared_as_go_encodes_it(path: str, value: Any, *, is_same: bool) -> None:
    assert (encode_revision(edit(BETA, path, value, spec=False)) == encode_revision(BETA)) is is_same


def test_absent_and_null_values_of_patches_are_equal() -> None:
    values = ({}, {"value": None})
    absent, null = (
        yurt_app_set_v1beta1(tweaks=[tweak(patches=[{"operation": "replace", "path": "/spec/paused", **one}])])
        for one in values
    )
    assert encode_revision(absent) == encode_revision(null)


@pytest.mark.parametrize("subject", [yurt_app_set(template=TEMPLATE), yurt_app_daemon(template=TEMPLATE)])
@pytest.mark.parametrize(
    ("path", "value", "is_same"),
    [
        (f"{POD}.terminationGracePeriodSeconds", 30, True),
        (f"{POD}.terminationGracePeriodSeconds", 60, False),
        (f"{APP}.imagePullPolicy", "Always", True),
        (f"{APP}.imagePullPolicy", "IfNotPresent", False),
        ("strategy", {"type": "RollingUpdate"}, False),
        ("selector", {"matchLabels": {"other": "1"}}, True),
    ],
)
def test_openyurts_webhook_fills_in_defaults_in_v1alpha1(
    subject: dict[str, Any], path: str, value: Any, *, is_same: bool
) -> None:
    assert (encode_revision(edit(subject, path, value)) == encode_revision(subject)) is is_same
