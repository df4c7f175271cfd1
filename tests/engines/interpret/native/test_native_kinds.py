"""The table of native interpreters. tests/conformance has Karmada's cases."""

from typing import Any

import pytest

from fleethook.engines.interpret.native.native_kinds import NATIVE, find_native
from fleethook.interpret.interpreter import InterpretError
from fleethook.model.gvk import GroupVersionKind
from fleethook.model.karmada import Operation

STATEFUL_SET = GroupVersionKind("apps", "v1", "StatefulSet")


def test_native_table_has_karmadas_kinds_and_operations() -> None:
    """The table is Karmada's, with health of Job and CronJob, and dependencies of PersistentVolume."""
    assert len(NATIVE) == 16
    assert sum(len(rules) for rules in NATIVE.values()) == 59
    assert find_native(GroupVersionKind("x", "v1", "Y"), Operation.HEALTH) is None
    for operation in (Operation.STATUS, Operation.PRUNE):
        assert find_native(GroupVersionKind("x", "v1", "Y"), operation) is not None


def test_stateful_set_rollout_is_observed_end_to_end() -> None:
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
    ("kind", "operation", "document"),
    [
        ("Pod", Operation.HEALTH, {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": True}]}}),
        ("Job", Operation.HEALTH, {"status": {"conditions": [{"type": "Failed", "status": True}]}}),
        ("Job", Operation.STATUS, {"status": {"active": "1"}}),
        ("Job", Operation.STATUS, {"status": {"conditions": ["Failed"]}}),
        ("PodDisruptionBudget", Operation.STATUS, {"status": {"disruptedPods": []}}),
    ],
)
def test_malformed_object_is_an_error_as_in_karmada(kind: str, operation: Operation, document: Any) -> None:
    (rule,) = (rules[operation] for gvk, rules in NATIVE.items() if gvk.kind == kind)
    with pytest.raises(InterpretError):
        rule(document)
