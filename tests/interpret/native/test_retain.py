"""Values of the member cluster that fleethook retains beyond Karmada, or otherwise (docs/interpreters.md)."""

import pytest

from app.interpret.access import InterpretError
from app.interpret.native import retain


def test_service_keeps_its_addresses_and_node_ports() -> None:
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


def test_pod_keeps_node_service_account_and_volumes() -> None:
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


def test_volume_keeps_its_claim_and_job_its_selector() -> None:
    claim = {"kind": "PersistentVolumeClaim", "name": "c"}
    assert retain.persistent_volume({"spec": {}}, {"spec": {"claimRef": claim}}) == {"spec": {"claimRef": claim}}
    unbound = {"spec": {}}
    assert retain.persistent_volume(unbound, {"spec": {}}) is unbound
    uid = {"controller-uid": "u"}
    observed = {"spec": {"selector": {"matchLabels": uid}, "template": {"metadata": {"labels": {"app": "x", **uid}}}}}
    assert retain.job({"spec": {"template": {"metadata": {"labels": {"app": "x"}}}}}, observed) == observed
    assert retain.job(unbound, {"spec": {}}) is unbound


def test_volumes_of_a_wrong_type_are_an_error() -> None:
    with pytest.raises(InterpretError):
        retain.pod({"spec": {}}, {"spec": {"volumes": "all"}})
