from typing import Any

import pytest

from app.model.openyurt import YURT_APP_SET
from app.overrider.plan import Plan
from app.overrider.plans import PlanCache
from tests.builders import entry, image, overrider, store_of, yurt_app_set

RULE = overrider(entry("*", items=[image("nginx", "nginx:2.0")]))


def plan(cache: PlanCache, subject: dict[str, Any], rule: dict[str, Any] | None) -> Plan:
    return cache.plan(YURT_APP_SET, subject, rule, kind="Deployment", pool="hangzhou", cluster="", store=store_of())


@pytest.mark.parametrize(
    "changed",
    [
        {"status": {"readyReplicas": 3}},
        {"metadata": {**yurt_app_set()["metadata"], "resourceVersion": "7", "generation": 1, "managedFields": []}},
    ],
)
def test_a_changed_status_keeps_the_plan(changed: dict[str, Any]) -> None:
    cache = PlanCache()
    assert plan(cache, {**yurt_app_set(), **changed}, RULE) is plan(cache, yurt_app_set(), RULE)


def test_a_changed_status_of_the_overrider_keeps_the_plan() -> None:
    cache = PlanCache()
    assert plan(cache, yurt_app_set(), {**RULE, "status": {"summary": "1/1"}}) is plan(cache, yurt_app_set(), RULE)


@pytest.mark.parametrize(
    ("subject", "rule"),
    [
        (yurt_app_set(minReadySeconds=1), RULE),
        (yurt_app_set(), overrider(entry("*", items=[image("nginx", "nginx:3.0")]))),
        (yurt_app_set(), None),
        ({**yurt_app_set(), "metadata": {**yurt_app_set()["metadata"], "uid": "another"}}, RULE),
        ({**yurt_app_set(), "metadata": {**yurt_app_set()["metadata"], "labels": {"a": "b"}}}, RULE),
    ],
)
def test_anything_else_makes_another(subject: dict[str, Any], rule: dict[str, Any] | None) -> None:
    cache = PlanCache()
    assert plan(cache, yurt_app_set(), RULE) is not plan(cache, subject, rule)
