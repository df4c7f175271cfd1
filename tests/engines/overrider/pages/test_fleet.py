from typing import Any

from fleethook.cluster.store import ObjectKey
from fleethook.engines.overrider.pages.fleet import (
    CellState,
    find_cell,
    find_state,
    list_running,
    list_subject_keys,
    make_row,
    workload_key,
)
from fleethook.engines.overrider.plan.plan_cache import PlanCache
from fleethook.model.gvk import GroupKind
from tests.builders import (
    NEW_IMAGE,
    container,
    entry,
    node_pool,
    overrider,
    patch,
    pool,
    rendered,
    workload,
    yurt_app_daemon,
    yurt_app_set,
)
from tests.engines.overrider.pages.fleet_stores import DEMO, cell_key, make_store


def test_rows_have_sorted_pools_and_the_overrider_in_effect() -> None:
    store = make_store(yurt_app_set(pools=[pool("b"), pool("a")]), NEW_IMAGE)
    row = make_row(store, DEMO)
    assert row is not None
    assert (row.key, list(row.pools), list(row.kinds), row.overrider) == (DEMO, ["a", "b"], ["Deployment"], "demo1")
    assert (row.title, row.size) == ("YurtAppSet default/demo", 2)


def test_subjects_are_sorted_by_namespace_and_name() -> None:
    store = make_store(yurt_app_set("b"), yurt_app_daemon("a"))
    assert [key.name for key in list_subject_keys(store)] == ["a", "b"]


def test_a_daemon_has_the_pools_that_its_selector_matches() -> None:
    store = make_store(yurt_app_daemon(), node_pool("east", {"region": "east"}), node_pool("west", {"region": "west"}))
    row = make_row(store, *list_subject_keys(store))
    assert row is not None
    assert list(row.pools) == ["east"]


def test_a_missing_subject_has_neither_row_nor_cell() -> None:
    store = make_store()
    assert make_row(store, DEMO) is None
    assert find_cell(store, cell_key()) is None


def test_a_subject_of_a_logical_cluster_names_it() -> None:
    document = yurt_app_set()
    document["metadata"]["annotations"] = {"kcp.io/cluster": "root:a"}
    row = make_row(make_store(document), DEMO._replace(cluster="root:a"))
    assert row is not None
    assert row.title == "YurtAppSet default/demo of root:a"


def test_running_workloads_are_found_by_pool_without_deleted_ones() -> None:
    deleting = workload(pool="beijing")
    deleting["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    store = make_store(yurt_app_set(), workload(), deleting)
    found = list_running(store, DEMO, "Deployment")
    assert {name: [one.name for one in workloads] for name, workloads in found.items()} == {
        "hangzhou": ["demo-hangzhou-x"]
    }
    assert list_running(store, DEMO, "Deployment", {"hangzhou", "beijing"}) == found
    assert list_running(store, DEMO, "Deployment", {"beijing"}) == {}
    key = workload_key(found["hangzhou"][0], DEMO, "Deployment")
    assert key == ObjectKey("", GroupKind("apps", "Deployment"), "default", "demo-hangzhou-x")


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
