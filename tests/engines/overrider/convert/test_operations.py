"""Tests of the operations between two states of a workload."""

import copy
from typing import Any

import pytest

from fleethook.engines.overrider.convert.operations import (
    WrittenPatch,
    applies,
    as_patch,
    fill_pool,
    find_operations,
    own_maps,
    replace_text,
    with_own_maps,
    with_tokens,
)
from fleethook.engines.overrider.entries.value_marks import POOL_MARK
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


M, T = POOL_MARK, "{{nodepool-name}}"
SPEC = "/spec/template/spec"


def test_text_is_replaced_in_values_and_keys() -> None:
    assert replace_text({"a-x": ["x", 1, {"x": None}]}, "x", "y") == {"a-y": ["y", 1, {"y": None}]}


def test_the_mark_becomes_the_name_of_the_pool() -> None:
    operation = {"op": "add", "path": f"/metadata/annotations/{M}", "value": f"in {M}"}
    assert fill_pool([operation], "a") == [{"op": "add", "path": "/metadata/annotations/a", "value": "in a"}]


@pytest.mark.parametrize(
    ("path", "value", "shown"),
    [
        (f"{SPEC}/containers/0/image", f"r.io/{M}:1", f"r.io/{T}:1"),
        (f"{SPEC}/containers/0/env", [{"name": "P", "value": M}], [{"name": "P", "value": T}]),
        (f"{SPEC}/volumes/0/name", M, "a"),
        (f"{SPEC}/serviceAccountName", f"sa-{M}", "sa-a"),
        (f"{SPEC}/volumes", [{"name": M, "hostPath": {"path": f"/{M}"}}], [{"name": "a", "hostPath": {"path": "/a"}}]),
        (f"{SPEC}/nodeSelector", {"pool": M}, {"pool": T}),
        (f"{SPEC}/nodeSelector", {"pool": f"in-{M}"}, {"pool": "in-a"}),
        (f"{SPEC}/nodeSelector/pool", f"{M}-x", "a-x"),
        (f"{SPEC}/nodeSelector", {M: "x"}, {"a": "x"}),
        ("/metadata/annotations", {f"k-{M}": "x"}, {"k-a": "x"}),
        ("/metadata/annotations/note", f"in-{M}", f"in-{T}"),
    ],
)
def test_the_token_is_used_where_an_empty_name_is_valid(path: str, value: Any, shown: Any) -> None:
    operation = {"op": "add", "path": path, "value": value}
    assert with_tokens(operation, "a") == {**operation, "value": shown}


def test_a_path_has_the_name_of_the_pool() -> None:
    assert with_tokens({"op": "remove", "path": f"{SPEC}/nodeSelector/{M}"}, "a") == {
        "op": "remove",
        "path": f"{SPEC}/nodeSelector/a",
    }
