"""The controller compiles plans in slices before a review requests them."""

from typing import Any

import pytest

from app.control.slices import Sliced
from app.model.openyurt import YURT_APP_SET
from app.overrider.plan_cache import PlanCache
from app.overrider.shared_plan import PoolPlan
from app.overrider.steps import RenderError
from tests.builders import entry, image, overrider, patch, pool, store_of, yurt_app_set

SUBJECT = yurt_app_set(pools=[pool(f"p{number}") for number in range(3)])
RULE = overrider(entry("*", items=[image("nginx", "nginx:2.0")]), entry("p2", items=[{"replicas": 7}]))
BROKEN = overrider(entry("*", patches=[patch("remove", "/spec/template/spec/nowhere")]))


def plan(cache: PlanCache, name: str, rule: Any = RULE) -> PoolPlan:
    return cache.plan(YURT_APP_SET, SUBJECT, rule, kind="Deployment", pool=name, cluster="", store=store_of())


def prepare(cache: PlanCache, name: str, rule: Any = RULE) -> Sliced[None]:
    return cache.prepare(YURT_APP_SET, SUBJECT, rule, kind="Deployment", pool=name, cluster="", store=store_of())


def test_a_prepared_plan_is_compiled_in_slices_and_not_again() -> None:
    cache, at_once = PlanCache(), PlanCache()
    assert len(list(prepare(cache, "p0"))) >= 5
    assert (cache.compiled, plan(cache, "p0").digest) == (1, plan(at_once, "p0").digest)
    assert list(prepare(cache, "p0")) == []
    assert list(prepare(cache, "p1")) == []  # It shares the plan.
    plan(cache, "p1")
    plan(at_once, "p1")
    assert (cache.compiled, cache.size) == (at_once.compiled, at_once.size)
    assert len(list(prepare(cache, "p2"))) > 0


def test_a_plan_that_a_review_compiled_in_between_is_kept_and_counted_once() -> None:
    cache, at_once = PlanCache(), PlanCache()
    work = prepare(cache, "p0")
    next(work)
    made = plan(cache, "p0")
    assert list(work)
    assert plan(cache, "p0") is made
    plan(at_once, "p0")
    assert (cache.compiled, cache.size) == (at_once.compiled, at_once.size)


def test_plans_of_an_overrider_that_was_edited_in_between_are_not_counted() -> None:
    cache, at_once = PlanCache(), PlanCache()
    work = prepare(cache, "p0")
    next(work)
    edited = overrider(entry("*", items=[image("nginx", "nginx:3.0")]))
    for one in (cache, at_once):
        plan(one, "p0", edited)
    list(work)
    assert (cache.compiled, cache.size) == (at_once.compiled, at_once.size)


def test_an_overrider_that_does_not_fit_is_an_error_when_its_plan_is_asked_for() -> None:
    cache = PlanCache()
    list(prepare(cache, "p0", BROKEN))
    assert list(prepare(cache, "elsewhere", BROKEN)) == []
    with pytest.raises(RenderError, match="nowhere"):
        plan(cache, "p0", BROKEN)
    assert cache.compiled == 1
