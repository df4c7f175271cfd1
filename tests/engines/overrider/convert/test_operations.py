"""Tests of the operations between two states of a workload."""

import copy
from typing import Any

import pytest

from fleethook.engines.overrider.convert.operations import (
    WrittenPatch,
    applies,
    as_patch,
    find_operations,
    own_maps,
    with_own_maps,
)
from fleethook.patch import apply
from tests.builders import container, pod_template, workload

SPEC = "/spec/template/spec"
BEFORE = workload(template=pod_template(containers=[container("a"), container("b", args=["x"])]))


def find(operation: str, path: str, plain: str, *value: Any) -> list[dict[str, Any]]:
    """Return the operations for a written patch whose effect is that of the same patch at a plain path."""
    change = {"op": operation, "path": plain, **({"value": value[0]} if value else {})}
    after = apply(copy.deepcopy(BEFORE), [change])
    return find_operations(BEFORE, after, WrittenPatch(operation, path, value[0] if value else None))


def test_a_written_patch_is_kept_with_plain_paths() -> None:
    plain = f"{SPEC}/containers/1/args"
    assert find("replace", f"{SPEC}/containers/[name=b]/args", plain, ["y"]) == [
        {"op": "replace", "path": plain, "value": ["y"]}
    ]
    assert find("remove", f"{SPEC}/containers/[name=b]/args", plain) == [{"op": "remove", "path": plain}]


def test_a_missing_parent_is_added_first() -> None:
    after = copy.deepcopy(BEFORE)
    after["spec"]["template"]["spec"]["nodeSelector"] = {"disk": "ssd"}
    written = WrittenPatch("add", f"{SPEC}/nodeSelector/disk", "ssd")
    assert find_operations(BEFORE, after, written) == [
        {"op": "add", "path": f"{SPEC}/nodeSelector", "value": {}},
        {"op": "add", "path": f"{SPEC}/nodeSelector/disk", "value": "ssd"},
    ]


@pytest.mark.parametrize(
    "written",
    [
        None,
        WrittenPatch("add", f"{SPEC}/containers/-", container("other")),
        WrittenPatch("add", f"{SPEC}/containers/[name=new]", {"image": "nginx:1.0"}),
        WrittenPatch("replace", f"{SPEC}/containers/[name=absent]", container("new")),
        WrittenPatch("replace", "no pointer", 1),
    ],
)
def test_other_steps_become_the_difference_and_append_at_the_end(written: WrittenPatch | None) -> None:
    after = copy.deepcopy(BEFORE)
    after["spec"]["template"]["spec"]["containers"].append(container("new"))
    assert find_operations(BEFORE, after, written) == [
        {"op": "add", "path": f"{SPEC}/containers/-", "value": container("new")}
    ]


def test_an_insertion_in_the_middle_keeps_its_index() -> None:
    after = copy.deepcopy(BEFORE)
    after["spec"]["template"]["spec"]["containers"][1]["args"] = ["y", "x"]
    operations = find_operations(BEFORE, after, None)
    assert applies(BEFORE, operations, after)
    assert not any(one["path"].endswith("/-") for one in operations)


def test_operations_that_fail_or_differ_do_not_apply() -> None:
    assert not applies(BEFORE, [{"op": "remove", "path": "/spec/absent"}], BEFORE)
    assert not applies(BEFORE, [{"op": "add", "path": "/spec/paused", "value": True}], BEFORE)
    assert applies(BEFORE, [], BEFORE)


def test_maps_that_only_the_workload_has_are_added_once_before_their_keys() -> None:
    labels, annotations = ("metadata", "labels"), ("metadata", "annotations")
    base = {**BEFORE, "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}}
    template = {"metadata": {"labels": {}}, "spec": {"template": pod_template(nodeSelector={"x": "y"})}}
    base["spec"] = template["spec"]
    maps = own_maps(base, template)
    assert maps == {labels: {"a": "b"}, annotations: {"c": "d"}}
    keys = [{"op": "add", "path": f"/metadata/labels/{name}", "value": "1"} for name in "xy"]
    replaced = {"op": "replace", "path": "/metadata/annotations", "value": {}}
    later = {"op": "add", "path": "/metadata/annotations/z", "value": "1"}
    assert with_own_maps([*keys, replaced, later], maps) == [
        {"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}, *keys, replaced, later,
    ]  # fmt: skip


def test_a_patch_has_the_members_of_a_tweak() -> None:
    assert as_patch({"op": "add", "path": "/a", "value": None}) == {"operation": "add", "path": "/a", "value": None}
    assert as_patch({"op": "remove", "path": "/a"}) == {"operation": "remove", "path": "/a"}
