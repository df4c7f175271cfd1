"""Tests of the prediction whether OpenYurt's webhook admits a tweak."""

from typing import Any

import pytest

from fleethook.engines.overrider.convert.webhook import Trial, find_refusal, prepare_trial
from tests.builders import container, patch, pod_template, tweak, workload, yurt_app_set_v1beta1

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
