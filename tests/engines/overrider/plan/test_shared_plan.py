"""Tests of plans that pools share. test_plan_cache.py compares them with the plan of each pool alone."""

from typing import Any

from fleethook.engines.overrider.plan.plan import compile_plan
from fleethook.engines.overrider.plan.shared_plan import (
    MAX_FILLED,
    FilledPlans,
    PoolPlan,
    SharedPlan,
)
from fleethook.model.openyurt import YURT_APP_SET
from fleethook.workload_schema.value_marks import POOL_MARK, PoolValues
from tests.builders import entry, image, overrider, pool, yurt_app_set

RULE = overrider(entry("*", items=[image("nginx", "r.io/{{nodepool}}:1")]))


def share(name: str = POOL_MARK, rule: dict[str, Any] | None = RULE) -> SharedPlan:
    subject = yurt_app_set(pools=[pool(name)])
    plan = compile_plan(YURT_APP_SET, subject, rule, kind="Deployment", pool=name, node_pool=None)
    return SharedPlan(plan, kind="Deployment", pool=name)


def image_of(plan: PoolPlan) -> str:
    name: str = plan.full.create.rendered["spec"]["template"]["spec"]["containers"][0]["image"]
    return name


def test_each_pool_has_its_values_and_its_hash() -> None:
    shared, filled = share(), FilledPlans()
    plans = {name: PoolPlan(shared, PoolValues(name), filled=filled) for name in ("a", "b")}
    assert {name: image_of(plan) for name, plan in plans.items()} == {"a": "r.io/a:1", "b": "r.io/b:1"}
    alone = {name: share(name).plan.digest for name in plans}
    assert {name: plan.digest for name, plan in plans.items()} == alone
    assert plans["a"].last_render == (alone["a"], plans["a"].undo_text, "")
    assert plans["a"].applies


def test_the_plans_that_were_filled_least_recently_are_evicted() -> None:
    shared, filled = share(), FilledPlans()
    first, second = (PoolPlan(shared, PoolValues(name), filled=filled) for name in ("first", "second"))
    kept, evicted = first.full, second.full
    for number in range(MAX_FILLED - 1):
        assert first.full is kept
        assert image_of(PoolPlan(shared, PoolValues(f"p{number}"), filled=filled)) == f"r.io/p{number}:1"
    assert second.full is not evicted
    assert first.full is kept


def test_a_pool_whose_element_would_have_the_name_of_another_is_confused() -> None:
    shared = share()
    shared.names = (frozenset({f"v-{POOL_MARK}"}), frozenset({"v-a"}))  # type: ignore[misc]
    assert shared.confuses("a")
    assert not shared.confuses("b")
