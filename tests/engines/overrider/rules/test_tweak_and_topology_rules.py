"""Tests of the rules for selections, tweaks and topologies of YurtAppSets."""

from typing import Any

import pytest

from fleethook.cluster.manifests.yaml_decoding_and_lines import Document
from fleethook.engines.overrider.rules.findings_in_files import check_documents
from fleethook.engines.overrider.rules.subject_template_rules import check_workloads
from fleethook.engines.overrider.rules.tweak_and_topology_rules import check_combined_tweaks
from fleethook.model.openyurt import YURT_APP_SET
from tests.builders import (
    container,
    node_pool,
    patch,
    pod_template,
    pool,
    store_of,
    tweak,
    yurt_app_set,
    yurt_app_set_v1beta1,
)

POOLS = (node_pool("a", {"region": "east"}), node_pool("b", {"region": "east"}))
TWEAK = "spec.workload.workloadTweaks[0]"
POD = "/spec/template/spec"
TEMPLATE = pod_template(containers=[container("nginx")], volumes=[{"name": "x", "emptyDir": {}}])
RESUME = patch("remove", "/spec/paused")
PAUSE: dict[str, Any] = patch("add", "/spec/paused", True)


def check(*tweaks: dict[str, Any], template: Any = TEMPLATE, **spec: Any) -> list[tuple[str, str]]:
    """Return the findings about a set for the node pools ``a`` and ``b``."""
    subject = yurt_app_set_v1beta1(pools=[] if spec else ["a", "b"], tweaks=tweaks, template=template, replicas=2)
    subject["spec"] |= spec
    objects = (subject, *POOLS)
    found = check_documents([Document(one, "all.yaml", 1) for one in objects], store_of(*objects))
    return [(one.finding.code, one.finding.field) for one in found]


def test_a_right_set_has_no_finding() -> None:
    value = {"site": "{{nodepool-name}}"}
    right = [
        tweak("a", replicas=3, containerImages=[{"name": "nginx", "targetImage": "nginx:2"}]),
        tweak(selector={}, patches=[patch("add", f"{POD}/nodeSelector", value)]),
        tweak(selector={"matchLabels": {"region": "east"}}, patches=[patch("replace", f"{POD}/volumes", None)]),
    ]
    assert check(*right, nodepoolSelector={"matchExpressions": [{"key": "region", "operator": "Exists"}]}) == []


@pytest.mark.parametrize(
    ("spec", "code", "field"),
    [
        ({"pools": ["*"]}, "invalid", "spec.pools[0]"),
        ({"pools": ["a", "-b"]}, "invalid", "spec.pools[1]"),
        ({"pools": ["a", False]}, "invalid", "spec.pools[1]"),
        ({"pools": ["a", ""]}, "invalid", "spec.pools[1]"),
        ({"pools": ["A"]}, "no-pools", "spec.pools[0]"),
        ({"nodepoolSelector": {"region": "east"}}, "unknown-field", "spec.nodepoolSelector.region"),
        ({"nodepoolSelector": {"matchLabels": None}}, "empty-selector", "spec.nodepoolSelector"),
        ({"nodepoolSelector": {"matchExpressions": []}}, "empty-selector", "spec.nodepoolSelector"),
        ({"nodepoolSelector": {"matchLabels": {"region": "west"}}}, "no-pools", "spec.nodepoolSelector"),
        (
            {"nodepoolSelector": {"matchExpressions": [{"key": "a", "operator": "in"}]}},
            "invalid", "spec.nodepoolSelector.matchExpressions[0].operator",
        ),
        ({"pools": ["a"], "nodepoolSelector": {}}, "no-effect", "spec.pools"),
    ],
)  # fmt: skip
def test_a_selection_has_findings(spec: dict[str, Any], code: str, field: str) -> None:
    assert check(**spec) == [(code, field)]
    assert check({**spec, "tweaks": {"replicas": 3}})[0] == (
        {"no-pools": "unused-entry" if "nodepoolSelector" in spec else "unknown-pool"}.get(code, code),
        field.replace("spec", TWEAK, 1),
    )


@pytest.mark.parametrize(
    ("members", "code", "field"),
    [
        ({"patches": [RESUME]}, "does-not-fit", ".patches[0]"),
        ({"patches": [PAUSE, patch("add", "/metadata/labels/test", "a")]}, "does-not-fit", ".patches[1]"),
        ({"patches": [patch("add", f"{POD}/containers/[name=nginx]/args", [])]}, "invalid", ".patches[0].path"),
        ({"patches": [patch("add", "spec.paused", True)]}, "invalid", ".patches[0].path"),
        ({"patches": [{"operation": "add", "path": "/spec/paused"}]}, "required", ".patches[0].value"),
        ({"patches": [{"operation": "set", "path": "/spec/paused"}]}, "unsupported", ".patches[0].operation"),
        ({"patches": [patch("add", f"{POD}/containers/0/args", ["{{nodepool}}"])]}, "token", ".patches[0].value[0]"),
        ({"patches": [patch("add", f"{POD}/containers/0/args", ["{{ nodepool-name }}"])]}, "token", ".patches[0].value[0]"),
        ({"patches": [patch("replace", f"{POD}/containers/0/image", "A:1")]}, "image", ".patches[0].value"),
        ({"patches": [patch("add", f"{POD}/hostNetwrk", True)]}, "dropped", ".patches[0]"),
        ({"patches": [patch("add", f"{POD}/volumes/-", {"name": "v", "emtyDir": {}})]}, "dropped", ".patches[0]"),
        ({"patches": [PAUSE, patch("add", "/spec/paused", True)]}, "no-effect", ".patches[1]"),
        ({"patches": [patch("remove", f"{POD}/volumes")]}, "no-effect", ".patches[0]"),
        ({"replicas": 10**20}, "invalid", ".replicas"),
        ({"replicas": 2}, "no-effect", ".replicas"),
        ({"containerImages": [{"name": "ap", "targetImage": "a:2"}]}, "unknown-container", ".containerImages[0].name"),
        ({"containerImages": [{"name": "nginx"}]}, "required", ".containerImages[0].targetImage"),
        ({"containerImages": [{"name": "nginx", "targetImage": "nginx:1.0"}]}, "no-effect", ".containerImages[0].targetImage"),
        ({"containerImages": [{"name": "nginx", "targetImage": "A:2"}]}, "image", ".containerImages[0].targetImage"),
        ({"containerImages": [{"name": "nginx", "targetImage": "{{nodepool-name}}/a"}]}, "image", ".containerImages[0].targetImage"),
        ({"containerImages": {"nginx": "nginx:2"}}, "invalid", ".containerImages"),
        ({}, "no-effect", ""),
    ],
)  # fmt: skip
def test_a_tweak_has_findings_of_its_own(members: dict[str, Any], code: str, field: str) -> None:
    assert check(tweak("a", **members), tweak("b", replicas=3)) == [(code, f"{TWEAK}.tweaks{field}")]


def test_openyurts_webhook_needs_a_selector() -> None:
    subject = yurt_app_set_v1beta1()
    template = "spec.workload.workloadTemplate.deploymentTemplate"
    del subject["spec"]["workload"]["workloadTemplate"]["deploymentTemplate"]["spec"]["selector"]
    found = [*check_workloads(YURT_APP_SET, subject)]
    assert [(one.code, one.field) for one in found] == [("refused", f"{template}.spec.selector")]


def test_openyurts_webhook_tries_each_tweak_alone() -> None:
    negative = tweak("a", patches=[patch("replace", "/spec/replicas", -1)])
    assert check(negative, tweak("a", patches=[PAUSE, RESUME])) == [("refused", TWEAK)]


def test_tweaks_that_are_invalid_together_are_found() -> None:
    volume = tweak("a", patches=[patch("add", f"{POD}/volumes/-", {"name": "v", "emptyDir": {}})])
    both = yurt_app_set_v1beta1(pools=["a"], tweaks=[volume, tweak("a", replicas=3), volume], template=TEMPLATE)
    (found,) = check_combined_tweaks(both, "Deployment", {"a": POOLS[0]})
    assert found.field == "spec.workload.workloadTweaks[2]"
    assert found.message.endswith("/volumes/2, together with workloadTweaks[0] (node pools a; Deployment)")
    assert check(volume, tweak(selector={}, replicas=3), volume) == [("refused", found.field)]
    other = {**volume, "pools": ["b"]}
    assert check(volume, tweak(selector={}, replicas=3), other) == []
    second = tweak("a", patches=[patch("remove", f"{POD}/containers/1")])
    two = pod_template(containers=[container("nginx"), container("side")])
    assert check(second, second, template=two) == [("does-not-fit", "spec.workload.workloadTweaks[1]")]


EDGE = {"spec": {"template": {"spec": {"nodeSelector": {"edge": "1"}}}}}
BROKEN = {"spec": {"template": {"spec": {"containers": "nginx"}}}}


@pytest.mark.parametrize(
    ("written", "code", "message"),
    [
        (BROKEN, "does-not-fit", "the pool's own patch does not fit: "),
        ([patch("add", "/spec/paused", True)], "refused", "must be a strategic merge patch"),
        ({"op": "add", "path": "/spec/paused"}, "dropped", "Deployment has no field"),
        ({"template": {"spec": {}}}, "dropped", "Deployment has no field"),
        ({"spec": {"template": {}}}, "no-effect", "changes nothing"),
        (
            {"spec": {"template": {"spec": {"nodeSelector": {"a": None}}}}},
            "empty-value",
            "a null sets /spec/template/spec/nodeSelector to {'a': ''}",
        ),
        ({"spec": {"replicas": -1}}, "refused", "must be 0 or more, not -1"),
        (
            {"spec": {"template": {"spec": {"containers": [{"name": "nginx", "image": "A:1"}]}}}},
            "image",
            "'A:1' is not an image",
        ),
        ({"spec": {"strategy": {"type": "Recreate", "rollingUpdate": {}}}}, "refused", "may only be set if type is"),
    ],
)
def test_the_patch_of_a_pool_has_findings_of_its_own(written: Any, code: str, message: str) -> None:
    subject = yurt_app_set(pools=[pool("a", patch=EDGE), pool("b", patch=written), pool("c"), "d"])
    findings = list(check_workloads(YURT_APP_SET, subject))
    first = next(one for one in findings if one.code == code)
    assert first.field == "spec.topology.pools[1].patch"
    assert first.message.startswith(message)
    assert first.message.endswith("(node pool b, Deployment)")
