"""The plans of one subject."""

import pytest

from fleethook.engines.overrider.entries.entry_steps import RenderError
from fleethook.engines.overrider.plan.subject_plans import NotCompiledError, SubjectPlans
from fleethook.engines.overrider.template.node_affinity import SubjectError
from fleethook.model.openyurt import YURT_APP_SET
from tests.builders import entry, image, overrider, pool, yurt_app_set

IMAGES = overrider(entry("hangzhou", items=[image("nginx", "nginx:2.0")]))


def plans(*pools: str, rule: object = IMAGES) -> SubjectPlans:
    subject = yurt_app_set(pools=[pool(name) for name in pools])
    return SubjectPlans(YURT_APP_SET, subject, rule)  # type: ignore[arg-type]


def test_a_plan_is_compiled_at_its_first_request_and_kept() -> None:
    made = plans("hangzhou", "beijing")
    assert made.find_plan("Deployment", "hangzhou", None) is None
    plan = made.plan("Deployment", "hangzhou", None)
    assert plan.applies
    assert made.find_plan("Deployment", "hangzhou", None) is plan
    assert made.plan("Deployment", "hangzhou", None) is plan
    assert not made.plan("Deployment", "beijing", None).applies


def test_a_plan_is_prepared_in_slices_and_then_compiled_for_nobody_twice() -> None:
    made = plans("hangzhou")
    assert made.plan_if_compiled("Deployment", "hangzhou", None) is None
    for _ in made.prepare("Deployment", "hangzhou", None):
        assert made.find_plan("Deployment", "hangzhou", None) is None
    plan = made.plan_if_compiled("Deployment", "hangzhou", None)
    assert plan is not None
    assert plan.applies


def test_the_error_about_a_missing_plan_has_its_work() -> None:
    made = plans("hangzhou")
    work = made.prepare("Deployment", "hangzhou", None)
    assert NotCompiledError(work).work is work
    work.close()


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
