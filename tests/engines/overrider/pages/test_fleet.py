from fleethook.cluster.store import ObjectKey
from fleethook.engines.overrider.pages.fleet import (
    find_cell,
    list_rows,
    list_running,
    list_subject_keys,
    make_row,
    workload_key,
)
from fleethook.model.gvk import GroupKind
from fleethook.work.slices import run_at_once
from tests.builders import NEW_IMAGE, node_pool, pool, workload, yurt_app_daemon, yurt_app_set
from tests.engines.overrider.pages.fleet_stores import DEMO, cell_key, make_store


def test_rows_have_sorted_pools_and_the_overrider_in_effect() -> None:
    store = make_store(yurt_app_set(pools=[pool("b"), pool("a")]), NEW_IMAGE)
    (row,) = run_at_once(list_rows(store))
    assert (row.key, list(row.pools), list(row.kinds), row.overrider) == (DEMO, ["a", "b"], ["Deployment"], "demo1")
    assert (row.title, row.size) == ("YurtAppSet default/demo", 2)


def test_subjects_are_sorted_by_namespace_and_name() -> None:
    store = make_store(yurt_app_set("b"), yurt_app_daemon("a"))
    assert [key.name for key in list_subject_keys(store)] == ["a", "b"]


def test_a_daemon_has_the_pools_that_its_selector_matches() -> None:
    store = make_store(yurt_app_daemon(), node_pool("east", {"region": "east"}), node_pool("west", {"region": "west"}))
    (row,) = run_at_once(list_rows(store))
    assert list(row.pools) == ["east"]


def test_a_missing_subject_has_neither_row_nor_cell() -> None:
    store = make_store()
    assert make_row(store, DEMO) is None
    assert find_cell(store, cell_key()) is None


def test_a_subject_of_a_logical_cluster_names_it() -> None:
    document = yurt_app_set()
    document["metadata"]["annotations"] = {"kcp.io/cluster": "root:a"}
    (row,) = run_at_once(list_rows(make_store(document)))
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
