"""The content of revisions. The expected results are those of getYurtAppSetPatch with the types of OpenYurt v1.7.0."""

import copy
from typing import Any

import pytest

from fleethook.engines.overrider.rollout.revision import encode_revision
from tests.builders import container, patch, pod_template, tweak, yurt_app_daemon, yurt_app_set, yurt_app_set_v1beta1

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
