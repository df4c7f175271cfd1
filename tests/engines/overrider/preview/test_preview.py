"""Tests of the preview of each pool. test_render_properties.py tests it for any subject and overrider."""

from fleethook.engines.overrider.plan.plan_cache import PlanCache
from fleethook.engines.overrider.preview.preview import Change, cells, count_changes, preview
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
    found = list(cells(store, [""]))
    assert [one.title() for one in found] == [
        "YurtAppDaemon default/agent, node pool x, Deployment",
        "YurtAppSet default/b, node pool a, Deployment",
        "YurtAppSet default/demo, node pool hangzhou, Deployment",
        "YurtAppSet default/demo, node pool beijing, Deployment",
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
        Change(ARGS, ["a"], None, "entries[1].patches[0]"),
        Change(IMAGE, "nginx:1.0", "nginx:3", "entries[1].items[0]"),
    ]
    assert beijing.changes == (Change(IMAGE, "nginx:1.0", "nginx:2", "entries[0].items[0]"),)
    assert hangzhou.warnings == ("entries[2].items[0]: no container is named 'other'; there are nginx",)


def test_a_subject_without_overrider_has_no_changes() -> None:
    store = store_of(yurt_app_set(pools=[pool("a")]))
    (cell,) = cells(store, [""])
    shown = preview(cell, store, PlanCache())
    assert (shown.overrider, shown.changes, images(shown.workload)) == ("", (), {"nginx": "nginx:1.0"})
