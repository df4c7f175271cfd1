"""Tests of the rules for the patches of pools and for tweaks."""

from typing import Any

from app.overrider.subject_patch_rules import check_pool_patches, check_tweaks
from tests.builders import patch, pool, tweak, yurt_app_set, yurt_app_set_v1beta1

BROKEN = {"spec": {"template": {"spec": {"containers": "nginx"}}}}
EDGE = {"spec": {"template": {"spec": {"nodeSelector": {"edge": "1"}}}}}
RESUME = patch("remove", "/spec/paused")


def test_a_pool_patch_that_does_not_fit_is_named_with_its_pool() -> None:
    subject = yurt_app_set(pools=[pool("a", patch=EDGE), pool("b", patch=BROKEN), pool("c"), "d"])
    (finding,) = check_pool_patches(subject)
    assert (finding.code, finding.field) == ("does-not-fit", "spec.topology.pools[1].patch")
    assert finding.message.startswith("the pool's own patch does not fit: ")
    assert finding.message.endswith(" (node pool b, Deployment)")


def test_each_tweak_is_tried_alone() -> None:
    adds: dict[str, Any] = patch("add", "/spec/paused", True)
    tweaks = [tweak("a", patches=[adds, RESUME]), tweak("a", patches=[RESUME]), tweak("b", replicas=3)]
    found = list(check_tweaks(yurt_app_set_v1beta1(pools=["a"], tweaks=tweaks)))
    assert [(one.code, one.field) for one in found] == [("does-not-fit", "spec.workload.workloadTweaks[1]")]
    assert found[0].message.endswith(" (Deployment)")
