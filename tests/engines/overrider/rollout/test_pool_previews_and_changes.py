"""Tests of the preview of each pool. test_render_properties.py tests it for any subject and overrider."""

from typing import Any

import pytest

from fleethook.cluster.store import key_of
from fleethook.engines.overrider.plan.plan_cache import PlanCache
from fleethook.engines.overrider.render.undo_and_annotations import read_last_render
from fleethook.engines.overrider.rollout.pool_previews_and_changes import (
    CellKey,
    FieldChange,
    PoolWorkload,
    Preview,
    cell_key,
    cells,
    compare_previews,
    count_changes,
    find_unaffected,
    preview,
)
from fleethook.patch import resolve_pointer
from tests.builders import (
    container,
    entry,
    image,
    images,
    node_pool,
    overrider,
    patch,
    pod_template,
    pool,
    store_of,
    yurt_app_daemon,
    yurt_app_set,
)

IMAGE = "/spec/template/spec/containers/0/image"
ARGS = "/spec/template/spec/containers/0/args"


def test_there_is_a_cell_for_each_pool_of_each_subject() -> None:
    rule = overrider(entry("*", items=[image("nginx", "nginx:2")]))
    elsewhere = yurt_app_set("b", pools=[pool("a")])
    del elsewhere["metadata"]["namespace"]
    store = store_of(yurt_app_set(), rule, elsewhere, yurt_app_daemon(), node_pool("x", {"region": "east"}))
    found = sorted(cells(store, [""]), key=lambda one: cell_key(one).subject)
    assert [(one.subject.document["metadata"]["name"], one.pool, one.kind) for one in found] == [
        ("agent", "x", "Deployment"),
        ("b", "a", "Deployment"),
        ("demo", "hangzhou", "Deployment"),
        ("demo", "beijing", "Deployment"),
    ]
    assert [one.overrider for one in found] == [None, None, rule, rule]


def test_a_preview_names_the_last_step_behind_each_change() -> None:
    rule = overrider(
        entry("*", items=[image("nginx", "nginx:2")]),
        entry("hangzhou", items=[image("nginx", "nginx:3")], patches=[patch("remove", ARGS)]),
        entry("*", items=[image("other", "x:1")]),
    )
    store = store_of(yurt_app_set(template=pod_template(containers=[container(args=["a"])])), rule)
    hangzhou, beijing = (preview(cell, store, PlanCache()) for cell in cells(store, [""]))
    assert [count_changes(cell, store, PlanCache()) for cell in cells(store, [""])] == [2, 1]
    assert hangzhou[:4] == ("YurtAppSet default/demo", "demo1", "hangzhou", "Deployment")
    assert images(hangzhou.workload) == {"nginx": "nginx:3"}
    assert sorted(hangzhou.changes) == [
        FieldChange(ARGS, ["a"], None, "entries[1].patches[0]"),
        FieldChange(IMAGE, "nginx:1.0", "nginx:3", "entries[1].items[0]"),
    ]
    assert beijing.changes == (FieldChange(IMAGE, "nginx:1.0", "nginx:2", "entries[0].items[0]"),)
    assert hangzhou.warnings == ("entries[2].items[0]: no container is named 'other'; there are nginx",)


@pytest.mark.parametrize(
    ("path", "default"), [("/spec/replicas", 1), ("/spec/template/spec/terminationGracePeriodSeconds", 30)]
)
def test_a_removed_default_is_gone_from_the_workload_as_from_the_changes(path: str, default: int) -> None:
    rule = overrider(entry("*", patches=[patch("remove", path)]))
    template = pod_template(terminationGracePeriodSeconds=30)
    store = store_of(yurt_app_set(pools=[pool("a", 1)], template=template), rule)
    (cell,) = cells(store, [""])
    shown = preview(cell, store, PlanCache())
    assert shown.changes == (FieldChange(path, default, None, "entries[0].patches[0]"),)
    with pytest.raises(LookupError):
        resolve_pointer(shown.workload, path)
    assert read_last_render(shown.workload) is not None


def render(*objects: dict[str, Any]) -> dict[CellKey, Preview]:
    store, plans = store_of(*objects), PlanCache()
    return {cell_key(cell): preview(cell, store, plans) for cell in cells(store, [""])}


def compare(before: tuple[dict[str, Any], ...], after: tuple[dict[str, Any], ...]) -> dict[str, list[Any]]:
    """Return the paths, values and sources of changes by node pool."""
    changes = compare_previews(render(*before), render(*after), failed=())
    return {one.preview.pool: [tuple(change) for change in one.changes] for one in changes}


def test_a_field_that_the_overrider_no_longer_sets_names_no_entry() -> None:
    rule = overrider(entry("beijing", items=[image("nginx", "nginx:2")]))
    path = "/spec/template/spec/containers/0/image"
    assert compare((yurt_app_set(), rule), (yurt_app_set(),)) == {"beijing": [(path, "nginx:2", "nginx:1.0", "")]}
    assert compare((yurt_app_set(),), (yurt_app_set(), rule)) == {
        "beijing": [(path, "nginx:1.0", "nginx:2", "entries[0].items[0]")]
    }


def test_defaults_of_the_server_are_no_changes() -> None:
    """OpenYurt's webhook for YurtAppSets v1alpha1 stores defaults of Pods in templates."""
    defaults: dict[str, Any] = {"imagePullPolicy": "IfNotPresent", "terminationMessagePath": "/dev/termination-log"}
    stored = pod_template(restartPolicy="Always", containers=[container("nginx", "nginx:1.1", **defaults)])
    written = pod_template(containers=[container("nginx", "nginx:1.1")])
    assert compare((yurt_app_set(template=stored),), (yurt_app_set(template=written),)) == {}
    never = pod_template(containers=[container("nginx", "nginx:1.1", imagePullPolicy="Never")])
    policy = "/spec/template/spec/containers/0/imagePullPolicy"
    changes = compare((yurt_app_set(template=stored),), (yurt_app_set(template=never),))
    assert changes["hangzhou"] == [(policy, "IfNotPresent", "Never", "")]


def test_a_workload_that_cannot_be_rendered_is_not_gone() -> None:
    before = render(yurt_app_set())
    gone, failed = before
    (change,) = compare_previews(before, {}, failed=[failed])
    assert (change.after, change.preview) == (None, before[gone])


def list_cells(*objects: dict[str, Any]) -> dict[CellKey, PoolWorkload]:
    return {cell_key(cell): cell for cell in cells(store_of(*objects), [""])}


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
