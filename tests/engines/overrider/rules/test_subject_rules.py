"""Tests of the rules for subjects, by the paths of the findings."""

import copy
from typing import Any

import pytest

from fleethook.engines.overrider.rules.subject_rules import check_subject
from fleethook.model.openyurt import YURT_APP_DAEMON, YURT_APP_SET
from tests.builders import pool, tweak, yurt_app_daemon, yurt_app_set, yurt_app_set_v1beta1

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
