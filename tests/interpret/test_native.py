"""Where the native interpreters answer otherwise than upstream's (docs/interpreters.md), and what no case covers."""

from typing import Any

import pytest

from app.interpret.access import InterpretError
from app.interpret.native import NATIVE, aggregate, dependencies, find_native, health, pods, prune, replicas, retain
from app.model.gvk import GroupVersionKind
from app.model.karmada import Operation

DEPLOYMENT = GroupVersionKind("apps", "v1", "Deployment")
STATEFUL_SET = GroupVersionKind("apps", "v1", "StatefulSet")


def test_the_matrix_of_kinds_and_operations() -> None:
    """Upstream's, with health of Job and CronJob added; status and packing of every kind beside."""
    rows = {
        f"{kind.kind}": "".join(sorted(operation.value[0] + operation.value[-1] for operation in rules))
        for kind, rules in NATIVE.items()
    }
    assert len(rows) == 16
    assert sum(len(rules) for rules in NATIVE.values()) == 58
    assert find_native(GroupVersionKind("x", "v1", "Y"), Operation.HEALTH) is None
    for operation in (Operation.STATUS, Operation.PRUNE):
        assert find_native(GroupVersionKind("x", "v1", "Y"), operation) is not None


def test_a_stateful_set_is_seen_as_rolled_out_end_to_end() -> None:
    observed = {
        "apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": {"name": "s", "generation": 7, "annotations": {"resourcetemplate.karmada.io/generation": "2"}},
        "status": {"replicas": 1, "readyReplicas": 1, "observedGeneration": 7},
    }  # fmt: skip
    reflect = find_native(STATEFUL_SET, Operation.STATUS)
    merge = find_native(STATEFUL_SET, Operation.AGGREGATE_STATUS)
    assert reflect is not None
    assert merge is not None
    template = {"metadata": {"name": "s", "generation": 2}, "status": {"observedGeneration": 1}}
    merged = merge(template, [{"clusterName": "m", "status": reflect(observed)}])
    assert merged["status"]["observedGeneration"] == 2
    lagging = {**observed, "status": {**observed["status"], "observedGeneration": 6}}  # type: ignore[dict-item]
    assert merge(template, [{"clusterName": "m", "status": reflect(lagging)}])["status"]["observedGeneration"] == 1


@pytest.mark.parametrize(
    ("conditions", "well"),
    [([], True), ([("Complete", "True")], True), ([("Failed", "True")], False), ([("Failed", "False")], True),
     ([("FailureTarget", "True")], False), ([("Suspended", "True")], True)],
)  # fmt: skip
def test_a_job_is_well_until_it_fails(conditions: list[tuple[str, str]], well: bool) -> None:
    listed = [{"type": kind, "status": status} for kind, status in conditions]
    assert health.job({"status": {"conditions": listed}}) is well


def test_revising_sets_a_count_that_is_not_there() -> None:
    assert replicas.set_member("spec", "replicas")({"kind": "Deployment"}, 3) == {
        "kind": "Deployment",
        "spec": {"replicas": 3},
    }


def test_a_service_keeps_its_addresses_and_node_ports() -> None:
    desired = {
        "spec": {"type": "NodePort", "ports": [{"port": 80, "name": "renamed"}, {"port": 81, "nodePort": 30081}]}
    }
    observed = {
        "spec": {
            "clusterIP": "10.0.0.7", "clusterIPs": ["10.0.0.7", "fd00::7"], "healthCheckNodePort": 31000,
            "ports": [{"port": 80, "protocol": "TCP", "nodePort": 30080}, {"port": 81, "protocol": "TCP", "nodePort": 30999}],
        }
    }  # fmt: skip
    kept = retain.service(desired, observed)["spec"]
    assert (kept["clusterIP"], kept["clusterIPs"], kept["healthCheckNodePort"]) == (
        "10.0.0.7", ["10.0.0.7", "fd00::7"], 31000,
    )  # fmt: skip
    assert kept["ports"] == [{"port": 80, "name": "renamed", "nodePort": 30080}, {"port": 81, "nodePort": 30081}]
    cluster_ip = retain.service({"spec": {"ports": [{"port": 80}]}}, observed)["spec"]
    assert cluster_ip["ports"] == [{"port": 80}]


def test_a_service_account_keeps_both_of_two_adjacent_tokens_out() -> None:
    secrets = [{"name": "sa-token-a"}, {"name": "sa-token-b"}, {"name": "mine"}]
    document = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "sa"}, "secrets": secrets}
    assert prune.prune(document)["secrets"] == [{"name": "mine"}]


def test_packing_goes_by_the_group_too() -> None:
    labels = {"job-name": "x", "controller-uid": "y"}
    template = {"metadata": {"labels": labels}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {}, "spec": {"template": template}}
    assert prune.prune(job)["spec"]["template"]["metadata"]["labels"] == {}
    other = {**job, "apiVersion": "batch.volcano.sh/v1alpha1"}
    assert prune.prune(other)["spec"]["template"]["metadata"]["labels"] == labels


def container(cpu: str, **fields: Any) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": {"cpu": cpu}}, **fields}


def asked(**spec: Any) -> Any:
    found = pods.requirements({"spec": spec})
    return (found or {}).get("resourceRequest")


def test_sidecars_run_beside_what_starts_after_them() -> None:
    sidecar = container("100m", restartPolicy="Always")
    assert asked(initContainers=[sidecar], containers=[container("1")]) == {"cpu": "1100m"}
    assert asked(initContainers=[sidecar, container("2")], containers=[container("1")]) == {"cpu": "2100m"}
    assert asked(initContainers=[container("2"), sidecar], containers=[container("1")]) == {"cpu": "2"}


def test_what_a_pod_asks_for_as_a_whole_counts_instead_of_its_containers() -> None:
    resources = {"requests": {"cpu": "3"}, "limits": {"memory": "1Gi", "example.com/gpu": "1"}}
    assert asked(resources=resources, containers=[container("1")], overhead={"cpu": "10m"}) == {
        "cpu": "3010m", "memory": "1Gi",
    }  # fmt: skip


def test_limits_stand_in_for_requests_that_are_missing() -> None:
    limited = {"name": "c", "resources": {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}}}
    assert asked(containers=[limited]) == {"cpu": "1", "memory": "1Gi"}


def test_resources_that_no_scheduler_counts_are_left_out() -> None:
    requests = {"cpu": "0", "pods": "1", "unknown": "5", "example.com/gpu": "2", "hugepages-2Mi": "4Mi"}
    assert asked(containers=[{"resources": {"requests": requests}}]) == {
        "example.com/gpu": "2", "hugepages-2Mi": "4Mi", "pods": "1",
    }  # fmt: skip


def test_dependencies_come_in_the_same_order_each_time() -> None:
    volumes = [{"configMap": {"name": name}} for name in ("c", "a", "b")] + [{"secret": {"secretName": "s"}}]
    document = {"metadata": {"namespace": "n"}, "spec": {"template": {"spec": {"volumes": volumes}}}}
    assert [one["name"] for one in dependencies.workload(document)] == ["a", "b", "c", "s"]


def test_nothing_given_is_changed_by_any_of_them() -> None:
    """Interpreters are pure: what they return shares what is unchanged, and changes nothing of what they were given."""
    template: dict[str, Any] = {"metadata": {"generation": 1}, "status": {"replicas": 1}}
    aggregate.workload("replicas")(template, [{"clusterName": "m", "status": {"replicas": 5}}])
    assert template == {"metadata": {"generation": 1}, "status": {"replicas": 1}}


@pytest.mark.parametrize(
    ("spec", "status", "generation", "well"),
    [
        ({}, {"availableReplicas": 0}, 0, True),
        ({"replicas": 2}, {"availableReplicas": 2}, 0, True),
        ({"replicas": 2}, {"availableReplicas": 1}, 0, False),
        ({"replicas": 2}, {"availableReplicas": 2}, 3, False),
    ],
)
def test_a_replica_set_is_well_once_all_are_available(spec: Any, status: Any, generation: int, well: bool) -> None:
    assert health.replica_set({"metadata": {"generation": generation}, "spec": spec, "status": status}) is well


@pytest.mark.parametrize(
    ("spec", "status", "well"),
    [
        ({}, {}, True),
        ({"replicas": 2}, {"updatedReplicas": 1, "availableReplicas": 2}, False),
        ({"replicas": 2}, {"updatedReplicas": 2, "availableReplicas": 1}, False),
        ({"replicas": 2}, {"updatedReplicas": 2, "availableReplicas": 2, "observedGeneration": 1}, False),
        ({"replicas": 2}, {"updatedReplicas": 2, "availableReplicas": 2}, True),
    ],
)
def test_a_workload_is_well_once_all_are_new_and_available(spec: Any, status: Any, well: bool) -> None:
    assert health.workload({"spec": spec, "status": status}) is well


def test_a_pod_keeps_what_its_cluster_decided() -> None:
    mounts = [{"name": "token", "mountPath": "/var/run/token"}]
    desired = {"spec": {"containers": [{"name": "a"}, {"name": "b"}], "initContainers": [{"name": "i"}]}}
    observed = {
        "spec": {
            "nodeName": "n1",
            "volumes": [{"name": "token"}],
            "containers": [{"name": "a", "volumeMounts": mounts}, {"name": "b"}, {"name": "other"}],
            "initContainers": [{"name": "i", "volumeMounts": mounts}],
        }
    }
    assert retain.pod(desired, observed)["spec"] == {
        "nodeName": "n1",
        "volumes": [{"name": "token"}],
        "containers": [{"name": "a", "volumeMounts": mounts}, {"name": "b"}],
        "initContainers": [{"name": "i", "volumeMounts": mounts}],
    }
    assert retain.pod(desired, {"spec": {}}) is desired
    assert retain.pod({"spec": {}}, observed)["spec"] == {"nodeName": "n1", "volumes": [{"name": "token"}]}


def test_a_volume_keeps_its_claim_and_a_job_its_selector() -> None:
    claim = {"kind": "PersistentVolumeClaim", "name": "c"}
    assert retain.persistent_volume({"spec": {}}, {"spec": {"claimRef": claim}}) == {"spec": {"claimRef": claim}}
    unbound = {"spec": {}}
    assert retain.persistent_volume(unbound, {"spec": {}}) is unbound
    uid = {"controller-uid": "u"}
    observed = {"spec": {"selector": {"matchLabels": uid}, "template": {"metadata": {"labels": {"app": "x", **uid}}}}}
    assert retain.job({"spec": {"template": {"metadata": {"labels": {"app": "x"}}}}}, observed) == observed
    assert retain.job(unbound, {"spec": {}}) is unbound


def test_disrupted_pods_are_those_of_now() -> None:
    template = {"status": {"disruptedPods": {"gone/p": "2024-01-01T00:00:00Z"}, "observedGeneration": 3}}
    items = [
        {"clusterName": "a", "status": {"disruptedPods": {"p": "2024-01-02T00:00:00Z"}, "currentHealthy": 2}},
        {"clusterName": "b"},
    ]
    assert aggregate.pod_disruption_budget(template, items)["status"] == {
        "disruptedPods": {"a/p": "2024-01-02T00:00:00Z"}, "observedGeneration": 3,
        "currentHealthy": 2, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0,
    }  # fmt: skip
    assert "disruptedPods" not in aggregate.pod_disruption_budget(template, [])["status"]


@pytest.mark.parametrize(
    ("kind", "operation", "document"),
    [
        ("Pod", Operation.HEALTH, {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": True}]}}),
        ("Job", Operation.HEALTH, {"status": {"conditions": [{"type": "Failed", "status": True}]}}),
        ("Job", Operation.STATUS, {"status": {"active": "1"}}),
        ("Job", Operation.STATUS, {"status": {"conditions": ["Failed"]}}),
        ("PodDisruptionBudget", Operation.STATUS, {"status": {"disruptedPods": []}}),
    ],
)
def test_a_malformed_object_is_an_error_as_in_karmada(kind: str, operation: Operation, document: Any) -> None:
    (rule,) = (rules[operation] for gvk, rules in NATIVE.items() if gvk.kind == kind)
    with pytest.raises(InterpretError):
        rule(document)


def test_volumes_of_another_type_are_not_kept() -> None:
    with pytest.raises(InterpretError):
        retain.pod({"spec": {}}, {"spec": {"volumes": "all"}})


def test_an_empty_status_is_reported_with_its_zeros() -> None:
    """Karmada's types always write these members."""
    annotated = {"metadata": {"annotations": {"resourcetemplate.karmada.io/generation": "2"}}, "status": {}}
    found = {gvk.kind: rules[Operation.STATUS](annotated) for gvk, rules in NATIVE.items() if Operation.STATUS in rules}
    assert found["PodDisruptionBudget"] == {
        "disruptionsAllowed": 0, "expectedPods": 0, "desiredHealthy": 0, "currentHealthy": 0,
    }  # fmt: skip
    assert found["HorizontalPodAutoscaler"] == {"desiredReplicas": 0}
    assert found["ReplicaSet"] == {"resourceTemplateGeneration": 2, "replicas": 0}
    assert found["Job"] == {}
