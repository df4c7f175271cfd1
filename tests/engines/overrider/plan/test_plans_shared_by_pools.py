"""Tests of plans that pools share. test_plan_cache.py compares them with the plan of each pool alone."""

from typing import Any

from fleethook.engines.overrider.plan.plans_shared_by_pools import SharedPlan
from fleethook.model.openyurt import YURT_APP_SET
from fleethook.workload_schema.pool_value_marks import POOL_MARK
from tests.builders import compile_plan, entry, image, overrider, pool, yurt_app_set

RULE = overrider(entry("*", items=[image("nginx", "r.io/{{nodepool}}:1")]))


def share(name: str = POOL_MARK, rule: dict[str, Any] | None = RULE) -> SharedPlan:
    subject = yurt_app_set(pools=[pool(name)])
    plan = compile_plan(YURT_APP_SET, subject, rule, kind="Deployment", pool=name, node_pool=None)
    return SharedPlan(plan, kind="Deployment", pool=name)


def test_a_pool_whose_element_would_have_the_name_of_another_is_confused() -> None:
    shared = share()
    shared.names = (frozenset({f"v-{POOL_MARK}"}), frozenset({"v-a"}))  # type: ignore[misc]
    assert shared.confuses("a")
    assert not shared.confuses("b")
