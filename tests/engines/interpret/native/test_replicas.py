"""Replica counts of Kubernetes' own kinds."""

from fleethook.engines.interpret.native import replicas


def test_revising_sets_a_missing_count() -> None:
    assert replicas.set_member("spec", "replicas")({"kind": "Deployment"}, 3) == {
        "kind": "Deployment",
        "spec": {"replicas": 3},
    }
