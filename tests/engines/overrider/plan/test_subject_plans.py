"""The plans of one subject."""

import pytest

from fleethook.engines.overrider.entries.entry_steps import RenderError
from fleethook.engines.overrider.plan.shared_plan import PoolPlan
from fleethook.engines.overrider.plan.subject_plans import LongCompilation, SubjectPlans
from fleethook.engines.overrider.template.node_affinity import SubjectError
from fleethook.model.openyurt import YURT_APP_SET
from tests.builders import entry, image, overrider, patch, pool, yurt_app_set

IMAGES = overrider(entry("hangzhou", items=[image("nginx", "nginx:2.0")]))


def plans(*pools: str, rule: object = IMAGES) -> SubjectPlans:
    subject = yurt_app_set(pools=[pool(name) for name in pools])
    return SubjectPlans(YURT_APP_SET, subject, rule)  # type: ignore[arg-type]


def test_a_plan_is_compiled_at_its_first_request_and_kept() -> None:
    made = plans("hangzhou", "beijing")
    plan = made.plan("Deployment", "hangzhou", None)
    assert plan.applies
    assert made.plan("Deployment", "hangzhou", None) is plan
    assert not made.plan("Deployment", "beijing", None).applies


def test_a_compilation_that_takes_long_is_left_to_the_caller() -> None:
    patches = [patch("add", f"/spec/template/metadata/labels/l{number}", "x") for number in range(100)]
    made = plans("hangzhou", rule=overrider(entry("*", patches=patches)))
    first, second = (made.find("Deployment", "hangzhou", None) for _ in range(2))
    assert isinstance(first, LongCompilation)
    assert isinstance(second, LongCompilation)
    first.run()
    plan = made.find("Deployment", "hangzhou", None)
    assert isinstance(plan, PoolPlan)
    second.run()
    assert made.compiled == 1
    assert made.plan("Deployment", "hangzhou", None) is plan


def test_an_error_is_kept_and_raised_again() -> None:
    broken = overrider(entry("*", items=[image("missing", "nginx:2.0")]), patches=None)
    made = plans("hangzhou", rule=broken)
    errors = []
    for _ in range(2):
        try:
            made.plan("Deployment", "hangzhou", None)
        except (RenderError, SubjectError) as error:
            errors.append(error)
    assert not errors or errors[0] is errors[1]
    with pytest.raises(SubjectError):
        made.plan("StatefulSet", "hangzhou", None)
