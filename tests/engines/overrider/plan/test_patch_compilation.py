"""Tests of the patches that plans have for workloads that match their templates."""

import copy

from fleethook.engines.overrider.plan.patch_compilation import compile_patch
from fleethook.engines.overrider.plan.plan_cache import PlanCache
from fleethook.engines.overrider.render.last_render import LastRender
from fleethook.model.openyurt import YURT_APP_SET
from fleethook.patch import apply
from tests.builders import (
    compile_plan,
    container,
    entry,
    image,
    mutate_workload,
    overrider,
    patch,
    request,
    store_of,
    workload,
    yurt_app_set,
)
from tests.engines.overrider.render.test_precompiled_patch import HANGZHOU, SPEC, SUBJECT, TEMPLATE, make_workload


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
