"""Tests of the YurtAppSet v1beta1 of a subject."""

from typing import Any

import pytest

from fleethook.engines.overrider.convert.subject_conversion import (
    Trial,
    bare_document,
    convert_subject,
    find_refusal,
    metadata_of,
    prepare_trial,
    with_tweaks,
)
from fleethook.model.openyurt import YURT_APP_DAEMON, YURT_APP_SET
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

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def convert(subject: dict[str, Any], kind: str = "Deployment") -> dict[str, Any]:
    """Return the spec of the converted subject."""
    group_kind = YURT_APP_SET if subject["kind"] == "YurtAppSet" else YURT_APP_DAEMON
    made: dict[str, Any] = convert_subject(group_kind, subject, kind=kind, pools=["a", "b"])
    assert (made["apiVersion"], made["kind"]) == ("apps.openyurt.io/v1beta1", "YurtAppSet")
    assert made["metadata"] == {"name": subject["metadata"]["name"], "namespace": "default"}
    spec: dict[str, Any] = made["spec"]
    return spec


def template_of(spec: dict[str, Any], member: str = "deploymentTemplate") -> dict[str, Any]:
    template: dict[str, Any] = spec["workload"]["workloadTemplate"][member]
    return template


def test_a_set_keeps_its_pools_and_a_daemon_its_selector() -> None:
    assert convert(yurt_app_set()).keys() == {"pools", "workload"}
    assert convert(yurt_app_set())["pools"] == ["a", "b"]
    daemon = convert(yurt_app_daemon())
    assert daemon.keys() == {"nodepoolSelector", "workload"}
    assert daemon["nodepoolSelector"] == {"matchLabels": {"region": "east"}}


def test_the_selector_moves_to_the_template_and_labels_the_workload() -> None:
    subject = yurt_app_set(selector={"matchLabels": {"of": "template"}})
    subject["spec"]["selector"]["matchLabels"] = {"app": "demo", "tier": "edge"}
    template = template_of(convert(subject))
    assert template["spec"]["selector"] == {"matchLabels": {"app": "demo", "tier": "edge"}}
    assert template["metadata"]["labels"] == {"app": "demo", "tier": "edge"}
    assert template["spec"]["template"]["metadata"]["labels"] == {"app": "demo", "tier": "edge"}


def test_a_daemon_keeps_the_selector_of_its_template() -> None:
    own = {"matchLabels": {"of": "template"}}
    assert template_of(convert(yurt_app_daemon(selector=own)))["spec"]["selector"] == own


@pytest.mark.parametrize(("make", "kept"), [(yurt_app_set, False), (yurt_app_daemon, True)])
def test_only_a_daemon_uses_the_replicas_of_its_template(make: Any, *, kept: bool) -> None:
    assert ("replicas" in template_of(convert(make(replicas=3)))["spec"]) is kept


def test_the_history_limit_of_a_set_becomes_that_of_its_workloads() -> None:
    subject = yurt_app_set(revisionHistoryLimit=9)
    subject["spec"]["revisionHistoryLimit"] = 3
    made = convert(subject)
    assert (made["revisionHistoryLimit"], template_of(made)["spec"]["revisionHistoryLimit"]) == (3, 3)


def test_placement_of_a_daemons_template_is_dropped() -> None:
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": []}]}}}
    template = pod_template(nodeSelector={"disk": "ssd"}, affinity=affinity)
    pods = template_of(convert(yurt_app_daemon(template=template)))["spec"]["template"]["spec"]
    assert pods == {"containers": [container()]}
    kept = template_of(convert(yurt_app_set(template=template)))["spec"]["template"]["spec"]
    assert kept["nodeSelector"] == {"disk": "ssd"}


def test_labels_that_the_pods_of_a_stateful_set_lack_are_left_out() -> None:
    subject = yurt_app_set(kind="StatefulSet")
    subject["spec"]["workloadTemplate"]["statefulSetTemplate"]["metadata"]["labels"]["tier"] = "1"
    template = template_of(convert(subject, "StatefulSet"), "statefulSetTemplate")
    assert template["metadata"]["labels"] == {"app": "demo"}


def test_tweaks_are_added_and_the_webhook_sees_the_template_without_metadata() -> None:
    converted = convert_subject(YURT_APP_SET, yurt_app_set(), kind="Deployment", pools=["a"])
    assert with_tweaks(converted, []) is converted
    tweaked = with_tweaks(converted, [tweak("a", replicas=1)])
    assert tweaked["spec"]["workload"]["workloadTweaks"] == [tweak("a", replicas=1)]
    assert "workloadTweaks" not in converted["spec"]["workload"]
    assert bare_document(tweaked, "Deployment") == {
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {}, "spec": template_of(converted["spec"])["spec"],
    }  # fmt: skip


SPEC = "/spec/template/spec"
MOUNT = [{"name": "logs", "mountPath": "/logs"}]
VOLUME = {"name": "logs", "emptyDir": {}}


def trial(*workloads: dict[str, Any], **spec: Any) -> Trial:
    return prepare_trial(yurt_app_set_v1beta1(template=pod_template(**spec)), "Deployment", workloads)


def refuse(*patches: dict[str, Any], of: Trial | None = None) -> str:
    return find_refusal(tweak("a", patches=list(patches)), of or trial())


def test_a_tweak_that_fits_the_template_is_admitted() -> None:
    assert refuse(patch("add", f"{SPEC}/hostNetwork", True)) == ""
    assert find_refusal(tweak("a", replicas=3), trial()) == ""


def test_a_patch_of_a_missing_member_is_refused() -> None:
    reason = refuse(patch("add", f"{SPEC}/volumes/-", VOLUME))
    assert reason.startswith("spec.workload.workloadTweaks[0].tweaks.patches[0] does not fit the template: ")


@pytest.mark.parametrize("member", ["containers", "initContainers"])
def test_a_mount_without_its_volume_is_refused(member: str) -> None:
    mounting = patch("add", f"{SPEC}/{member}", [container(volumeMounts=MOUNT)])
    assert refuse(mounting) == "no volume is named logs"
    assert refuse(mounting, patch("add", f"{SPEC}/volumes", [VOLUME])) == ""


def test_a_claim_of_a_stateful_set_is_a_volume() -> None:
    claims = [{"metadata": {"name": "logs"}}]
    subject = yurt_app_set_v1beta1(kind="StatefulSet", volumeClaimTemplates=claims)
    mounting = patch("add", f"{SPEC}/containers/0/volumeMounts", MOUNT)
    assert find_refusal(tweak("a", patches=[mounting]), prepare_trial(subject, "StatefulSet", ())) == ""


def test_a_volume_that_is_missing_without_the_tweak_is_no_refusal() -> None:
    pods = pod_template(containers=[container(volumeMounts=MOUNT)])
    mounting = patch("add", f"{SPEC}/containers/0/volumeMounts", MOUNT)
    assert refuse(mounting, of=trial(workload(template=pods))) == ""
    assert refuse(mounting, of=trial(containers=[container(volumeMounts=MOUNT)])) == ""


def test_metadata_has_no_members_that_an_apiserver_sets() -> None:
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": "{}", "a": "b"}
    metadata = {"name": "demo", "namespace": "", "uid": "u", "labels": {}, "annotations": annotations, "generation": 2}
    assert metadata_of({"metadata": metadata}) == {"name": "demo", "annotations": {"a": "b"}}
