"""Tests of the rules for subjects, by the paths of the findings."""

import copy
from typing import Any

import pytest

from fleethook.engines.overrider.rules.subject_rules import check_subject, check_template, check_workloads
from fleethook.model.openyurt import YURT_APP_DAEMON, YURT_APP_SET
from tests.builders import (
    container,
    patch,
    pod_template,
    pool,
    tweak,
    yurt_app_daemon,
    yurt_app_set,
    yurt_app_set_v1beta1,
)

SUBJECTS = {
    "set": (YURT_APP_SET, yurt_app_set()),
    "daemon": (YURT_APP_DAEMON, yurt_app_daemon()),
    "beta": (YURT_APP_SET, yurt_app_set_v1beta1(tweaks=[tweak("hangzhou", replicas=1)], selector={})),
}
TWEAK = "spec.workload.workloadTweaks[0]"


def check(kind: str, path: str = "", value: Any = None) -> list[tuple[str, str]]:
    """Return the findings about a valid subject in which one member is replaced."""
    group_kind, subject = SUBJECTS[kind]
    subject = copy.deepcopy(subject)
    if path:
        *parents, last = [int(part) if part.isdecimal() else part for part in path.split(".")]
        node: Any = subject
        for part in parents:
            node = node[part]
        node[last] = value
    return [(one.code, one.field) for one in check_subject(group_kind, subject)]


@pytest.mark.parametrize("kind", SUBJECTS)
def test_a_valid_subject_has_no_finding(kind: str) -> None:
    assert check(kind) == []


@pytest.mark.parametrize(
    ("kind", "path", "value", "found"),
    [
        ("set", "specs", {}, [("unknown-field", "specs")]),
        ("set", "metadata.label", {}, [("unknown-field", "metadata.label")]),
        ("set", "spec", None, [("required", "spec")]),
        ("set", "spec.nodepoolSelector", {}, [("unknown-field", "spec.nodepoolSelector")]),
        ("daemon", "spec.topology", {}, [("unknown-field", "spec.topology")]),
        ("beta", "spec.topology", {}, [("unknown-field", "spec.topology")]),
        ("set", "spec.workloadTemplate", None, [("required", "spec.workloadTemplate")]),
        ("set", "spec.workloadTemplate", {}, [("required", "spec.workloadTemplate")]),
        (
            "set", "spec.workloadTemplate.deploymentTemplate", "x",
            [("invalid", "spec.workloadTemplate.deploymentTemplate")],
        ),
        (
            "set", "spec.workloadTemplate.deploymentTemplate.template", {},
            [("unknown-field", "spec.workloadTemplate.deploymentTemplate.template")],
        ),
        ("set", "spec.topology.pools", {}, [("invalid", "spec.topology.pools")]),
        ("set", "spec.topology.pool", [], [("unknown-field", "spec.topology.pool")]),
        ("set", "spec.topology.pools.0", "hangzhou", [("invalid", "spec.topology.pools[0]")]),
        ("set", "spec.topology.pools.0", pool(""), [("required", "spec.topology.pools[0].name")]),
        ("set", "spec.topology.pools.1", pool("hangzhou"), [("duplicate", "spec.topology.pools[1].name")]),
        ("set", "spec.topology.pools.1", pool("b", label=1), [("unknown-field", "spec.topology.pools[1].label")]),
        ("daemon", "spec.nodepoolSelector", [], [("invalid", "spec.nodepoolSelector")]),
        (
            "daemon", "spec.nodepoolSelector.matchLabels", {"a": "not a label!"},
            [("invalid", "spec.nodepoolSelector.matchLabels")],
        ),
        ("beta", "spec.workload", None, [("required", "spec.workload")]),
        ("beta", "spec.workload.tweaks", [], [("unknown-field", "spec.workload.tweaks")]),
        ("beta", "spec.pools", "hangzhou", [("invalid", "spec.pools")]),
        ("beta", "spec.workload.workloadTweaks", {}, [("invalid", "spec.workload.workloadTweaks")]),
        ("beta", "spec.workload.workloadTweaks.0", "x", [("invalid", TWEAK)]),
        ("beta", "spec.workload.workloadTweaks.0", tweak(replicas=1), [("unused-entry", TWEAK)]),
        ("beta", "spec.workload.workloadTweaks.0.tweaks", [], [("invalid", f"{TWEAK}.tweaks")]),
        ("beta", "spec.workload.workloadTweaks.0.tweaks.image", "x", [("unknown-field", f"{TWEAK}.tweaks.image")]),
    ],
)  # fmt: skip
def test_a_mistake_is_found_at_its_path(kind: str, path: str, value: Any, found: list[tuple[str, str]]) -> None:
    assert check(kind, path, value) == found


def test_a_v1beta1_set_that_selects_no_node_pool_is_a_warning() -> None:
    (finding,) = check_subject(YURT_APP_SET, yurt_app_set_v1beta1(pools=[]))
    assert (finding.level, finding.code, finding.field) == ("warning", "unused-entry", "spec")


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
        ({"containerImages": [{"name": "ap", "targetImage": "nginx:2"}]}, "unknown-container", ".tweaks.containerImages[0].name"),
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
