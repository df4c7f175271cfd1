"""Health by the standard conditions; tests/conformance/kstatus.yaml compares with kstatus."""

from typing import Any

import msgspec
import pytest

from fleethook.engines.interpret.conventions.health import STANDARD, HealthRule, judge_health

READY = HealthRule(must_be_true=("Ready",))


def conditions(**statuses: str) -> dict[str, Any]:
    """Return a status with conditions; a name ``Ready_2`` is about generation 2, a status ``False:Reason`` has a reason."""
    found = []
    for name, written in statuses.items():
        kind, _, generation = name.partition("_")
        status, _, reason = written.partition(":")
        one: dict[str, Any] = {"type": kind, "status": status, "reason": reason}
        found.append(one | ({"observedGeneration": int(generation)} if generation else {}))
    return {"conditions": found}


@pytest.mark.parametrize(
    ("status", "healthy", "reason"),
    [
        (None, True, "no condition says otherwise"),
        ({}, True, "no condition says otherwise"),
        ("text", True, "no condition says otherwise"),
        ({"conditions": {"Ready": "False"}}, True, "no condition says otherwise"),
        ({"conditions": [None, {"type": 1}, {"type": "Ready"}]}, False, "Ready is empty"),
        ({"observedGeneration": "1"}, True, "no condition says otherwise"),
        ({"observedGeneration": 1}, False, "observedGeneration is 1, generation is 2"),
        (conditions(Ready="True"), True, "Ready is True"),
        (conditions(Ready="False:SecretMissing"), False, "Ready is False (SecretMissing)"),
        (conditions(Ready="Unknown"), False, "Ready is Unknown"),
        (conditions(Ready_1="True"), False, "Ready is about generation 1, not 2"),
        (conditions(Ready_2="True"), True, "Ready is True"),
        (conditions(Available="False", Ready="True"), True, "Ready is True"),
        (conditions(Available="False"), False, "Available is False"),
        (conditions(Ready="True", Reconciling="True"), False, "Reconciling is True"),
        (conditions(Ready="True", Stalled="True:NoAccess"), False, "Stalled is True (NoAccess)"),
        (conditions(Ready="True", Failed="True"), False, "Failed is True"),
        (conditions(Ready="True", Degraded="True"), False, "Degraded is True"),
        (conditions(Ready="True", Stalled="False", Failed="False", Reconciling="False"), True, "Ready is True"),
        (conditions(Progressing="True"), False, "Progressing is True"),
        (conditions(Progressing="True", Available="True"), True, "Available is True"),
        (conditions(Progressing="True:NewReplicaSetAvailable"), True, "no condition says otherwise"),
        (conditions(Progressing="False:ProgressDeadlineExceeded"), False,
         "Progressing is False (ProgressDeadlineExceeded)"),
        (conditions(Progressing="False"), True, "no condition says otherwise"),
    ],
)  # fmt: skip
def test_standard_conditions_decide(status: Any, healthy: bool, reason: str) -> None:
    document = {"metadata": {"generation": 2}, "status": status}
    assert judge_health(document) == (healthy, reason)


def test_an_object_that_is_being_deleted_is_unhealthy() -> None:
    document = {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "status": conditions(Ready="True")}
    assert judge_health(document) == (False, "the object is being deleted")


@pytest.mark.parametrize("member", ["suspend", "suspended", "pause", "paused"])
@pytest.mark.parametrize(
    ("status", "healthy"),
    [
        ({"observedGeneration": 2} | conditions(Ready="False:ReconciliationSuspended"), True),
        ({"observedGeneration": 1} | conditions(Ready="True"), True),
        ({"observedGeneration": 1} | conditions(Ready="False:NoAccess"), False),
        (conditions(Ready="Unknown", Suspended="True"), True),
        ({"observedGeneration": 2} | conditions(Failed="True"), False),
        ({}, True),
        (None, True),
    ],
)
@pytest.mark.parametrize("rule", [READY, STANDARD])
def test_an_object_that_is_paused_is_healthy_unless_its_status_reports_a_failure(
    rule: HealthRule, member: str, status: Any, healthy: bool
) -> None:
    document = {"metadata": {"generation": 2}, "spec": {member: True}, "status": status}
    assert judge_health(document, rule).healthy is healthy
    document["spec"] = {member: False}
    assert not judge_health(document, READY).healthy


@pytest.mark.parametrize(
    ("status", "healthy"),
    [
        (conditions(Ready="Unknown", Paused="True"), True),
        (conditions(Ready="False:Suspended", Suspended="True"), True),
        (conditions(Ready="Unknown", Paused="False"), False),
        (conditions(Ready="False:NoAccess", Paused="True"), False),
    ],
)
def test_a_condition_may_report_that_an_object_is_paused(status: Any, healthy: bool) -> None:
    assert judge_health({"status": status}, READY).healthy is healthy


@pytest.mark.parametrize(("phase", "healthy"), [("Paused", True), ("Failed", False), (None, True)])
def test_a_paused_object_may_have_any_phase_that_is_no_failure(phase: Any, healthy: bool) -> None:
    rule = HealthRule(values={"/status/phase": ("Running",)})
    assert judge_health({"spec": {"paused": True}, "status": {"phase": phase}}, rule).healthy is healthy


@pytest.mark.parametrize(("value", "healthy"), [("true", True), ("", True), ("false", False), (None, False)])
def test_an_annotation_pauses_an_object_if_the_rule_names_it(value: Any, healthy: bool) -> None:
    rule = HealthRule(must_be_true=("Ready",), paused=("/metadata/annotations/example.com~1paused",))
    document = {"metadata": {"annotations": {"example.com/paused": value}}, "status": conditions(Ready="Unknown")}
    assert judge_health(document, rule).healthy is healthy
    assert not judge_health(document, READY).healthy


@pytest.mark.parametrize(
    ("rule", "status", "healthy", "reason"),
    [
        ({"must_be_true": ["Ready"]}, {}, False, "Ready is missing"),
        ({"must_be_true": ["Ready"]}, conditions(Ready="True", Reconciling="True"), True, "Ready is True"),
        ({"must_be_true": ["A", "B"]}, conditions(A="True", B="False:No"), False, "B is False (No)"),
        ({"must_be_true": ["A", "B"]}, conditions(A="True", B="True"), True, "A is True, B is True"),
        ({"must_be_true": ["A"]}, conditions(A="True", Stalled="True"), False, "Stalled is True"),
        ({"must_not_be_false": ["Succeeded"]}, conditions(Succeeded="Unknown"), True, "Succeeded is not False"),
        ({"must_not_be_false": ["Succeeded"]}, conditions(Succeeded="False"), False, "Succeeded is False"),
        ({"must_not_be_true": ["Bad"]}, conditions(Bad="True", Ready="True"), False, "Bad is True"),
        ({"must_not_be_true": ["Bad"]}, conditions(Ready="False"), False, "Ready is False"),
        ({"values": {"/status/phase": ["Running"]}}, {"phase": "Running"}, True, "/status/phase is healthy"),
        ({"values": {"/status/phase": ["Running"]}}, {"phase": "Lost"}, False, "/status/phase is 'Lost'"),
        ({"values": {"/status/phase": ["Running"]}}, {}, False, "/status/phase is missing"),
        ({"values": {"/status/phase": ["Running", ""]}}, {}, True, "/status/phase is healthy"),
        ({"values": {"/status/ready": [True]}}, {"ready": 1}, False, "/status/ready is 1"),
        ({"values": {"/status/of/*/up": [True]}}, {"of": [{"up": True}, {"up": False}]}, False,
         "/status/of/*/up is False"),
    ],
)  # fmt: skip
def test_a_rule_names_what_decides(rule: Any, status: Any, healthy: bool, reason: str) -> None:
    assert judge_health({"status": status}, msgspec.convert(rule, HealthRule)) == (healthy, reason)


def test_the_standard_rule_names_nothing() -> None:
    assert not STANDARD.decides
