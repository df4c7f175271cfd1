"""A plan is compiled in slices, and not again."""

from collections.abc import Callable
from typing import Any

import pytest

from fleethook.engines.overrider.entries.entry_steps import RenderError
from fleethook.engines.overrider.plan.plan_cache import PlanCache
from fleethook.engines.overrider.plan.shared_plan import PoolPlan
from fleethook.engines.overrider.plan.subject_plans import NotCompiledError
from fleethook.model.openyurt import YURT_APP_DAEMON, YURT_APP_SET
from fleethook.work.pausing import Work
from tests.builders import (
    entry,
    image,
    node_pool,
    overrider,
    patch,
    pod_spec,
    pool,
    store_of,
    yurt_app_daemon,
    yurt_app_set,
)

SUBJECT = yurt_app_set(pools=[pool(f"p{number}") for number in range(3)])
RULE = overrider(entry("*", items=[image("nginx", "nginx:2.0")]), entry("p2", items=[{"replicas": 7}]))
BROKEN = overrider(entry("*", patches=[patch("remove", "/spec/template/spec/nowhere")]))


def plan(cache: PlanCache, name: str, rule: Any = RULE) -> PoolPlan:
    return cache.plan(YURT_APP_SET, SUBJECT, rule, kind="Deployment", pool=name, cluster="", store=store_of())


def prepare(cache: PlanCache, name: str, rule: Any = RULE) -> Work[None]:
    """Return the work that compiles a plan, which does nothing if it is compiled."""
    try:
        cache.plan(
            YURT_APP_SET, SUBJECT, rule, kind="Deployment", pool=name, cluster="", store=store_of(), compiles=False
        )
    except NotCompiledError as error:
        return error.work
    return iter(())


def test_a_prepared_plan_is_compiled_in_slices_and_not_again() -> None:
    cache, at_once = PlanCache(), PlanCache()
    assert len(list(prepare(cache, "p0"))) >= 5
    assert (cache.compiled, plan(cache, "p0").digest) == (1, plan(at_once, "p0").digest)
    assert list(prepare(cache, "p0")) == []
    assert list(prepare(cache, "p1")) == []  # It shares the plan.
    plan(cache, "p1")
    plan(at_once, "p1")
    assert (cache.compiled, cache.weight) == (at_once.compiled, at_once.weight)
    assert len(list(prepare(cache, "p2"))) > 0


def test_a_plan_that_a_review_compiled_in_between_is_kept_and_counted_once() -> None:
    cache, at_once = PlanCache(), PlanCache()
    work = prepare(cache, "p0")
    next(work)
    made = plan(cache, "p0")
    assert list(work) == []  # The review has done the other slices.
    assert plan(cache, "p0") is made
    plan(at_once, "p0")
    assert (cache.compiled, cache.weight) == (at_once.compiled, at_once.weight)


def test_plans_of_an_overrider_that_was_edited_in_between_are_not_counted() -> None:
    cache, at_once = PlanCache(), PlanCache()
    work = prepare(cache, "p0")
    next(work)
    edited = overrider(entry("*", items=[image("nginx", "nginx:3.0")]))
    for one in (cache, at_once):
        plan(one, "p0", edited)
    list(work)
    assert (cache.compiled, cache.weight) == (at_once.compiled, at_once.weight)


def test_an_overrider_that_does_not_fit_is_an_error_when_its_plan_is_asked_for() -> None:
    cache = PlanCache()
    list(prepare(cache, "p0", BROKEN))
    with pytest.raises(RenderError, match="nowhere"):
        plan(cache, "p0", BROKEN)
    assert cache.compiled == 1


def test_concurrent_callers_compile_a_plan_together() -> None:
    cache, at_once = PlanCache(), PlanCache()
    alone = len(list(prepare(at_once, "p0")))
    callers = [prepare(cache, name) for name in ("p0", "p1", "p0", "p1")]
    turns = 0
    while callers:
        turns += len(callers)
        callers = [one for one in callers if next(one, callers) is None]
    assert turns <= alone + 8  # Each caller needs a turn at its begin and one at its end.
    for one in (cache, at_once):
        plan(one, "p0")
    assert (cache.compiled, cache.weight) == (at_once.compiled, at_once.weight) == (1, at_once.weight)


def test_a_caller_that_gives_up_leaves_its_slices_to_the_next_one() -> None:
    cache = PlanCache()
    abandoned = prepare(cache, "p0")
    for _ in range(3):
        next(abandoned)
    abandoned.close()
    assert len(list(prepare(cache, "p1"))) < len(list(prepare(PlanCache(), "p1")))
    assert (cache.compiled, plan(cache, "p0").digest) == (1, plan(PlanCache(), "p0").digest)


@pytest.mark.parametrize("name", ["agent", "a" * 250])  # A pool of a subject with a long name shares no plan.
def test_a_plan_that_was_compiled_before_its_node_pool_changed_is_not_used(name: str) -> None:
    subject = yurt_app_daemon(name)
    stores = [store_of(node_pool("p0", taints=[{"key": key, "effect": "NoSchedule"}])) for key in ("old", "new")]
    cache = PlanCache()
    cache.plan(YURT_APP_DAEMON, subject, RULE, kind="Deployment", pool="p0", cluster="", store=stores[0])
    for store in reversed(stores):
        found, own = (
            one.plan(YURT_APP_DAEMON, subject, RULE, kind="Deployment", pool="p0", cluster="", store=store)
            for one in (cache, PlanCache())
        )
        assert (found.full.rendered, found.digest) == (own.full.rendered, own.digest)


@pytest.mark.parametrize(
    ("names", "make"),
    [
        (("key", "other"), lambda name: {name: "a", "operator": "Exists"}),
        (("x", "z"), lambda name: {"key": f'y"{name}', "operator": "Exists"}),
        (("x", "z"), lambda name: {"key": name, "operator": "Exists"}),
    ],
    ids=["a member has the name", "a text ends in a quote and the name", "a text is the name"],
)
def test_settings_with_the_name_of_a_pool_are_rendered_for_that_pool(
    names: tuple[str, ...], make: Callable[[str], dict[str, str]]
) -> None:
    subject = yurt_app_set(pools=[pool(name, tolerations=[make(name)]) for name in names])
    cache = PlanCache()
    for name in names:
        found, own = (
            one.plan(YURT_APP_SET, subject, RULE, kind="Deployment", pool=name, cluster="", store=store_of())
            for one in (cache, PlanCache())
        )
        assert (found.full.rendered, found.digest) == (own.full.rendered, own.digest)
        assert pod_spec(found.full.rendered)["tolerations"] == [make(name)]
