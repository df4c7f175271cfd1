"""The placement, the patch and the taints of a node pool on a reviewed workload."""

from typing import Any

from tests.builders import (
    NEW_IMAGE,
    container,
    entry,
    node_pool,
    overrider,
    owner,
    pod_spec,
    pod_template,
    pool,
    rendered,
    workload,
    yurt_app_daemon,
    yurt_app_set,
)

TERM = {"matchExpressions": [{"key": "apps.openyurt.io/nodepool", "operator": "In", "values": ["hangzhou"]}]}


def required(document: dict[str, Any]) -> Any:
    affinity = pod_spec(document).get("affinity", {})
    return affinity.get("nodeAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution")


def test_the_pools_node_selector_term_and_tolerations_are_added_once() -> None:
    toleration = {"key": "edge", "operator": "Exists"}
    subject = yurt_app_set(pools=[pool("hangzhou", nodeSelectorTerm=TERM, tolerations=[toleration])])
    once = rendered(workload(), subject, NEW_IMAGE)
    assert required(once) == {"nodeSelectorTerms": [TERM]}
    assert pod_spec(once)["tolerations"] == [toleration]
    assert rendered(once, subject, NEW_IMAGE, operation="UPDATE", old=once) == once


def test_the_pools_expressions_join_every_term_of_the_template() -> None:
    own = {"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [own]}}}
    subject = yurt_app_set(pools=[pool("hangzhou", nodeSelectorTerm=TERM)], template=pod_template(affinity=affinity))
    terms = required(rendered(workload(), subject, NEW_IMAGE))["nodeSelectorTerms"]
    assert terms == [{"matchExpressions": [*own["matchExpressions"], *TERM["matchExpressions"]]}]


def test_an_empty_node_selector_term_is_never_left_behind() -> None:
    living = workload()
    nothing = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}}
    pod_spec(living)["affinity"] = {"nodeAffinity": nothing}
    assert "affinity" not in pod_spec(rendered(living, yurt_app_set(), NEW_IMAGE))


def test_the_pools_patch_is_merged_strategically_and_wins_over_its_replicas() -> None:
    own = {"spec": {"replicas": 6, "template": {"spec": {"containers": [{"name": "nginx", "tty": True}]}}}}
    result = rendered(workload(), yurt_app_set(pools=[pool("hangzhou", patch=own)]), NEW_IMAGE)
    assert result["spec"]["replicas"] == 6
    assert pod_spec(result)["containers"] == [container(image="nginx:2.0", tty=True)]
    assert result["metadata"]["annotations"]["apps.openyurt.io/patch"] == (
        '{"spec":{"replicas":6,"template":{"spec":{"containers":[{"name":"nginx","tty":true}]}}}}'
    )


def test_a_daemons_workload_gets_the_pools_node_selector_and_tolerates_its_taints() -> None:
    taint = {"key": "edge", "value": "x", "effect": "NoSchedule"}
    rule = overrider(entry("*", items=[{"replicas": 4}]), subject={"kind": "YurtAppDaemon", "name": "agent"})
    living = workload(owners=[owner("YurtAppDaemon", "agent")])
    own = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [TERM]}}}
    subject = yurt_app_daemon(template=pod_template(affinity=own, nodeSelector={"disk": "ssd"}))
    result = rendered(living, subject, node_pool("hangzhou", taints=[taint]), rule)
    assert pod_spec(result)["nodeSelector"] == {"apps.openyurt.io/nodepool": "hangzhou"}
    assert pod_spec(result)["tolerations"] == [{"key": "edge", "operator": "Exists", "effect": "NoSchedule"}]
    assert "affinity" not in pod_spec(result)
    assert result["metadata"]["annotations"]["apps.openyurt.io/ref-nodepool"] == "hangzhou"
