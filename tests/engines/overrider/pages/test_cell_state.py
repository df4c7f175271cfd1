from typing import Any

from fleethook.cluster.store import Store
from fleethook.engines.overrider.pages.cell_state import CellState, Pending, find_pending, find_state
from fleethook.engines.overrider.pages.fleet import find_cell
from fleethook.engines.overrider.plan.plan_cache import PlanCache
from fleethook.engines.overrider.subject.binding import OVERRIDERS_BY_SUBJECT
from tests.builders import NEW_IMAGE, container, entry, overrider, patch, rendered, workload, yurt_app_set
from tests.engines.overrider.pages.fleet_stores import cell_key, make_store


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


def test_an_entry_that_does_not_fit_a_running_workload_is_an_error() -> None:
    broken = overrider(entry("*", patches=[patch("replace", "/spec/nothing", 1)]))
    found = pending(workload(), yurt_app_set(), broken)
    assert found.effect.name == "error"
    assert "/spec/nothing" in found.error


def state(*objects: dict[str, Any], running: tuple[dict[str, Any], ...] = ()) -> CellState:
    store = make_store(yurt_app_set(), *objects)
    cell = find_cell(store, cell_key())
    assert cell is not None
    return find_state(cell, running, store=store, plans=PlanCache())


def test_a_pool_without_an_overrider_is_unchanged() -> None:
    assert state() == CellState("unchanged")


def test_a_pool_that_an_entry_changes_is_overridden() -> None:
    assert state(NEW_IMAGE) == CellState("overridden", 1)


def test_a_running_workload_that_is_as_its_plan_does_not_roll() -> None:
    current = rendered(workload(), yurt_app_set(), NEW_IMAGE)
    assert state(NEW_IMAGE, running=(current,)) == CellState("overridden", 1)


def test_a_running_workload_with_another_pod_template_would_roll() -> None:
    assert state(NEW_IMAGE, running=(workload(),)) == CellState("rolls", 1, "replaces 2 pods")


def test_the_paused_deployment_says_so() -> None:
    found = state(NEW_IMAGE, running=(workload(paused=True),))
    assert found.state == "rolls"
    assert "paused" in found.text


def test_a_running_workload_that_only_scales_keeps_its_state_and_says_so() -> None:
    scaled = overrider(entry("*", items=[{"replicas": 5}]))
    found = state(scaled, running=(workload(),))
    assert (found.state, found.changes) == ("overridden", 1)
    assert found.text == "scales from 2 to 5 replicas"


def test_an_entry_that_does_not_fit_is_an_error() -> None:
    broken = overrider(entry("*", patches=[patch("replace", "/spec/nothing", 1)]))
    found = state(broken)
    assert found.state == "error"
    assert "/spec/nothing" in found.text


def test_a_running_workload_that_cannot_be_rendered_is_an_error() -> None:
    adds = overrider(
        entry("*", patches=[patch("add", "/spec/template/spec/containers/-", container("side", "side:1"))])
    )
    taken = workload()
    taken["spec"]["template"]["spec"]["containers"].append(container("side", "other:1"))
    found = state(adds, running=(taken,))
    assert found.state == "error"
    assert "side" in found.text
