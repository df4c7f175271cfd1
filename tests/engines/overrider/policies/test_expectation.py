"""The members that a workload must have."""

import pytest

from fleethook.engines.overrider.policies.cel import Unsupported, Writer
from fleethook.engines.overrider.policies.expectation import cut, expect, subtract, write_conditions
from fleethook.engines.overrider.render.delta import delta_of
from fleethook.model.merge_keys import WORKLOAD
from tests.builders import container, entry, image, patch, pod_template, pool, yurt_app_set
from tests.engines.overrider.policies.compiling import plan_of

RULE = entry("*", items=[image("nginx", "nginx:2")])


def workload(**pods: object) -> dict[str, object]:
    return {"spec": {"template": {"spec": pods}}}


def test_changed_members_are_cut() -> None:
    before = workload(containers=[container("a"), container("b", "b:1")], nodeSelector={"zone": "a"})
    after = workload(containers=[container("b", "b:2")])
    delta = delta_of(before, after, WORKLOAD)
    assert cut(before, delta) == workload(containers=[{"name": "b"}])


def test_the_workload_of_a_pool_has_the_patch_of_the_pool() -> None:
    edge = {"spec": {"template": {"spec": {"containers": [container("edge")]}}}}
    plan = plan_of(RULE, subject=yurt_app_set(pools=[pool("hangzhou", patch=edge)]))
    names = [one["name"] for one in expect(plan, plan.update)["spec"]["template"]["spec"]["containers"]]
    assert names == ["edge", "nginx"]


def test_subtraction_leaves_the_members_that_differ() -> None:
    assert subtract({"a": 1, "b": {"c": 1, "d": 2}}, {"a": 1, "b": {"c": 1, "d": 3}}) == {"b": {"d": 2}}


def test_a_creation_has_the_selector() -> None:
    plan = plan_of(RULE)
    conditions = [*write_conditions(plan, delta=plan.update.delta, writer=Writer(0))]
    created = [one for one in conditions if one.startswith('request.operation != "CREATE" || ')]
    assert any(".?selector" in one for one in created)
    assert not any("containers" in one for one in created)
    assert not any(".?image" in one for one in conditions)


def test_a_removal_from_a_list_that_the_pool_orders_is_refused() -> None:
    own = {"spec": {"template": {"spec": {"volumes": [{"name": "own", "emptyDir": {}}]}}}}
    volumes = [{"name": name, "emptyDir": {}} for name in "ab"]
    subject = yurt_app_set(pools=[pool("hangzhou", patch=own)], template=pod_template(volumes=volumes))
    plan = plan_of(entry("*", patches=[patch("remove", "/spec/template/spec/volumes/[name=a]")]), subject=subject)
    with pytest.raises(Unsupported, match="order of removed elements"):
        list(write_conditions(plan, delta=plan.update.delta, writer=Writer(0)))
