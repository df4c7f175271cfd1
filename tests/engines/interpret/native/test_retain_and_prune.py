"""Values of the member cluster that fleethook retains beyond Karmada, or otherwise (docs/interpreters.md)."""

from typing import Any, Final

import pytest

from fleethook.engines.interpret.native import retain_and_prune
from fleethook.interpret.interpreter import InterpretError

OBSERVED: Final = {
    "type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 31000, "ipFamilyPolicy": "PreferDualStack",
    "clusterIP": "10.0.0.7", "clusterIPs": ["10.0.0.7", "fd00::7"], "ipFamilies": ["IPv4", "IPv6"], "loadBalancerClass": "c",
    "ports": [{"port": 80, "protocol": "TCP", "nodePort": 30080}, {"port": 81, "protocol": "TCP", "nodePort": 30999}],
}  # fmt: skip
DUAL: Final = {name: OBSERVED[name] for name in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")}
SINGLE: Final = {
    "clusterIP": "10.0.0.7", "clusterIPs": ["10.0.0.7"], "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
}  # fmt: skip


@pytest.mark.parametrize(
    ("desired", "retained"),
    [
        ({"type": "ExternalName"}, {}),
        ({}, DUAL),
        ({"clusterIP": "10.0.0.8"}, DUAL),
        ({"clusterIP": "None"}, DUAL),
        ({"clusterIP": "None", "clusterIPs": ["None"]}, DUAL),
        ({"type": "NodePort", "clusterIP": "None"}, DUAL),
        ({"ipFamilyPolicy": "SingleStack"}, SINGLE),
        ({"ipFamilies": ["IPv4"], "ipFamilyPolicy": "PreferDualStack"}, DUAL | {"ipFamilyPolicy": "PreferDualStack"}),
        ({"ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"}, SINGLE),
        ({"ipFamilies": ["IPv6"]}, {}),
        ({"type": "LoadBalancer"}, {**DUAL, "loadBalancerClass": "c"}),
        (
            {
                "type": "LoadBalancer",
                "externalTrafficPolicy": "Local",
                "healthCheckNodePort": 32000,
                "loadBalancerClass": "d",
            },
            {**DUAL, "healthCheckNodePort": 31000},
        ),
        ({"type": "NodePort", "externalTrafficPolicy": "Local"}, DUAL),
        (
            {"type": "NodePort", "ports": [{"port": 80, "name": "renamed"}, {"port": 81, "nodePort": 30081}]},
            {**DUAL, "ports": [{"port": 80, "name": "renamed", "nodePort": 30080}, {"port": 81, "nodePort": 30081}]},
        ),
        ({"type": "NodePort", "ports": [{"port": 80}, {"port": 82, "nodePort": 30080}]}, DUAL),
        ({"ports": [{"port": 80}]}, DUAL),
        (
            {
                "type": "LoadBalancer",
                "allocateLoadBalancerNodePorts": False,
                "loadBalancerClass": "c",
                "ports": [{"port": 80}],
            },
            DUAL,
        ),
    ],
)
def test_a_service_keeps_the_addresses_and_ports_that_its_type_has(desired: Any, retained: Any) -> None:
    assert retain_and_prune.service({"spec": desired}, {"spec": OBSERVED})["spec"] == {**desired, **retained}


def test_a_service_gets_a_second_family() -> None:
    wanted = {"ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "RequireDualStack"}
    kept = {"clusterIP": "10.0.0.7", "clusterIPs": ["10.0.0.7"]}
    assert retain_and_prune.service({"spec": wanted}, {"spec": SINGLE})["spec"] == {**wanted, **kept}


def test_a_headless_service_stays_headless_unless_its_type_needs_an_address() -> None:
    headless = {"clusterIP": "None", "clusterIPs": ["None"]}
    assert retain_and_prune.service({"spec": {}}, {"spec": headless})["spec"] == headless
    assert retain_and_prune.service({"spec": {"type": "NodePort"}}, {"spec": headless})["spec"] == {"type": "NodePort"}


def test_a_pod_keeps_all_that_the_member_cluster_added() -> None:
    mounts, variable = [{"name": "token", "mountPath": "/var/run/token"}], {"name": "B", "value": "injected"}
    desired = {
        "spec": {
            "containers": [
                {
                    "name": "b",
                    "image": "i:2",
                    "env": [{"name": "A", "value": "1"}],
                    "resources": {"limits": {"cpu": "1"}},
                },
                {"name": "new"},
            ],
            "initContainers": [{"name": "i"}],
            "schedulingGates": [{"name": "removed"}],
            "tolerations": [{"key": "new"}],
        }
    }
    observed = {
        "spec": {
            "nodeName": "n1",
            "volumes": [{"name": "token"}],
            "containers": [
                {"name": "sidecar", "image": "s"},
                {
                    "name": "b",
                    "image": "i:1",
                    "volumeMounts": mounts,
                    "env": [variable],
                    "resources": {"limits": {"cpu": "2"}},
                },
            ],
            "initContainers": [{"name": "i", "volumeMounts": mounts}],
            "tolerations": [{"key": "injected"}],
        }
    }
    assert retain_and_prune.pod(desired, observed)["spec"] == {
        **observed["spec"],
        "containers": [
            {"name": "sidecar", "image": "s"},
            {
                "name": "b", "image": "i:2", "volumeMounts": mounts, "env": [variable, {"name": "A", "value": "1"}],
                "resources": {"limits": {"cpu": "2"}},
            },
            {"name": "new"},
        ],
        "tolerations": [{"key": "injected"}, {"key": "new"}],
    }  # fmt: skip
    assert retain_and_prune.pod(desired, {"spec": {}}) is desired
    assert retain_and_prune.pod(observed, observed) is observed
    assert retain_and_prune.pod({"spec": {}}, observed) == observed


def test_volume_keeps_its_claim_and_job_its_selector() -> None:
    claim = {"kind": "PersistentVolumeClaim", "name": "c"}
    assert retain_and_prune.persistent_volume({"spec": {}}, {"spec": {"claimRef": claim}}) == {
        "spec": {"claimRef": claim}
    }
    unbound: dict[str, Any] = {"spec": {}}
    assert retain_and_prune.persistent_volume(unbound, {"spec": {}}) is unbound
    uid = {"controller-uid": "u"}
    observed = {"spec": {"selector": {"matchLabels": uid}, "template": {"metadata": {"labels": {"app": "x", **uid}}}}}
    assert retain_and_prune.job({"spec": {"template": {"metadata": {"labels": {"app": "x"}}}}}, observed) == observed
    assert retain_and_prune.job(unbound, {"spec": {}}) is unbound


def test_volumes_of_a_wrong_type_are_an_error() -> None:
    with pytest.raises(InterpretError):
        retain_and_prune.pod({"spec": {}}, {"spec": {"volumes": "all"}})


def test_prune_removes_both_of_two_adjacent_tokens() -> None:
    secrets = [{"name": "sa-token-a"}, {"name": "sa-token-b"}, {"name": "mine"}]
    document = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "sa"}, "secrets": secrets}
    assert retain_and_prune.prune(document)["secrets"] == [{"name": "mine"}]


def test_prune_compares_group_and_kind() -> None:
    labels = {"job-name": "x", "controller-uid": "y"}
    template = {"metadata": {"labels": labels}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {}, "spec": {"template": template}}
    assert retain_and_prune.prune(job)["spec"]["template"]["metadata"]["labels"] == {}
    other = {**job, "apiVersion": "batch.volcano.sh/v1alpha1"}
    assert retain_and_prune.prune(other)["spec"]["template"]["metadata"]["labels"] == labels


def test_only_the_value_true_of_the_label_retains_the_replicas_of_a_deployment() -> None:
    labels = "resourcetemplate.karmada.io/retain-replicas"
    for value, replicas in (("true", 9), ("True", 2), ("", 2)):
        desired = {"metadata": {"labels": {labels: value}}, "spec": {"replicas": 2}}
        assert retain_and_prune.deployment(desired, {"spec": {"replicas": 9}})["spec"] == {"replicas": replicas}
