from typing import Any

from fleethook.engines.overrider.pages.fleet import (
    CellState,
    find_cell,
    find_state,
    list_running,
    list_subject_keys,
)
from fleethook.engines.overrider.plan.plan_cache import PlanCache
from tests.builders import (
    NEW_IMAGE,
    container,
    entry,
    overrider,
    patch,
    rendered,
    workload,
    yurt_app_daemon,
    yurt_app_set,
)
from tests.engines.overrider.pages.fleet_stores import DEMO, cell_key, make_store


def test_subjects_are_sorted_by_namespace_and_name() -> None:
    store = make_store(yurt_app_set("b"), yurt_app_daemon("a"))
    assert [key.name for key in list_subject_keys(store)] == ["a", "b"]


def test_running_workloads_are_found_by_pool_without_deleted_ones() -> None:
    deleting = workload(pool="beijing")
    deleting["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    found = list_running(make_store(yurt_app_set(), workload(), deleting), DEMO, "Deployment")
    assert {name: [one.name for one in workloads] for name, workloads in found.items()} == {
        "hangzhou": ["demo-hangzhou-x"]
    }


def state(*objects: dict[str, Any], running: tuple[dict[str, Any], ...] = ()) -> CellState:
    store = make_store(yurt_app_set(), *objects)
    cell = find_cell(store, cell_key())
    assert cell is not None
    return find_state(cell, running, store=store, plans=PlanCache())


def test_a_running_workload_that_is_as_its_plan_does_not_roll() -> None:
    current = rendered(workload(), yurt_app_set(), NEW_IMAGE)
    assert state(NEW_IMAGE, running=(current,)) == CellState("overridden", 1)


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
