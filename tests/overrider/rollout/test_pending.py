from typing import Any

from app.overrider.binding import OVERRIDERS_BY_SUBJECT
from app.overrider.plan_cache import PlanCache
from app.overrider.rollout.pending import Pending, find_pending
from app.store import Store
from tests.builders import NEW_IMAGE, entry, overrider, patch, rendered, workload, yurt_app_set


def pending(document: dict[str, Any], *objects: dict[str, Any]) -> Pending:
    store = Store([OVERRIDERS_BY_SUBJECT])
    for one in objects:
        store.put(one)
    return find_pending(document, kind="Deployment", store=store, plans=PlanCache())


def test_a_workload_as_its_plan_stays_unchanged() -> None:
    document = rendered(workload(), yurt_app_set(), NEW_IMAGE)
    found = pending(document, yurt_app_set(), NEW_IMAGE)
    assert (found.effect.name, found.effect.replicas, found.error) == ("unchanged", (2, 2), "")


def test_a_workload_with_another_image_rolls_its_pods() -> None:
    found = pending(workload(), yurt_app_set(), NEW_IMAGE)
    assert (found.effect.name, found.effect.pods) == ("rolls", 2)
    assert "/spec/template/spec/containers/0/image" in found.effect.paths


def test_a_workload_with_other_replicas_only_scales() -> None:
    scaled = overrider(entry("*", items=[{"replicas": 5}]))
    found = pending(workload(), yurt_app_set(), scaled)
    assert (found.effect.name, found.effect.pods, found.effect.replicas) == ("scales", 3, (2, 5))


def test_an_entry_that_does_not_fit_is_an_error() -> None:
    broken = overrider(entry("*", patches=[patch("replace", "/spec/nothing", 1)]))
    found = pending(workload(), yurt_app_set(), broken)
    assert found.effect.name == "error"
    assert "/spec/nothing" in found.error
