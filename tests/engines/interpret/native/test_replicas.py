"""Replica counts of Kubernetes' own kinds, and the requirements of a replica."""

from typing import Any

import pytest

from fleethook.engines.interpret.native import replicas
from fleethook.engines.interpret.native.replicas import requirements
from fleethook.interpret.interpreter import InterpretError


def test_revising_sets_a_missing_count() -> None:
    assert replicas.set_member("spec", "replicas")({"kind": "Deployment"}, 3) == {
        "kind": "Deployment",
        "spec": {"replicas": 3},
    }


def container(cpu: str, **fields: Any) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": {"cpu": cpu}}, **fields}


def read_request(**spec: Any) -> Any:
    found = requirements({"spec": spec})
    return (found or {}).get("resourceRequest")


def test_sidecars_count_beside_containers_that_start_later() -> None:
    sidecar = container("100m", restartPolicy="Always")
    assert read_request(initContainers=[sidecar], containers=[container("1")]) == {"cpu": "1100m"}
    assert read_request(initContainers=[sidecar, container("2")], containers=[container("1")]) == {"cpu": "2100m"}
    assert read_request(initContainers=[container("2"), sidecar], containers=[container("1")]) == {"cpu": "2"}


def test_pod_level_resources_replace_those_of_containers() -> None:
    resources = {"requests": {"cpu": "3"}, "limits": {"memory": "1Gi", "example.com/gpu": "1"}}
    assert read_request(resources=resources, containers=[container("1")], overhead={"cpu": "10m"}) == {
        "cpu": "3010m", "memory": "1Gi",
    }  # fmt: skip


def test_limits_replace_missing_requests() -> None:
    limited = {"name": "c", "resources": {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}}}
    assert read_request(containers=[limited]) == {"cpu": "1", "memory": "1Gi"}


def test_resources_that_schedulers_ignore_are_left_out() -> None:
    requests = {"cpu": "0", "pods": "1", "unknown": "5", "example.com/gpu": "2", "hugepages-2Mi": "4Mi"}
    assert read_request(containers=[{"resources": {"requests": requests}}]) == {
        "example.com/gpu": "2", "hugepages-2Mi": "4Mi", "pods": "1",
    }  # fmt: skip


def pod(requests: Any, **resources: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"resources": {"requests": requests, **resources}}]}}


def test_null_request_counts_as_zero() -> None:
    assert requirements(pod({"cpu": None, "memory": "1Gi"})) == {"resourceRequest": {"memory": "1Gi"}}
    assert requirements(pod({"cpu": None}, limits={"cpu": "1"})) is None


@pytest.mark.parametrize(
    ("amount", "error"),
    [({}, "resources.requests.cpu is object, expected a quantity"),
     ([], "resources.requests.cpu is array, expected a quantity"),
     (True, "resources.requests.cpu is boolean, expected a quantity"),
     ("much", "resources.requests.cpu: ")],
)  # fmt: skip
def test_invalid_amount_is_an_error_with_its_path(amount: Any, error: str) -> None:
    requirements(pod({"cpu": 1}))
    with pytest.raises(InterpretError) as caught:
        requirements(pod({"cpu": amount}))
    assert error in str(caught.value)
