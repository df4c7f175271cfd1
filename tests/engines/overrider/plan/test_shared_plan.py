"""Tests of plans that pools share. test_plan_cache.py compares them with the plan of each pool alone."""

from typing import Any

import pytest

from fleethook.engines.overrider.plan.plan import compile_plan
from fleethook.engines.overrider.plan.shared_plan import (
    MAX_FILLED,
    MAX_PATCHES,
    FilledPlans,
    PoolPlan,
    SharedPlan,
    find_names,
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
    name: str = plan.full.rendered["spec"]["template"]["spec"]["containers"][0]["image"]
    return name


def test_each_pool_has_its_values_and_its_hash() -> None:
    shared, filled = share(), FilledPlans()
    plans = {name: PoolPlan(shared, PoolValues(name), filled=filled) for name in ("a", "b")}
    assert {name: image_of(plan) for name, plan in plans.items()} == {"a": "r.io/a:1", "b": "r.io/b:1"}
    alone = {name: share(name).plan.digest for name in plans}
    assert {name: plan.digest for name, plan in plans.items()} == alone
    assert plans["a"].memory == (alone["a"], plans["a"].undo_text, "")
    assert plans["a"].applies


def test_a_plan_without_entries_has_no_hash() -> None:
    plan = PoolPlan(share(rule=None), PoolValues("a"), filled=FilledPlans())
    assert (plan.digest, plan.applies, plan.fast) == ("", False, None)


def test_a_plan_of_one_pool_is_used_as_it_is() -> None:
    shared = share("a")
    assert not shared.is_marked
    assert PoolPlan(shared, PoolValues("a"), filled=FilledPlans()).full is shared.plan


def test_the_plans_that_were_filled_least_recently_are_evicted() -> None:
    shared, filled = share(), FilledPlans()
    first, second = (PoolPlan(shared, PoolValues(name), filled=filled) for name in ("first", "second"))
    kept, evicted = first.full, second.full
    for number in range(MAX_FILLED - 1):
        assert first.full is kept
        assert image_of(PoolPlan(shared, PoolValues(f"p{number}"), filled=filled)) == f"r.io/p{number}:1"
    assert second.full is not evicted
    assert first.full is kept


def is_filled(plan: PoolPlan) -> bool:
    """Request the patch of a pool, and return whether it has the values of the pool."""
    return plan.fast is not plan.shared.fast


def make_pools(count: int) -> list[PoolPlan]:
    shared, filled = share(), FilledPlans()
    return [PoolPlan(shared, PoolValues(f"p{number}"), filled=filled) for number in range(count)]


def test_a_pool_with_many_requests_gets_a_patch_with_its_values() -> None:
    often, once = make_pools(2)
    assert not is_filled(once)
    while not is_filled(often):
        pass
    assert often.fast is often.fast
    assert "r.io/p0:1" in str(often.fast)
    assert POOL_MARK not in str(often.fast)
    assert not is_filled(once)


def test_pools_that_take_turns_in_a_large_fleet_get_no_patches() -> None:
    pools = make_pools(MAX_PATCHES + 1)
    for _ in range(6):
        assert sum(map(is_filled, pools)) == 0


def test_the_number_of_patches_is_bounded() -> None:
    pools = make_pools(MAX_PATCHES + 10)
    for pool_plan in pools:
        while not is_filled(pool_plan):
            pass
    assert sum(map(is_filled, pools)) == MAX_PATCHES


@pytest.mark.parametrize(
    ("document", "names"),
    [
        ({"volumes": [{"name": "a"}, {"name": f"v-{POOL_MARK}"}]}, ({f"v-{POOL_MARK}"}, {"a"})),
        ({"mounts": [{"mountPath": f"/{POOL_MARK}", "image": "x"}]}, ({f"/{POOL_MARK}"}, set())),
        ({"volumes": [{"name": "a"}], "text": POOL_MARK}, (set(), set())),
        ({"labels": {POOL_MARK: "x"}}, None),
    ],
)
def test_names_of_elements_with_the_mark_are_found(document: Any, names: tuple[set[str], set[str]] | None) -> None:
    assert find_names((document,)) == names


def test_a_pool_whose_element_would_have_the_name_of_another_is_confused() -> None:
    shared = share()
    shared.names = (frozenset({f"v-{POOL_MARK}"}), frozenset({"v-a"}))  # type: ignore[misc]
    assert shared.confuses("a")
    assert not shared.confuses("b")
