"""Health of Kubernetes' own kinds; tests/conformance covers the cases of Karmada."""

from typing import Any

import pytest

from fleethook.engines.interpret.native import health


@pytest.mark.parametrize(
    ("conditions", "healthy"),
    [([], True), ([("Complete", "True")], True), ([("Failed", "True")], False), ([("Failed", "False")], True),
     ([("FailureTarget", "True")], False), ([("Suspended", "True")], True)],
)  # fmt: skip
def test_job_is_healthy_until_it_fails(conditions: list[tuple[str, str]], healthy: bool) -> None:
    listed = [{"type": kind, "status": status} for kind, status in conditions]
    assert health.job({"status": {"conditions": listed}}) is healthy


@pytest.mark.parametrize(
    ("spec", "status", "generation", "healthy"),
    [
        ({}, {"availableReplicas": 0}, 0, True),
        ({"replicas": 2}, {"availableReplicas": 2}, 0, True),
        ({"replicas": 2}, {"availableReplicas": 1}, 0, False),
        ({"replicas": 2}, {"availableReplicas": 2}, 3, False),
    ],
)
def test_replica_set_is_healthy_once_all_replicas_are_available(
    spec: Any, status: Any, generation: int, healthy: bool
) -> None:
    assert health.replica_set({"metadata": {"generation": generation}, "spec": spec, "status": status}) is healthy


@pytest.mark.parametrize(
    ("spec", "status", "healthy"),
    [
        ({}, {}, True),
        ({"replicas": 2}, {"updatedReplicas": 1, "availableReplicas": 2}, False),
        ({"replicas": 2}, {"updatedReplicas": 2, "availableReplicas": 1}, False),
        ({"replicas": 2}, {"updatedReplicas": 2, "availableReplicas": 2, "observedGeneration": 1}, False),
        ({"replicas": 2}, {"updatedReplicas": 2, "availableReplicas": 2}, True),
    ],
)
def test_workload_is_healthy_once_all_replicas_are_updated_and_available(spec: Any, status: Any, healthy: bool) -> None:
    assert health.deployment({"spec": spec, "status": status}) is healthy
    assert health.stateful_set({"spec": spec, "status": status}) is healthy
