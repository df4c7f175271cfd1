"""Tests of the patches that plans have for workloads that match their templates."""

import copy
from typing import Any

from fleethook.engines.overrider.plan.plan_cache import PlanCache
from fleethook.engines.overrider.plan.precompiled_patch import compile_patch
from fleethook.engines.overrider.render.undo_and_annotations import LastRender, read_last_render
from fleethook.model.openyurt import YURT_APP_SET
from fleethook.patch import apply
from fleethook.workload_schema.pool_value_marks import PoolValues
from tests.builders import (
    compile_plan,
    container,
    entry,
    image,
    images,
    mutate_workload,
    overrider,
    patch,
    pod_template,
    rendered,
    request,
    store_of,
    workload,
    yurt_app_set,
)


def test_a_workload_fresh_from_its_owner_takes_the_precompiled_patch() -> None:
    rule = overrider(entry("*", items=[image("nginx", "x:1"), {"replicas": 9}]))
    plan = compile_plan(YURT_APP_SET, SUBJECT, rule, kind="Deployment", pool="hangzhou", node_pool=None)
    fast = compile_patch(plan)
    assert fast is not None
    wanted = LastRender(plan.digest, plan.undo_text)
    operations = fast.operations_for(make_workload(), next_render=wanted, values=HANGZHOU)
    assert operations is not None
    paths = ["/metadata/annotations/fleethook.io~1rendered", "/metadata/annotations/fleethook.io~1undo"]
    assert [made["path"] for made in operations] == [*paths, f"{SPEC}/containers/0/image", "/spec/replicas"]
    other = make_workload()
    other["spec"]["template"]["spec"]["containers"].append(container("sidecar"))
    assert fast.operations_for(other, next_render=wanted, values=HANGZHOU) is None


def test_a_member_that_only_a_creation_sets_is_overridden() -> None:
    subject = yurt_app_set(template=TEMPLATE, kind="StatefulSet")
    rule = overrider(entry("*", patches=[patch("add", "/spec/serviceName", "mine")]))
    document = workload(template=copy.deepcopy(TEMPLATE))
    document["kind"] = "StatefulSet"
    document["spec"]["template"]["metadata"]["labels"] = dict(document["metadata"]["labels"])
    store, plans = store_of(subject, rule), PlanCache()
    for _ in range(6):
        answer = mutate_workload(request(document), store=store, plans=plans)
        assert answer.allowed, answer.message
        assert apply(document, answer.patch)["spec"]["serviceName"] == "mine"


SPEC = "/spec/template/spec"
TEMPLATE = pod_template(containers=[container("nginx", args=["a"]), container("second")])
SUBJECT = yurt_app_set(template=TEMPLATE)
HANGZHOU = PoolValues("hangzhou")


def make_workload() -> dict[str, Any]:
    """The workload as its owner created it."""
    document = workload(template=copy.deepcopy(TEMPLATE))
    document["spec"]["template"]["metadata"]["labels"] = dict(document["metadata"]["labels"])
    return document


def test_a_rendered_workload_with_its_hash_is_not_rendered_again() -> None:
    rule = overrider(entry("*", items=[image("nginx", "x:1"), {"replicas": 9}]))
    plan = compile_plan(YURT_APP_SET, SUBJECT, rule, kind="Deployment", pool="hangzhou", node_pool=None)
    stored = rendered(make_workload(), SUBJECT, rule)
    last_render = read_last_render(stored)
    fast = compile_patch(plan)
    assert fast is not None
    assert last_render is not None
    assert fast.is_settled(stored, last_render, next_render=last_render, values=HANGZHOU)
    stored["spec"]["replicas"] = 8
    assert not fast.is_settled(stored, last_render, next_render=last_render, values=HANGZHOU)


def test_a_drifted_workload_with_the_template_of_a_new_one_is_rendered() -> None:
    """Its annotations say that it is rendered; the checks of both forms must not be confused."""
    rule = overrider(entry("*", items=[image("nginx", "x:1")]))
    store, plans = store_of(SUBJECT, rule), PlanCache()
    new = make_workload()
    for _ in range(6):
        answer = mutate_workload(request(new), store=store, plans=plans)
        assert images(apply(new, answer.patch))["nginx"] == "x:1"
    drifted = apply(new, answer.patch)
    drifted["spec"] = make_workload()["spec"]
    for _ in range(2):
        answer = mutate_workload(request(drifted, "UPDATE", drifted), store=store, plans=plans)
        assert images(apply(drifted, answer.patch))["nginx"] == "x:1"
