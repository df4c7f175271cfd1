"""Tests of the detection whether OpenYurt's controller has written a changed template into a workload."""

import copy
from typing import Any

import pytest

from fleethook.cluster.store.store import PartialBuilder
from fleethook.engines.overrider.controller.drift import detect_drift, find_plan
from fleethook.engines.overrider.openyurt.owner_progress import find_lag, has_observed
from fleethook.engines.overrider.plan.plan_cache import PlanCache
from fleethook.engines.overrider.subject.binding import Binding
from fleethook.model.openyurt import YURT_APP_SET
from tests.builders import (
    container,
    entry,
    image,
    overrider,
    patch,
    pod_template,
    rendered,
    store_of,
    workload,
    yurt_app_set,
)

NGINX = "/spec/template/spec/containers/0"
RULE = overrider(entry("hangzhou", items=[image("nginx", "nginx:2.0")]))


def lags(document: dict[str, Any], subject: dict[str, Any], rule: dict[str, Any] | None) -> bool:
    store, plans = store_of(subject, *([rule] if rule else [])), PlanCache()
    binding = Binding("", YURT_APP_SET, "default", "demo")
    plan = find_plan(PartialBuilder().build(document), binding, rule, kind="Deployment", store=store, plans=plans)
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
