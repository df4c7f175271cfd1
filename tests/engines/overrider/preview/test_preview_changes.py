"""Workloads of node pools before and after a change."""

from typing import Any

from fleethook.cluster.store import key_of
from fleethook.engines.overrider.plan.plan_cache import PlanCache
from fleethook.engines.overrider.preview.preview import Cell, Preview, cells, preview
from fleethook.engines.overrider.preview.preview_changes import PoolKey, compare_previews, find_unaffected, pool_key
from tests.builders import entry, image, node_pool, overrider, patch, pool, store_of, yurt_app_set

LABELS = "/metadata/labels"


def render(*objects: dict[str, Any]) -> dict[PoolKey, Preview]:
    store, plans = store_of(*objects), PlanCache()
    return {pool_key(cell): preview(cell, store, plans) for cell in cells(store, [""])}


def compare(before: tuple[dict[str, Any], ...], after: tuple[dict[str, Any], ...]) -> dict[str, list[Any]]:
    """Return the paths, values and sources of changes by node pool."""
    changes = compare_previews(render(*before), render(*after), failed=())
    return {one.preview.pool: [tuple(change) for change in one.changes] for one in changes}


def test_equal_workloads_are_left_out() -> None:
    rule = overrider(entry("beijing", items=[image("nginx", "nginx:2")]))
    assert compare((yurt_app_set(), rule), (yurt_app_set(), rule)) == {}


def test_a_field_that_the_overrider_no_longer_sets_names_no_entry() -> None:
    rule = overrider(entry("beijing", items=[image("nginx", "nginx:2")]))
    path = "/spec/template/spec/containers/0/image"
    assert compare((yurt_app_set(), rule), (yurt_app_set(),)) == {"beijing": [(path, "nginx:2", "nginx:1.0", "")]}
    assert compare((yurt_app_set(),), (yurt_app_set(), rule)) == {
        "beijing": [(path, "nginx:1.0", "nginx:2", "entries[0].items[0]")]
    }


def test_a_removed_field_names_the_entry_that_set_it() -> None:
    rule = overrider(entry("beijing", patches=[patch("add", f"{LABELS}/zone", "b")]))
    assert compare((yurt_app_set(), rule), (yurt_app_set(),)) == {
        "beijing": [(f"{LABELS}/zone", "b", None, "entries[0].patches[0]")]
    }


def test_an_edit_of_the_template_affects_each_pool() -> None:
    changes = compare((yurt_app_set(),), (yurt_app_set(pools=[pool("hangzhou", 3), pool("beijing", 4)]),))
    assert changes == {"hangzhou": [("/spec/replicas", 2, 3, "")], "beijing": [("/spec/replicas", 2, 4, "")]}


def test_a_workload_that_cannot_be_rendered_is_not_gone() -> None:
    before = render(yurt_app_set())
    gone, failed = before
    (change,) = compare_previews(before, {}, failed=[failed])
    assert (change.after, change.preview) == (None, before[gone])


def list_cells(*objects: dict[str, Any]) -> dict[PoolKey, Cell]:
    return {pool_key(cell): cell for cell in cells(store_of(*objects), [""])}


def test_workloads_of_other_subjects_are_unaffected() -> None:
    demo, other, rule = yurt_app_set(), yurt_app_set("other"), overrider(entry("beijing"))
    edited = overrider(entry("hangzhou"))
    same = find_unaffected(list_cells(demo, other, rule), list_cells(demo, other, edited), [key_of(edited)])
    assert {key.subject.name for key in same} == {"other"}
    moved = yurt_app_set("other", pools=[pool("hangzhou"), pool("new")])
    assert find_unaffected(list_cells(other), list_cells(moved), [key_of(moved)]) == set()


def test_a_changed_node_pool_may_affect_each_workload() -> None:
    cells_of = list_cells(yurt_app_set())
    assert find_unaffected(cells_of, cells_of, [key_of(node_pool("hangzhou"))]) == set()
