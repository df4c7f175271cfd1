"""Statuses that native interpreters report."""

from fleethook.engines.interpret.native.native_kinds import NATIVE
from fleethook.model.karmada import Operation


def test_empty_status_is_reported_with_its_zeros() -> None:
    """Karmada's types always write these members."""
    annotated = {"metadata": {"annotations": {"resourcetemplate.karmada.io/generation": "2"}}, "status": {}}
    found = {gvk.kind: rules[Operation.STATUS](annotated) for gvk, rules in NATIVE.items() if Operation.STATUS in rules}
    assert found["PodDisruptionBudget"] == {
        "disruptionsAllowed": 0, "expectedPods": 0, "desiredHealthy": 0, "currentHealthy": 0,
    }  # fmt: skip
    assert found["HorizontalPodAutoscaler"] == {"desiredReplicas": 0}
    assert found["ReplicaSet"] == {"resourceTemplateGeneration": 2, "replicas": 0}
    assert found["Job"] == {}
