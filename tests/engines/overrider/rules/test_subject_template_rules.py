"""Tests of the rules for subjects, by the paths of the findings."""

import copy
from typing import Any

import pytest

from fleethook.engines.overrider.rules.subject_template_rules import check_subject, check_template, check_workloads
from fleethook.model.gvk import GroupKind
from fleethook.model.openyurt import YURT_APP_DAEMON, YURT_APP_SET
from tests.builders import container, pod_template, pool, tweak, yurt_app_daemon, yurt_app_set, yurt_app_set_v1beta1

SUBJECTS = {
    "set": (YURT_APP_SET, yurt_app_set()),
    "daemon": (YURT_APP_DAEMON, yurt_app_daemon()),
    "beta": (YURT_APP_SET, yurt_app_set_v1beta1(tweaks=[tweak("hangzhou", replicas=1)])),
}
UNSELECTIVE = yurt_app_daemon()
del UNSELECTIVE["spec"]["nodepoolSelector"]
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
        ("set", "spec", None, [("required", "spec")]),
        ("set", "spec.selector", {"app": "web"}, [("required", "spec.selector")]),
        ("daemon", "spec.selector", {"matchLabels": {}}, [("required", "spec.selector")]),
        ("set", "spec.workloadTemplate", None, [("required", "spec.workloadTemplate")]),
        ("set", "spec.workloadTemplate", {}, [("required", "spec.workloadTemplate")]),
        ("set", "spec.workloadTemplate.statefulSetTemplate", {"spec": {}}, [("refused", "spec.workloadTemplate")]),
        (
            "set", "spec.workloadTemplate.deploymentTemplate", "x",
            [("invalid", "spec.workloadTemplate.deploymentTemplate")],
        ),
        ("set", "spec.topology.pools", {}, [("invalid", "spec.topology.pools")]),
        ("set", "spec.topology.pools.0", "hangzhou", [("invalid", "spec.topology.pools[0]")]),
        ("set", "spec.topology.pools.0", pool(""), [("required", "spec.topology.pools[0].name")]),
        ("set", "spec.topology.pools.1", pool("hangzhou"), [("duplicate", "spec.topology.pools[1].name")]),
        ("daemon", "spec.nodepoolSelector", [], [("invalid", "spec.nodepoolSelector")]),
        (
            "daemon", "spec.nodepoolSelector.matchLabels", {"a": "not a label!"},
            [("invalid", "spec.nodepoolSelector.matchLabels")],
        ),
        ("beta", "spec.workload", None, [("required", "spec.workload")]),
        ("beta", "spec.pools", "hangzhou", [("invalid", "spec.pools")]),
        ("beta", "spec.workload.workloadTweaks", {}, [("invalid", "spec.workload.workloadTweaks")]),
        ("beta", "spec.workload.workloadTweaks.0", "x", [("invalid", TWEAK)]),
        ("beta", "spec.workload.workloadTweaks.0", tweak(replicas=1), [("unused-entry", TWEAK)]),
        ("beta", "spec.workload.workloadTweaks.0.tweaks", [], [("invalid", f"{TWEAK}.tweaks")]),
    ],
)  # fmt: skip
def test_a_mistake_is_found_at_its_path(kind: str, path: str, value: Any, found: list[tuple[str, str]]) -> None:
    assert check(kind, path, value) == found


@pytest.mark.parametrize(
    ("group_kind", "subject"),
    [(YURT_APP_SET, yurt_app_set_v1beta1(pools=[])), (YURT_APP_DAEMON, UNSELECTIVE)],
)
def test_a_subject_that_selects_no_node_pool_is_a_warning(group_kind: GroupKind, subject: dict[str, Any]) -> None:
    (finding,) = check_subject(group_kind, subject)
    assert (finding.level, finding.code, finding.field) == ("warning", "unused-entry", "spec")


EDGE = {"spec": {"template": {"spec": {"nodeSelector": {"edge": "1"}}}}}
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


@pytest.mark.parametrize("make", [yurt_app_set, yurt_app_set_v1beta1, yurt_app_daemon])
def test_members_that_a_workload_lacks_are_found_in_every_kind_of_template(make: Any) -> None:
    template = pod_template(hostNetwrk=True, containers=[container("a", env=[{"name": "A", "valu": "b"}])])
    subject = make(template=template)
    spec = subject["spec"]
    templates = (spec.get("workload") or spec)["workloadTemplate"]
    templates["deploymentTemplate"]["metadata"] = {"lables": {"app": "demo"}}
    group_kind = YURT_APP_DAEMON if make is yurt_app_daemon else YURT_APP_SET
    places = [one.field.rpartition("deploymentTemplate.")[2] for one in check_workloads(group_kind, subject)]
    pod = "spec.template.spec"
    assert sorted(places) == ["metadata.lables", f"{pod}.containers[0].env[0].valu", f"{pod}.hostNetwrk"]


@pytest.mark.parametrize("make", [yurt_app_set, yurt_app_set_v1beta1])
def test_images_and_tokens_of_a_template_are_checked(make: Any) -> None:
    containers = [
        container("a", "Nginx:1"),
        container("b", "{{nodepool}}/a"),
        container("c", args=["{pool}", "{{nodepool-name}}"]),
    ]
    found = [*check_workloads(YURT_APP_SET, make(template=pod_template(containers=containers)))]
    assert [(one.code, one.field.rpartition("template.spec.")[2]) for one in found] == [
        ("token", "containers[2].args[1]"),
        ("image", "containers[0].image"),
        ("image", "containers[1].image"),
    ]
