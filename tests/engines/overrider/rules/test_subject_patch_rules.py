"""Tests of the rules for the workloads of a subject: its template, the patches of pools, and tweaks."""

from typing import Any

import pytest

from fleethook.engines.overrider.rules.subject_patch_rules import check_template, check_workloads
from fleethook.model.openyurt import YURT_APP_SET
from tests.builders import container, patch, pod_template, pool, tweak, yurt_app_set, yurt_app_set_v1beta1

BROKEN = {"spec": {"template": {"spec": {"containers": "nginx"}}}}
EDGE = {"spec": {"template": {"spec": {"nodeSelector": {"edge": "1"}}}}}
RESUME = patch("remove", "/spec/paused")
PAUSE: dict[str, Any] = patch("add", "/spec/paused", True)
MISTAKEN = pod_template(
    containers=[container("app", imagePullPolcy="Always", imagePullPolicy="Allways", ports=[{"containerPort": "80"}])]
)


def found(subject: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one.code, one.field) for one in check_workloads(YURT_APP_SET, subject)]


def test_mistakes_of_a_template_are_found_once() -> None:
    subject = yurt_app_set(template=MISTAKEN, pools=[pool("a", patch=EDGE), pool("b", patch=EDGE)])
    app = "spec.workloadTemplate.deploymentTemplate.spec.template.spec.containers[0]"
    assert sorted(found(subject)) == [
        ("dropped", f"{app}.imagePullPolcy"),
        ("refused", f"{app}.imagePullPolicy"),
        ("refused", f"{app}.ports[0].containerPort"),
    ]
    for_author = list(check_template(YURT_APP_SET, subject))
    assert {(one.code, one.field, one.level) for one in for_author} == {("template", "subject.name", "warning")}
    assert len(for_author) == 3


@pytest.mark.parametrize(
    ("written", "code", "message"),
    [
        (BROKEN, "does-not-fit", "the pool's own patch does not fit: "),
        ([patch("add", "/spec/paused", True)], "refused", "must be a strategic merge patch"),
        ({"op": "add", "path": "/spec/paused"}, "dropped", "Deployment has no field"),
        ({"template": {"spec": {}}}, "dropped", "Deployment has no field"),
        ({"spec": {"template": {}}}, "no-effect", "changes nothing"),
        ({"spec": {"replicas": -1}}, "refused", "must be 0 or more, not -1"),
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


@pytest.mark.parametrize(
    ("members", "code", "field"),
    [
        ({"patches": [RESUME]}, "does-not-fit", ".tweaks.patches[0]"),
        ({"patches": [PAUSE, patch("add", "/metadata/labels/test", "a")]}, "does-not-fit", ".tweaks.patches[1]"),
        ({"patches": [patch("replace", "/spec/replicas", -1)]}, "refused", ""),
        ({"patches": [{"operation": "add", "path": "/spec/paused"}]}, "required", ".tweaks.patches[0].value"),
        ({"patches": [{"operation": "set", "path": "/spec/paused"}]}, "unsupported", ".tweaks.patches[0].operation"),
        ({"patches": [patch("add", "/spec/template/spec/nodeSelector", {"a": "b"}), patch("add", "/spec/template/spec/nodeSelector/{{nodepool-name}}", "a")]}, "token", ".tweaks.patches[1].path"),
        ({"replicas": 10**20}, "invalid", ".tweaks.replicas"),
        ({"containerImages": [{"name": "ap", "targetImage": "nginx:2"}]}, "no-effect", ".tweaks.containerImages[0].name"),
        ({"containerImages": [{"name": "nginx"}]}, "required", ".tweaks.containerImages[0].targetImage"),
        ({}, "no-effect", ".tweaks"),
    ],
)  # fmt: skip
def test_each_tweak_is_tried_alone_as_openyurt_does(members: dict[str, Any], code: str, field: str) -> None:
    tweaks = [tweak("a", patches=[PAUSE, RESUME]), tweak("a", **members), tweak("b", replicas=3)]
    place = f"spec.workload.workloadTweaks[1]{field}"
    template = pod_template(containers=[container("nginx")])
    findings = found(yurt_app_set_v1beta1(pools=["a"], tweaks=tweaks, template=template))
    assert findings[0] == (code, place)
    # A path with a token makes an invalid key, too.
    assert len(findings) == (2 if code == "token" else 1)
