"""Aggregated statuses of Kubernetes' own kinds; a status that is up to date makes no patch."""

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleethook.engines.interpret.native import aggregate as native_aggregate
from fleethook.engines.interpret.native.native_kinds import NATIVE
from fleethook.model.gvk import GroupVersionKind
from fleethook.model.karmada import Operation
from fleethook.patch import diff

AGGREGATED: Final = [kind for kind, rules in NATIVE.items() if Operation.AGGREGATE_STATUS in rules]
COUNTERS: Final = (
    "replicas", "readyReplicas", "updatedReplicas", "availableReplicas", "unavailableReplicas", "currentReplicas",
    "currentNumberScheduled", "desiredNumberScheduled", "numberAvailable", "numberMisscheduled", "numberReady",
    "updatedNumberScheduled", "numberUnavailable", "active", "succeeded", "failed", "currentHealthy",
    "desiredHealthy", "disruptionsAllowed", "expectedPods", "desiredReplicas", "observedGeneration", "generation",
    "resourceTemplateGeneration",
)  # fmt: skip
TIMES: Final = st.sampled_from(["2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"])
CONTAINERS: Final = st.lists(
    st.fixed_dictionaries(
        {"name": st.just("app"), "ready": st.booleans()},
        optional={"state": st.sampled_from([{}, {"running": {"startedAt": "2026-01-01T00:00:00Z"}}])},
    ),
    max_size=2,
)
ADDRESSES: Final = st.lists(
    st.fixed_dictionaries(
        {}, optional={"ip": st.sampled_from(["10.0.0.1", ""]), "hostname": st.sampled_from(["a.example.com", ""])}
    ),
    max_size=2,
)


def statuses(kind: GroupVersionKind) -> st.SearchStrategy[dict[str, Any]]:
    """Return a strategy for statuses with members of the kind and of other kinds."""
    members: dict[str, st.SearchStrategy[Any]] = dict.fromkeys(COUNTERS, st.integers(0, 2))
    if kind.kind == "CronJob":
        members["active"] = st.lists(st.just({"name": "run"}), max_size=1)
    members |= {
        "lastScheduleTime": TIMES, "startTime": TIMES, "completionTime": TIMES,
        "phase": st.sampled_from(["Pending", "Running", "Succeeded", "Bound", "Lost", "Available"]),
        "containerStatuses": CONTAINERS, "initContainerStatuses": CONTAINERS,
        "loadBalancer": st.fixed_dictionaries({}, optional={"ingress": ADDRESSES}),
        "disruptedPods": st.dictionaries(st.sampled_from(["p", "q"]), TIMES, max_size=1),
        "conditions": st.lists(
            st.fixed_dictionaries({"type": st.sampled_from(["Complete", "Failed", "Ready"]), "status": st.just("True")}),
            max_size=1,
        ),
    }  # fmt: skip
    return st.fixed_dictionaries({}, optional=members)


ALWAYS: Final[dict[str, dict[str, Any]]] = {
    "DaemonSet": {
        "currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0,
    },
    "ReplicaSet": {"replicas": 0},
    "StatefulSet": {"replicas": 0, "availableReplicas": 0},
    "PodDisruptionBudget": {
        "currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0,
    },
    "HorizontalPodAutoscaler": {"desiredReplicas": 0, "currentMetrics": None},
    "Service": {"loadBalancer": {}},
    "Ingress": {"loadBalancer": {}},
}  # fmt: skip
"""Members that the API's types always write."""


def drop_empty(value: Any) -> Any:
    """Return a status without the empty members that Go's types leave out."""
    if isinstance(value, dict):
        return {name: drop_empty(member) for name, member in value.items() if member not in ({}, [])}
    return [drop_empty(element) for element in value] if isinstance(value, list) else value


@pytest.mark.parametrize("kind", AGGREGATED, ids=[kind.kind for kind in AGGREGATED])
@given(data=st.data())
def test_aggregating_again_makes_no_patch(kind: GroupVersionKind, data: st.DataObject) -> None:
    aggregate = NATIVE[kind][Operation.AGGREGATE_STATUS]
    items = [
        {"clusterName": f"m{index}", **({} if status is None else {"status": status})}
        for index, status in enumerate(data.draw(st.lists(st.none() | statuses(kind), max_size=3)))
    ]
    template: dict[str, Any] = {
        "apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "x", "generation": 1},
        "spec": {"type": "LoadBalancer"},
    }  # fmt: skip
    if data.draw(st.booleans()):
        template["status"] = data.draw(statuses(kind))
    once = aggregate(template, items)
    assert diff(once, aggregate(once, items)) == []
    for status in (once.get("status", {}), drop_empty(once.get("status", {}))):
        stored = {**once, "status": {**ALWAYS.get(kind.kind, {}), **status}}
        assert diff(stored, aggregate(stored, items)) == []


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("DaemonSet", {"currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0}),
        ("ReplicaSet", {"replicas": 0}),
        ("StatefulSet", {"replicas": 0, "availableReplicas": 0}),
    ],
)  # fmt: skip
def test_zeros_that_the_api_type_always_writes_stay(kind: str, status: dict[str, int]) -> None:
    aggregate = NATIVE[GroupVersionKind("apps", "v1", kind)][Operation.AGGREGATE_STATUS]
    stored = {"kind": kind, "metadata": {"generation": 2}, "status": {**status, "observedGeneration": 1}}
    assert aggregate(stored, []) == {**stored, "status": {**status, "observedGeneration": 2}}
    assert aggregate(stored, [{"clusterName": "silent"}]) is stored


def test_container_statuses_have_the_members_that_the_api_type_always_writes() -> None:
    aggregate = NATIVE[GroupVersionKind("", "v1", "Pod")][Operation.AGGREGATE_STATUS]
    reported = {"phase": "Running", "containerStatuses": [{"name": "app", "ready": True, "restartCount": 3}]}
    assert aggregate({"kind": "Pod"}, [{"clusterName": "m", "status": reported}])["status"] == {
        "phase": "Running",
        "containerStatuses": [
            {"name": "", "state": {}, "lastState": {}, "ready": True, "restartCount": 0, "image": "", "imageID": ""}
        ],
    }


def test_disrupted_pods_of_earlier_statuses_are_removed() -> None:
    template = {"status": {"disruptedPods": {"gone/p": "2024-01-01T00:00:00Z"}, "observedGeneration": 3}}
    items = [
        {"clusterName": "a", "status": {"disruptedPods": {"p": "2024-01-02T00:00:00Z"}, "currentHealthy": 2}},
        {"clusterName": "b"},
    ]
    assert native_aggregate.pod_disruption_budget(template, items)["status"] == {
        "disruptedPods": {"a/p": "2024-01-02T00:00:00Z"}, "observedGeneration": 3,
        "currentHealthy": 2, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0,
    }  # fmt: skip
    assert "disruptedPods" not in native_aggregate.pod_disruption_budget(template, [])["status"]


def test_aggregating_does_not_change_its_arguments() -> None:
    """The result shares unchanged values with the arguments, so interpreters must not change these."""
    template: dict[str, Any] = {"metadata": {"generation": 1}, "status": {"replicas": 1}}
    native_aggregate.workload("replicas")(template, [{"clusterName": "m", "status": {"replicas": 5}}])
    assert template == {"metadata": {"generation": 1}, "status": {"replicas": 1}}


def kinds_of(job: dict[str, Any]) -> list[str]:
    return [one["type"] for one in job["status"].get("conditions", [])]


def test_a_failed_job_ends_when_no_pod_is_active_and_its_counters_never_decrease() -> None:
    failed = {"clusterName": "a", "status": {"failed": 3, "conditions": [{"type": "Failed", "status": "True"}]}}
    active = {"clusterName": "b", "status": {"active": 1, "succeeded": 2, "startTime": "2026-01-01T00:00:00Z"}}
    waiting = native_aggregate.job({"kind": "Job"}, [failed, active])
    assert (kinds_of(waiting), waiting["status"]["active"]) == (["FailureTarget"], 1)
    assert native_aggregate.job(waiting, [failed, active]) is waiting
    # The cluster that failed has left, and the target stays.
    ended = native_aggregate.job(waiting, [{"clusterName": "b", "status": {"succeeded": 1}}])
    assert kinds_of(ended) == ["Failed", "FailureTarget"]
    assert (ended["status"]["failed"], ended["status"]["succeeded"], "startTime" in ended["status"]) == (3, 2, True)
    assert native_aggregate.job(ended, []) is ended


def test_a_complete_job_has_the_times_that_the_api_requires() -> None:
    complete = {"type": "Complete", "status": "True", "lastTransitionTime": "2026-01-03T00:00:00Z"}
    items = [
        {"clusterName": "a", "status": {"conditions": [complete]}},
        {"clusterName": "b", "status": {"conditions": [complete], "startTime": "2026-01-02T00:00:00Z"}},
    ]
    done = native_aggregate.job({"kind": "Job"}, items)["status"]
    assert (done["startTime"], done["completionTime"]) == ("2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z")
    assert [one["type"] for one in done["conditions"]] == ["Complete", "SuccessCriteriaMet"]


def test_containers_of_several_clusters_are_one_as_soon_as_one_has_terminated() -> None:
    ended = {
        "name": "c",
        "ready": False,
        "state": {"terminated": {"exitCode": 0, "finishedAt": "2026-01-01T00:00:00Z"}},
    }
    running = {"name": "c", "ready": True, "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}
    template = {"kind": "Pod", "spec": {"restartPolicy": "Never", "containers": [{"name": "c"}]}}

    def merge(pod: dict[str, Any], *containers: dict[str, Any]) -> dict[str, Any]:
        reports = [{"status": {"phase": "Running", "containerStatuses": [one]}} for one in containers]
        return native_aggregate.pod(pod, reports)

    first = merge(template, ended)
    assert [one["state"] for one in first["status"]["containerStatuses"]] == [ended["state"]]
    assert [one["state"] for one in merge(first, running)["status"]["containerStatuses"]] == [ended["state"]]
    always = {**first, "spec": {"containers": [{"name": "c"}]}}
    both = merge(always, ended, running)["status"]["containerStatuses"]
    assert [(one["name"], one["state"], one["ready"]) for one in both] == [("c", running["state"], False)]


@pytest.mark.parametrize("items", [[], [{"clusterName": "m1"}, {"clusterName": "m2", "status": None}]])
def test_known_addresses_stay_until_a_cluster_reports(items: list[dict[str, Any]]) -> None:
    known = {"spec": {"type": "LoadBalancer"}, "status": {"loadBalancer": {"ingress": [{"ip": "10.0.0.1"}]}}}
    for aggregate in (native_aggregate.service, native_aggregate.ingress):
        assert aggregate(known, items) is known
        gone = aggregate(known, [*items, {"clusterName": "m3", "status": {"loadBalancer": {}}}])
        assert gone["status"] == {"loadBalancer": {}}


def test_the_default_mode_that_the_apiserver_adds_to_an_address_is_no_change() -> None:
    reported = [{"status": {"loadBalancer": {"ingress": [{"ip": "10.0.0.1"}]}}}]
    template = {"kind": "Service", "spec": {"type": "LoadBalancer"}}
    assert native_aggregate.service(template, reported)["status"] == reported[0]["status"]
    stored = {**template, "status": {"loadBalancer": {"ingress": [{"ip": "10.0.0.1", "ipMode": "VIP"}]}}}
    assert native_aggregate.service(stored, reported) is stored
    other = {**template, "status": {"loadBalancer": {"ingress": [{"ip": "10.0.0.1", "ipMode": "Proxy"}]}}}
    assert native_aggregate.service(other, reported)["status"] == reported[0]["status"]
