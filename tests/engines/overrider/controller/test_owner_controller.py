"""Tests of the detection of a missing controller of OpenYurt."""

import copy
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fleethook.cluster.store import PartialBuilder
from fleethook.engines.overrider.controller.owner_controller import (
    DAEMONS_WITHOUT_CONTROLLER,
    OwnerWaits,
    Patience,
    describe_lack_of_controller,
    find_lag,
    has_observed,
    nudged_lately,
)
from fleethook.engines.overrider.controller.workload_decision import detect_drift, plan_workload
from fleethook.engines.overrider.plan.plan_cache import PlanCache
from fleethook.engines.overrider.subject.owner_index import Binding
from fleethook.engines.overrider.subject.subject_members import has_no_daemon_controller
from fleethook.model.openyurt import NUDGED_ANNOTATION, YURT_APP_DAEMON, YURT_APP_SET
from tests.builders import (
    container,
    entry,
    image,
    node_pool,
    overrider,
    patch,
    pod_template,
    rendered,
    store_of,
    workload,
    yurt_app_daemon,
    yurt_app_set,
)

NOBODY = (
    "no controller of OpenYurt reconciles YurtAppSets in this cluster, as none of them has a status: check that "
    "yurt-manager runs, and which controllers its argument --controllers disables"
)


def definition(**served: bool) -> dict[str, Any]:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "nodepools.apps.openyurt.io"},
        "spec": {"versions": [{"name": name, "served": value} for name, value in served.items()]},
    }


def in_version(document: dict[str, Any], version: str) -> dict[str, Any]:
    return {**document, "apiVersion": f"apps.openyurt.io/{version}"}


@pytest.mark.parametrize("status", [{"observedGeneration": 1}, {"currentRevision": "a"}])
def test_one_subject_with_a_status_shows_that_there_is_a_controller(status: dict[str, Any]) -> None:
    fresh, old = yurt_app_set("fresh"), {**yurt_app_set("old"), "status": status}
    store = store_of(fresh, old)
    assert describe_lack_of_controller(YURT_APP_SET, cluster="", store=store) == ""


@pytest.mark.parametrize(
    "status",
    [
        {},
        {"currentRevision": "", "readyWorkloads": 0, "updatedWorkloads": 0, "totalWorkloads": 0, "conditions": []},
        {"templateType": "Deployment", "replicas": 0},
    ],
)
def test_the_status_of_a_conversion_shows_no_controller(status: dict[str, Any]) -> None:
    store = store_of({**yurt_app_set(), "status": status})
    assert describe_lack_of_controller(YURT_APP_SET, cluster="", store=store) == NOBODY


def test_without_any_status_there_is_no_controller() -> None:
    daemon = {**yurt_app_daemon(), "status": {"currentRevision": "a"}}
    store = store_of(yurt_app_set("a"), {**yurt_app_set("b"), "status": {}}, daemon)
    assert describe_lack_of_controller(YURT_APP_SET, cluster="", store=store) == NOBODY
    assert describe_lack_of_controller(YURT_APP_DAEMON, cluster="", store=store) == ""


def test_a_status_in_another_cluster_does_not_count() -> None:
    elsewhere = {**yurt_app_set("b"), "status": {"observedGeneration": 1}}
    elsewhere["metadata"] = {**elsewhere["metadata"], "annotations": {"kcp.io/cluster": "other"}}
    store = store_of(yurt_app_set("a"), elsewhere)
    assert describe_lack_of_controller(YURT_APP_SET, cluster="", store=store) == NOBODY
    assert describe_lack_of_controller(YURT_APP_SET, cluster="other", store=store) == ""


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        ([], False),
        ([in_version(node_pool("a"), "v1beta1")], False),
        ([in_version(node_pool("a"), "v1beta2")], True),
        ([definition(v1alpha1=True, v1beta1=True)], False),
        ([definition(v1beta1=True, v1beta2=True)], True),
        ([definition(v1beta1=True, v1beta2=False)], False),
    ],
)
def test_node_pools_in_v1beta2_show_openyurt_1_7(objects: list[dict[str, Any]], *, expected: bool) -> None:
    assert has_no_daemon_controller(store_of(*objects), "") is expected


def test_daemons_have_no_controller_since_1_7_in_spite_of_a_former_status() -> None:
    daemon = {**yurt_app_daemon(), "status": {"currentRevision": "a"}}
    store = store_of(daemon, yurt_app_set(), definition(v1beta2=True))
    assert describe_lack_of_controller(YURT_APP_DAEMON, cluster="", store=store) == DAEMONS_WITHOUT_CONTROLLER
    assert describe_lack_of_controller(YURT_APP_SET, cluster="", store=store) == NOBODY


NGINX = "/spec/template/spec/containers/0"
RULE = overrider(entry("hangzhou", items=[image("nginx", "nginx:2.0")]))


def lags(document: dict[str, Any], subject: dict[str, Any], rule: dict[str, Any] | None) -> bool:
    store, plans = store_of(subject, *([rule] if rule else [])), PlanCache()
    binding = Binding("", YURT_APP_SET, "default", "demo")
    planned = plan_workload(
        PartialBuilder().build(document), binding, rule, kind="Deployment", store=store, plans=plans
    )
    assert planned.plan is not None
    plan = planned.plan
    return find_lag(document, plan, detect_drift(document, kind="Deployment", store=store, plans=plans)) is not None


def subject_with(**container_fields: Any) -> dict[str, Any]:
    template = pod_template(containers=[container(**container_fields)])
    return yurt_app_set(template=template)


@pytest.mark.parametrize("rule", [RULE, None])
def test_a_workload_with_its_template_does_not_lag(rule: dict[str, Any] | None) -> None:
    assert not lags(workload(), yurt_app_set(), rule)
    if rule:
        assert not lags(rendered(workload(), yurt_app_set(), rule), yurt_app_set(), rule)


@pytest.mark.parametrize("rule", [RULE, None])
def test_a_member_of_the_template_outside_the_overrides_is_a_lag(rule: Any) -> None:
    assert lags(workload(), subject_with(args=["--new"]), rule)
    assert lags(workload(), subject_with(env=[{"name": "A", "value": "1"}]), rule)


def test_an_overridden_member_is_no_lag() -> None:
    other = overrider(entry("hangzhou", items=[image("nginx", "nginx:3.0")]))
    stored = rendered(workload(), yurt_app_set(), RULE)
    assert not lags(stored, yurt_app_set(), other)
    # The template's image changed, which the override covers.
    assert not lags(stored, subject_with(image="nginx:9"), RULE)


FORMER = [
    patch("replace", f"{NGINX}/args", ["--ours"]),
    patch("remove", f"{NGINX}/args"),
    patch("replace", f"{NGINX}/env/0/value", "2"),
    patch("remove", f"{NGINX}/env/0"),
    patch("replace", f"{NGINX}/livenessProbe", {"exec": {"command": ["true"]}}),
    patch("replace", f"{NGINX}/livenessProbe/httpGet/port", 81),
    patch("replace", "/spec/template/spec/volumes/0", {"name": "data", "secret": {"secretName": "s"}}),
    patch("remove", "/spec/template/spec/nodeSelector"),
    patch("remove", "/spec/template/spec/containers/1"),
]


@pytest.mark.parametrize("former", FORMER, ids=lambda one: f"{one['operation']} {one['path']}")
@pytest.mark.parametrize("rule", [RULE, None])
def test_a_member_of_the_template_that_a_former_override_changed_is_no_lag(former: Any, rule: Any) -> None:
    probe = {"httpGet": {"path": "/", "port": 80}}
    first = container(args=["--old"], env=[{"name": "A", "value": "1"}], livenessProbe=probe)
    volumes = [{"name": "data", "configMap": {"name": "c"}}]
    subject = yurt_app_set(
        template=pod_template(containers=[first, container("side")], volumes=volumes, nodeSelector={"a": "b"})
    )
    template = subject["spec"]["workloadTemplate"]["deploymentTemplate"]["spec"]["template"]
    before = workload(template=copy.deepcopy(template))
    stored = rendered(before, subject, overrider(entry("hangzhou", patches=[former])))
    assert not lags(stored, subject, rule)
    template["spec"]["containers"][0]["workingDir"] = "/new"
    assert lags(stored, subject, rule)


def test_an_override_does_not_hide_another_change_of_the_template() -> None:
    side = overrider(entry("hangzhou", patches=[patch("add", "/spec/template/spec/containers/-", container("side"))]))
    stored = rendered(workload(), yurt_app_set(), side)
    assert not lags(stored, yurt_app_set(), side)
    assert lags(stored, subject_with(image="nginx:9"), side)


def test_defaults_and_empty_values_are_no_lag() -> None:
    assert not lags(workload(), subject_with(tty=False, env=[], args=None), RULE)
    assert not lags(workload(), yurt_app_set(paused=False), RULE)
    assert lags(workload(progressDeadlineSeconds=600), yurt_app_set(progressDeadlineSeconds=0), RULE)


def test_an_unknown_field_is_no_lag() -> None:
    assert not lags(workload(), subject_with(imagePulPolicy="Always"), RULE)
    assert not lags(workload(), yurt_app_set(template=pod_template(hostNetwrok=True)), None)
    assert lags(workload(), subject_with(imagePulPolicy="Always", imagePullPolicy="Always"), RULE)


def test_changes_of_other_clients_are_no_lag() -> None:
    stored = workload(replicas=9, paused=True)
    stored["spec"]["template"]["metadata"]["annotations"] = {"kubectl.kubernetes.io/restartedAt": "now"}
    stored["spec"]["template"]["spec"]["containers"].append(container("istio"))
    assert not lags(stored, yurt_app_set(), RULE)


@pytest.mark.parametrize(
    ("status", "observed"),
    [
        ({"observedGeneration": 3}, True),
        ({"observedGeneration": 2}, False),
        ({}, True),
        ({"observedGeneration": "?"}, True),
    ],
)
def test_the_status_shows_whether_the_controller_has_observed_the_spec(status: dict[str, Any], observed: bool) -> None:
    subject = yurt_app_set()
    subject["metadata"]["generation"] = 3
    assert has_observed({**subject, "status": status}) is observed
    assert has_observed({**yurt_app_set(), "status": status})


SET = Binding("", YURT_APP_SET, "default", "demo")
NOW = datetime(2026, 6, 1, tzinfo=UTC)


class Clock:
    """A clock that a test sets, and the waits that read it: 10 s, and 600 s between nudges."""

    def __init__(self) -> None:
        self.now = 0.0
        self.waits = OwnerWaits(seconds=10.0, interval=600.0, time=lambda: self.now)

    def should_nudge(self, at: float) -> bool:
        self.now = at
        return self.waits.should_nudge(SET, pools=0)


def test_a_controller_gets_a_twentieth_of_a_second_for_each_pool() -> None:
    clock = Clock()
    assert clock.waits.limit(0) == 10.0
    assert clock.waits.limit(200) == 20.0


def test_the_time_starts_again_when_the_spec_of_the_subject_changes() -> None:
    clock = Clock()
    assert clock.waits.patience(SET, pools=0, observed=False) == Patience(wait=True, observed=False)
    clock.now = 10.0
    assert not clock.waits.patience(SET, pools=0, observed=True).wait
    clock.waits.restart(SET)
    assert clock.waits.patience(SET, pools=0, observed=True).wait
    assert clock.waits.until(SET, pools=0) == 20.0


def test_the_wait_ends_when_no_workload_waits_any_more() -> None:
    clock = Clock()
    clock.waits.note(SET, waiting=True, behind=False, missing=False)
    assert clock.waits.patience(SET, pools=0, observed=True).wait
    assert clock.waits.waited(SET)
    clock.waits.note(SET, waiting=False, behind=False, missing=False)
    assert not clock.waits.patience(SET, pools=0, observed=True).wait
    assert not clock.waits.waited(SET)


def test_a_late_controller_is_nudged_with_doubled_pauses() -> None:
    clock = Clock()
    clock.waits.note(SET, waiting=False, behind=True, missing=False)
    assert not clock.should_nudge(9.0)
    assert clock.should_nudge(10.0)
    clock.waits.nudged(SET, well=True)
    assert clock.waits.until(SET, pools=0) == 20.0
    assert clock.waits.first_limit(SET, pools=0) == 10.0
    assert not clock.should_nudge(609.0)
    assert clock.should_nudge(610.0)
    clock.waits.nudged(SET, well=False)
    assert not clock.should_nudge(1809.0)
    assert clock.should_nudge(1810.0)


def test_a_controller_that_has_written_everything_is_not_nudged() -> None:
    clock = Clock()
    clock.waits.note(SET, waiting=False, behind=False, missing=True)
    assert clock.waits.trouble(SET, pools=0) == 10.0
    clock.waits.note(SET, waiting=False, behind=False, missing=False)
    assert clock.waits.trouble(SET, pools=0) is None
    assert not clock.should_nudge(1000.0)


def test_a_missing_workload_counts_from_the_time_when_it_was_first_missing() -> None:
    clock = Clock()
    clock.now = 100.0
    clock.waits.note(SET, waiting=False, behind=False, missing=True)
    clock.now = 105.0
    clock.waits.note(SET, waiting=False, behind=False, missing=True)
    assert clock.waits.trouble(SET, pools=0) == 110.0


def test_subjects_that_are_gone_are_forgotten() -> None:
    clock = Clock()
    clock.waits.restart(SET)
    clock.waits.keep({SET})
    assert len(clock.waits) == 1
    clock.waits.keep(set())
    assert len(clock.waits) == 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ((NOW - timedelta(seconds=599)).isoformat(), True),
        ((NOW - timedelta(seconds=600)).isoformat(), False),
        ("2026-06-01T00:00:00Z", True),
        ("2026-06-01T00:00:00", False),
        ("yesterday", False),
        (7, False),
        (None, False),
    ],
)
def test_the_annotation_of_another_leader_prevents_a_nudge(text: Any, *, expected: bool) -> None:
    subject = yurt_app_set()
    subject["metadata"]["annotations"] = {NUDGED_ANNOTATION: text}
    assert nudged_lately(subject, now=NOW, seconds=600.0) is expected
