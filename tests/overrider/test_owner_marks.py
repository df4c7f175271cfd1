"""The labels and the annotation by which OpenYurt's controller knows the workloads of a YurtAppSet v1beta1."""

import copy

import pytest

from tests.builders import entry, image, node_pool, overrider, rendered, yurt_app_set_v1beta1
from tests.e2e.openyurt_v1beta1 import NODE_POOL_ANNOTATION, SUBJECT_LABEL, V1Beta1

SUBJECT = yurt_app_set_v1beta1()
POOLS = {name: node_pool(name) for name in ("hangzhou", "beijing")}
STORE = (SUBJECT, overrider(entry("*", items=[image("nginx", "nginx:2.0")])), *POOLS.values())


@pytest.mark.parametrize(("group", "name"), [("labels", SUBJECT_LABEL), ("annotations", NODE_POOL_ANNOTATION)])
def test_one_that_somebody_removes_stays_removed(group: str, name: str) -> None:
    workload = V1Beta1().apply(SUBJECT, "hangzhou", node_pools=POOLS)
    workload["metadata"]["name"] = "demo-hangzhou-1"
    stored = rendered(workload, *STORE)
    assert stored["metadata"][group][name]
    released = copy.deepcopy(stored)
    del released["metadata"][group][name]
    assert rendered(released, *STORE, operation="UPDATE", old=stored) == released


def test_another_subjects_name_stays() -> None:
    workload = V1Beta1().apply(SUBJECT, "hangzhou", node_pools=POOLS)
    workload["metadata"]["name"] = "demo-hangzhou-1"
    stored = rendered(workload, *STORE)
    given = copy.deepcopy(stored)
    given["metadata"]["labels"][SUBJECT_LABEL] = "other"
    assert rendered(given, *STORE, operation="UPDATE", old=stored) == given
