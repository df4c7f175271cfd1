"""Tests of tweaks. tests/conformance/test_openyurt.py compares the workloads with OpenYurt's."""

from typing import Any

import pytest

from fleethook.engines.overrider.template.pool_template import SubjectError
from fleethook.engines.overrider.template.tweaks import apply_tweaks
from tests.builders import container, images, patch, pod_spec, pod_template, tweak, workload, yurt_app_set_v1beta1

SPEC = "/spec/template/spec"
FIELD = "spec.workload.workloadTweaks"


def apply(*tweaks: dict[str, Any], numbers: Any = None, **spec: Any) -> dict[str, Any]:
    subject = yurt_app_set_v1beta1(tweaks=tweaks)
    chosen = range(len(tweaks)) if numbers is None else numbers
    made: dict[str, Any] = apply_tweaks(workload(**spec), subject, chosen, kind="Deployment", pool="hangzhou")
    return made


def to(image: str, name: str = "nginx") -> list[dict[str, str]]:
    return [{"name": name, "targetImage": image}]


def test_the_last_tweak_wins() -> None:
    made = apply(tweak("a", replicas=3, containerImages=to("x:1")), tweak("a", replicas=0, containerImages=to("x:2")))
    assert (made["spec"]["replicas"], images(made)) == (0, {"nginx": "x:2"})


def test_only_the_tweaks_of_the_pool_apply() -> None:
    tweaks = [tweak("a", replicas=7), tweak("b", replicas=8)]
    assert apply(*tweaks, numbers=[0])["spec"]["replicas"] == 7
    assert apply(*tweaks, numbers=[])["spec"]["replicas"] == 2


def test_an_image_reaches_containers_and_init_containers_of_its_name() -> None:
    template = pod_template(containers=[container("a"), container("b")], initContainers=[container("c")])
    made = apply(
        tweak("x", containerImages=[*to("n:1", "a"), *to("n:2", "c"), *to("n:3", "absent")]), template=template
    )
    assert images(made) == {"a": "n:1", "b": "nginx:1.0", "c": "n:2"}


def test_patches_of_all_tweaks_come_after_images() -> None:
    late = tweak("a", patches=[patch("replace", f"{SPEC}/containers/0/image", "patched:1")])
    assert images(apply(late, tweak("a", containerImages=to("x:1")))) == {"nginx": "patched:1"}


def test_the_token_is_replaced_in_values_and_keys() -> None:
    value = {"{{nodepool-name}}": "in-{{nodepool-name}}"}
    made = apply(tweak("a", patches=[patch("add", f"{SPEC}/nodeSelector", value)]))
    assert pod_spec(made)["nodeSelector"] == {"hangzhou": "in-hangzhou"}


def test_a_member_that_a_patch_removes_stays() -> None:
    made = apply(tweak("a", patches=[patch("remove", "/spec/minReadySeconds")]), minReadySeconds=5)
    assert made["spec"]["minReadySeconds"] == 5


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (patch("add", "", {}), rf"{FIELD}\[0\]\.tweaks\.patches\[1\]\.path does not fit the template: it is empty"),
        (patch("remove", "/spec/paused"), rf"{FIELD}\[0\]\.tweaks\.patches\[1\] does not fit the template: "),
        (patch("add", "/spec/replicas", "3"), rf"{FIELD}: the patched workload is not valid: /spec/replicas must be "),
    ],
)
def test_a_patch_that_does_not_fit_is_named(made: dict[str, Any], message: str) -> None:
    with pytest.raises(SubjectError, match=message):
        apply(tweak("a", patches=[patch("add", f"{SPEC}/hostNetwork", True), made]))
