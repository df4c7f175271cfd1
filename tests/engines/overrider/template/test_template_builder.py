"""The template of a subject of each version, on a reviewed workload."""

import copy
from typing import Any

import pytest

from fleethook.cluster.store import Store
from fleethook.engines.overrider.plan.plan_cache import PlanCache, PoolPlan
from fleethook.engines.overrider.rules.schema_and_binding_rules import check_overrider
from fleethook.engines.overrider.template.pool_template_and_placement import SubjectError
from fleethook.engines.overrider.template.template_builder import workload_kinds
from fleethook.model.openyurt import YURT_APP_SET
from tests.builders import (
    API_V1BETA1,
    entry,
    image,
    images,
    node_pool,
    overrider,
    owner,
    patch,
    pod_spec,
    pod_template,
    rendered,
    review,
    store_of,
    tweak,
    workload,
    yurt_app_daemon,
    yurt_app_set,
    yurt_app_set_v1beta1,
)
from tests.e2e.openyurt_v1beta1 import NODE_POOL_ANNOTATION, SUBJECT_LABEL, V1Beta1

RULE = overrider(entry("hangzhou", items=[image("nginx", "nginx:2.0")]))
REVISION = "apps.openyurt.io/controller-revision-hash"
MARKED = yurt_app_set_v1beta1()
NODE_POOLS = {name: node_pool(name) for name in ("hangzhou", "beijing")}
STORE = (MARKED, overrider(entry("*", items=[image("nginx", "nginx:2.0")])), *NODE_POOLS.values())


def make_workload(pool: str = "hangzhou", **fields: Any) -> dict[str, Any]:
    """A workload as OpenYurt's controller writes it for a set without tweaks."""
    made = workload(pool=pool, owners=[owner(apiVersion=API_V1BETA1)], **fields)
    made["metadata"]["labels"] |= {"apps.openyurt.io/ref-yurtappset": "demo", REVISION: "demo-1"}
    made["metadata"].setdefault("annotations", {})["apps.openyurt.io/ref-nodepool"] = pool
    pod_spec(made)["nodeSelector"] = {"apps.openyurt.io/nodepool": pool}
    return made


def plan(subject: dict[str, Any], rule: Any, pool: str, store: Store, cache: PlanCache | None = None) -> PoolPlan:
    cache = cache or PlanCache()
    return cache.plan(YURT_APP_SET, subject, rule, kind="Deployment", pool=pool, cluster="", store=store)


def test_the_labels_by_which_openyurt_finds_its_workloads_stay() -> None:
    living = make_workload()
    made = rendered(living, yurt_app_set_v1beta1(), RULE, operation="UPDATE", old=living)
    assert made["metadata"]["labels"] == living["metadata"]["labels"]
    assert made["metadata"]["annotations"]["apps.openyurt.io/ref-nodepool"] == "hangzhou"
    assert made["metadata"]["ownerReferences"] == living["metadata"]["ownerReferences"]


@pytest.mark.parametrize(
    "path",
    [
        "/metadata/labels/apps.openyurt.io~1ref-yurtappset",
        "/metadata/labels/apps.openyurt.io~1pool-name",
        "/spec/template/metadata/labels/apps.openyurt.io~1pool-name",
        "/metadata/labels",
    ],
)
def test_no_entry_removes_the_labels_of_openyurt(path: str) -> None:
    rule = overrider(entry("*", patches=[patch("remove", path)]))
    answer = review(make_workload(), yurt_app_set_v1beta1(), rule)
    assert not answer.allowed
    assert "identifies the workload or selects its pods and cannot be overridden" in answer.message


def test_deleting_an_overrider_restores_the_tweaks() -> None:
    subject = yurt_app_set_v1beta1(
        tweaks=[tweak("hangzhou", containerImages=[{"name": "nginx", "targetImage": "tweaked:1"}])]
    )
    living = make_workload()
    pod_spec(living)["containers"][0]["image"] = "tweaked:1"
    first = rendered(living, subject, RULE, operation="UPDATE", old=living)
    assert images(first) == {"nginx": "nginx:2.0"}
    assert rendered(first, subject, operation="UPDATE", old=first) == living


def test_replicas_that_an_overrider_set_go_back_to_the_default() -> None:
    """The template names none, so an apiserver had given the workload one."""
    subject, living = yurt_app_set_v1beta1(), make_workload(replicas=1)
    first = rendered(living, subject, overrider(entry("*", items=[{"replicas": 5}])), operation="UPDATE", old=living)
    assert first["spec"]["replicas"] == 5
    assert rendered(first, subject, operation="UPDATE", old=first)["spec"]["replicas"] == 1


def test_only_workloads_of_the_version_that_is_read_are_rendered() -> None:
    for subject, living in ((yurt_app_set_v1beta1(), workload()), (yurt_app_set(), make_workload())):
        answer = review(living, subject, RULE)
        assert answer.allowed
        assert not answer.patch
        (warning,) = answer.warnings
        assert warning.startswith("not rendered: its owner reference names apps.openyurt.io/v1")
        assert "is read as apps.openyurt.io/v1" in warning


def test_a_pool_that_the_set_does_not_have_is_not_rendered() -> None:
    answer = review(make_workload("shanghai"), yurt_app_set_v1beta1(), RULE)
    assert answer.allowed
    (warning,) = answer.warnings
    assert warning.startswith("not rendered: YurtAppSet default/demo has no pool 'shanghai' in spec.pools")


def test_a_tweak_that_does_not_fit_is_named() -> None:
    subject = yurt_app_set_v1beta1(tweaks=[tweak("hangzhou", patches=[patch("remove", "/spec/paused")])])
    with pytest.raises(SubjectError, match=r"spec\.workload\.workloadTweaks\[0\]\.tweaks\.patches\[0\] does not fit"):
        plan(subject, RULE, "hangzhou", store_of())


def test_an_entry_is_checked_against_the_tweaked_template() -> None:
    tweaked = yurt_app_set_v1beta1(
        tweaks=[
            tweak("hangzhou", patches=[patch("add", "/spec/template/spec/volumes", [{"name": "v", "emptyDir": {}}])])
        ]
    )
    rule = overrider(entry("*", patches=[patch("replace", "/spec/template/spec/volumes/0/name", "w")]))
    found = check_overrider(rule, cluster="", namespace="default", store=store_of(tweaked))
    assert [(one.level, one.field) for one in found] == [("error", "entries[0].patches[0]")]
    assert found[0].message.startswith("node pool beijing: ")
    only = overrider(entry("hangzhou", patches=copy.deepcopy(rule["entries"][0]["patches"])))
    assert check_overrider(only, cluster="", namespace="default", store=store_of(tweaked)) == ()


def test_replicas_that_differ_from_a_tweak_are_no_finding() -> None:
    """Only OpenYurt 1.4 compares replicas, and it has no v1beta1."""
    subject = yurt_app_set_v1beta1(tweaks=[tweak("hangzhou", replicas=2)])
    rule = overrider(entry("*", items=[{"replicas": 5}]))
    assert check_overrider(rule, cluster="", namespace="default", store=store_of(subject)) == ()


def test_a_tweaked_template_names_only_members_that_were_set() -> None:
    """OpenYurt encodes empty members before it patches. Values of other writers in them are not the template's."""
    subject = yurt_app_set_v1beta1(tweaks=[tweak("hangzhou", patches=[patch("add", "/spec/minReadySeconds", 5)])])
    assert "strategy" not in plan(subject, None, "hangzhou", store_of()).full.create.bare["spec"]
    living = make_workload()
    living["spec"] |= {"minReadySeconds": 5, "replicas": 1, "strategy": {"type": "RollingUpdate"}}
    rule = overrider(entry("*", patches=[patch("add", "/spec/strategy", {"type": "Recreate"})]))
    first = rendered(living, subject, rule, operation="UPDATE", old=living)
    assert first["spec"]["strategy"] == {"type": "Recreate"}
    assert rendered(first, subject, operation="UPDATE", old=first) == living


@pytest.mark.parametrize(("group", "name"), [("labels", SUBJECT_LABEL), ("annotations", NODE_POOL_ANNOTATION)])
def test_an_owner_mark_that_a_user_removes_stays_removed(group: str, name: str) -> None:
    workload = V1Beta1().apply(MARKED, "hangzhou", node_pools=NODE_POOLS)
    workload["metadata"]["name"] = "demo-hangzhou-1"
    stored = rendered(workload, *STORE)
    assert stored["metadata"][group][name]
    released = copy.deepcopy(stored)
    del released["metadata"][group][name]
    assert rendered(released, *STORE, operation="UPDATE", old=stored) == released


def test_the_owner_label_of_another_subject_stays() -> None:
    workload = V1Beta1().apply(MARKED, "hangzhou", node_pools=NODE_POOLS)
    workload["metadata"]["name"] = "demo-hangzhou-1"
    stored = rendered(workload, *STORE)
    given = copy.deepcopy(stored)
    given["metadata"]["labels"][SUBJECT_LABEL] = "other"
    assert rendered(given, *STORE, operation="UPDATE", old=stored) == given


TERM = {"matchExpressions": [{"key": "apps.openyurt.io/nodepool", "operator": "In", "values": ["hangzhou"]}]}


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


def test_a_v1beta1_set_with_both_templates_has_stateful_sets() -> None:
    both = {"statefulSetTemplate": {"spec": {}}, "deploymentTemplate": {"spec": {}}}
    old, new = yurt_app_set(), yurt_app_set_v1beta1()
    old["spec"]["workloadTemplate"] = new["spec"]["workload"]["workloadTemplate"] = both
    assert workload_kinds(old) == ["Deployment", "StatefulSet"]
    assert workload_kinds(new) == ["StatefulSet"]
    assert workload_kinds({"spec": {"workloadTemplate": {"deploymentTemplate": {}}}}) == []
