"""The status to report, and the aggregation of many."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleethook.engines.interpret.conventions.health_and_aggregated_status import (
    STANDARD,
    HealthRule,
    aggregate_status,
    judge_health,
    reflect_status,
)

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
        (None, True, "no condition reports a problem"),
        ({}, True, "no condition reports a problem"),
        ("text", True, "no condition reports a problem"),
        ({"conditions": {"Ready": "False"}}, True, "no condition reports a problem"),
        ({"conditions": [None, {"type": 1}, {"type": "Ready"}]}, False, "Ready is empty"),
        ({"observedGeneration": "1"}, True, "no condition reports a problem"),
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
        (conditions(Progressing="True:NewReplicaSetAvailable"), True, "no condition reports a problem"),
        (conditions(Progressing="False:ProgressDeadlineExceeded"), False,
         "Progressing is False (ProgressDeadlineExceeded)"),
        (conditions(Progressing="False"), True, "no condition reports a problem"),
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


TEMPLATE: dict[str, Any] = {"metadata": {"name": "x", "generation": 4}, "spec": {}}


def condition(kind: str, status: str, message: str = "", **members: Any) -> dict[str, Any]:
    return {"type": kind, "status": status, "reason": f"Is{status}", "message": message, **members}


def aggregate(*statuses: Any, template: dict[str, Any] = TEMPLATE, rule: HealthRule = READY) -> Any:
    """Return the aggregated status of the clusters a, b, c…; None stands for a cluster without a status."""
    items = [
        {"clusterName": name} if status is None else {"clusterName": name, "status": status}
        for name, status in zip("abcdef", statuses, strict=False)
    ]
    answer = aggregate_status(template, items, rule)
    assert {name: value for name, value in answer.items() if name != "status"} == {
        name: value for name, value in template.items() if name != "status"
    }
    return answer.get("status")


@pytest.mark.parametrize(
    ("document", "status"),
    [
        ({}, None),
        ({"status": None}, None),
        ({"status": "text"}, None),
        ({"status": {"phase": "Up"}, "metadata": {"generation": 2}}, {"phase": "Up"}),
        (
            {"status": {"observedGeneration": 1}, "metadata": {"generation": 2}},
            {"observedGeneration": 1, "generation": 2},
        ),
        (
            {
                "status": {"observedGeneration": 1},
                "metadata": {"generation": 2, "annotations": {"resourcetemplate.karmada.io/generation": "7"}},
            },
            {"observedGeneration": 1, "generation": 2, "resourceTemplateGeneration": 7},
        ),
        (
            {
                "status": {"observedGeneration": 1},
                "metadata": {"annotations": {"resourcetemplate.karmada.io/generation": "x"}},
            },
            {"observedGeneration": 1},
        ),
    ],
)
def test_the_reported_status_is_complete_and_has_the_generations(document: Any, status: Any) -> None:
    assert reflect_status(document) == status


@pytest.mark.parametrize("statuses", [(), (None,), ({}, None), ("text",)])
def test_without_a_status_the_known_one_stays(statuses: tuple[Any, ...]) -> None:
    known = TEMPLATE | {"status": {"phase": "Up"}}
    assert aggregate(*statuses, template=known) == {"phase": "Up"}


def test_counters_are_sums_and_other_members_those_of_an_unhealthy_cluster() -> None:
    up = {"phase": "Up", "readyReplicas": 2, "revision": 7, "nodes": ["a"], "conditions": [condition("Ready", "True")]}
    down = {
        "phase": "Down",
        "revision": 3,
        "jobs": {"failed": 1, "name": "j"},
        "conditions": [condition("Ready", "False")],
    }
    found = aggregate(up, down, up)
    del found["conditions"]
    assert found == {"phase": "Down", "revision": 3, "jobs": {"failed": 1, "name": "j"}, "readyReplicas": 4}
    assert aggregate(up, up)["phase"] == "Up"


def test_counters_are_only_integers_and_may_be_named() -> None:
    assert aggregate({"ready": True, "count": 1, "total": "1"}, {"ready": False, "count": 2, "total": "2"}) == {
        "ready": True, "count": 3, "total": "1",
    }  # fmt: skip
    items = [{"clusterName": name, "status": {"backups": 2, "port": 80}} for name in "ab"]
    found = aggregate_status(TEMPLATE, items, READY, frozenset({"backups"}))
    assert found["status"] == {"backups": 4, "port": 80}


@pytest.mark.parametrize(
    ("statuses", "known", "observed"),
    [
        ([(2, 2, 4), (9, 9, 4)], None, 4),
        ([(2, 2, 4), (8, 9, 4)], 3, 3),
        ([(2, 2, 4), (9, 9, 3)], None, None),
        ([(2, 2, 4), None], 3, 3),
        ([(2, 2, 5)], None, 4),
    ],
)
def test_the_generation_is_observed_once_every_cluster_has_observed_it(
    statuses: list[Any], known: Any, observed: int | None
) -> None:
    names = ("observedGeneration", "generation", "resourceTemplateGeneration")
    template = TEMPLATE | ({} if known is None else {"status": {"observedGeneration": known}})
    reported = [None if one is None else dict(zip(names, one, strict=True)) for one in statuses]
    expected = None if observed is None else {"observedGeneration": observed}
    assert aggregate(*reported, template=template) == expected


def test_a_condition_is_the_worst_of_all_clusters_and_its_message_names_them() -> None:
    good, unknown = condition("Ready", "True", "up", observedGeneration=3), condition("Ready", "Unknown", "starting")
    bad = condition("Ready", "False", "no Secret", lastTransitionTime="2026-08-01T00:00:00Z")
    found = aggregate(*({"conditions": [one]} for one in (good, unknown, bad)))
    assert found["conditions"] == [bad | {"message": "b: starting; c: no Secret"}]
    assert aggregate({"conditions": [good]}, {"conditions": [good]})["conditions"] == [condition("Ready", "True", "up")]


def test_a_condition_that_a_cluster_does_not_report_is_unknown_unless_it_is_a_bad_one() -> None:
    statuses = [{"conditions": [condition("Ready", "True"), condition("Stalled", "False")]}, None]
    ready, stalled = aggregate(*statuses)["conditions"]
    assert (ready["status"], ready["reason"], ready["message"]) == (
        "Unknown",
        "NotReported",
        "1 of 2 clusters report it",
    )
    assert stalled["status"] == "False"


@pytest.mark.parametrize("kind", ["Stalled", "Failed", "Reconciling", "DiskPressure", "SyncFailed", "NotReady", "Odd"])
def test_the_bad_state_of_some_conditions_is_true(kind: str) -> None:
    rule = HealthRule(must_be_true=("Ready",), must_not_be_true=("Odd",))
    statuses = [{"conditions": [condition(kind, "False")]}, {"conditions": [condition(kind, "True", "why")]}]
    (found,) = aggregate(*statuses, rule=rule)["conditions"]
    assert (found["status"], found["message"]) == ("True", "b: why")


def test_a_message_has_at_most_the_characters_that_schemas_allow() -> None:
    statuses = [{"conditions": [condition("Ready", "False", "x" * 20_000)]}] * 2
    assert len(aggregate(*statuses)["conditions"][0]["message"]) == 32_768


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["conditions", "readyReplicas", "phase", "type", "status"]), inner, max_size=3
        )
    ),
    max_leaves=8,
)


@given(st.lists(st.dictionaries(st.sampled_from(["clusterName", "status", "health"]), _VALUES), max_size=4))
def test_any_items_are_aggregated_and_a_second_time_changes_nothing(items: list[dict[str, Any]]) -> None:
    once = aggregate_status(TEMPLATE, items)
    assert aggregate_status(once, items) == once
