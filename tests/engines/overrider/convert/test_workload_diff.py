"""Tests of the operations between two states of a workload."""

import copy
from typing import Any

import pytest

from fleethook.engines.overrider.convert.workload_diff import (
    MISSING,
    Loss,
    WrittenPatch,
    applies,
    as_patch,
    fill_pool,
    find_losses,
    find_operations,
    own_maps,
    replace_text,
    unset_operation,
    unset_removals,
    with_own_maps,
    with_tokens,
    without_zeros,
)
from fleethook.patch import apply
from fleethook.workload_schema.value_marks import POOL_MARK
from tests.builders import container, pod_template, workload

SPEC = "/spec/template/spec"
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


@pytest.mark.parametrize(
    ("spec", "kept"),
    [
        ({"strategy": {}, "paused": False, "minReadySeconds": 0}, {}),
        ({"replicas": 0, "revisionHistoryLimit": 0}, {"replicas": 0, "revisionHistoryLimit": 0}),
        ({"paused": 0, "minReadySeconds": False}, {"paused": 0, "minReadySeconds": False}),
        ({"unknown": {}, "other": 0}, {"unknown": {}, "other": 0}),
        (
            {"strategy": {"type": "", "rollingUpdate": {"maxSurge": 0}}},
            {"strategy": {"rollingUpdate": {"maxSurge": 0}}},
        ),
    ],
)
def test_zero_values_of_members_without_pointer_are_removed(spec: dict[str, Any], kept: dict[str, Any]) -> None:
    bare = without_zeros(workload(), "Deployment")
    assert without_zeros(workload(**{"replicas": 2, **spec}), "Deployment")["spec"] == {**bare["spec"], **kept}


def test_lists_and_maps_are_removed_if_they_are_empty_and_elements_stay() -> None:
    template = pod_template(
        containers=[container(args=[], env=[{"name": "A", "value": ""}, {}], resources={"limits": {}})],
        nodeSelector={},
        volumes=[{"name": "v", "emptyDir": {}}],
    )
    pods = without_zeros(workload(template=template), "Deployment")["spec"]["template"]["spec"]
    assert pods == {
        "containers": [container(env=[{"name": "A"}, {}])],
        "volumes": [{"name": "v", "emptyDir": {}}],
    }


def test_a_pointer_to_a_struct_keeps_an_empty_struct_without_zeros() -> None:
    template = pod_template(securityContext={"sysctls": [], "runAsUser": 0})
    made = without_zeros(workload(template=template), "Deployment")["spec"]["template"]["spec"]
    assert made["securityContext"] == {"runAsUser": 0}


def test_values_of_maps_are_kept() -> None:
    template = pod_template(nodeSelector={"a": ""})
    assert without_zeros(workload(template=template), "Deployment")["spec"]["template"]["spec"]["nodeSelector"] == {
        "a": ""
    }


def test_a_stateful_set_has_its_own_members() -> None:
    made = without_zeros(workload("StatefulSet", serviceName="", volumeClaimTemplates=[]), "StatefulSet")
    assert not {"serviceName", "volumeClaimTemplates"} & made["spec"].keys()


POD = ("spec", "template", "spec")


def test_each_difference_has_its_path_and_both_values() -> None:
    wanted = workload(template=pod_template(containers=[container(args=["a"]), container("b")]), paused=True)
    got = workload(template=pod_template(containers=[container(args=["a", "b"]), container("c")]), minReadySeconds=3)
    assert [(one.path, one.wanted, one.got) for one in find_losses(wanted, got, "Deployment")] == [
        (f"{SPEC}/containers/0/args", ["a"], ["a", "b"]),
        (f"{SPEC}/containers/1/name", "b", "c"),
        ("/spec/paused", True, MISSING),
        ("/spec/minReadySeconds", MISSING, 3),
    ]


def test_zero_values_are_no_difference() -> None:
    zeros = workload(template=pod_template(hostNetwork=False, volumes=[]), strategy={}, minReadySeconds=0)
    assert list(find_losses(workload(template=pod_template()), zeros, "Deployment")) == []


@pytest.mark.parametrize(
    ("tokens", "got", "zero"),
    [
        (("spec", "paused"), True, False),
        (("spec", "minReadySeconds"), 3, 0),
        (("spec", "replicas"), 3, None),
        ((*POD, "containers", "0", "workingDir"), "/w", ""),
        ((*POD, "containers", "0", "args"), ["a"], None),
        ((*POD, "nodeSelector"), {"a": "b"}, None),
        ((*POD, "containers", "0", "resources"), {"limits": {"cpu": "1"}}, {"limits": None}),
    ],
)
def test_a_member_of_a_struct_is_unset_by_null_or_zero(tokens: tuple[str, ...], got: Any, zero: Any) -> None:
    loss = Loss(tokens, MISSING, got)
    assert unset_operation(loss, "Deployment") == {"op": "add", "path": loss.path, "value": zero}


@pytest.mark.parametrize(
    "loss",
    [
        Loss(("spec", "paused"), False, True),
        Loss((*POD, "nodeSelector", "disk"), MISSING, "ssd"),
        Loss((*POD, "containers", "0"), MISSING, container()),
        Loss((*POD, "unknown"), MISSING, 1),
        Loss(("spec", "template", "spec"), MISSING, {"unknown": 1}),
    ],
)
def test_values_keys_elements_and_unknown_members_are_not_unset(loss: Loss) -> None:
    assert unset_operation(loss, "Deployment") is None


def test_removals_of_members_set_them_and_other_operations_stay() -> None:
    before = workload(template=pod_template(containers=[container(args=["a"])], nodeSelector={"disk": "ssd"}))
    operations = [
        {"op": "add", "path": f"{SPEC}/containers/0", "value": container("new", workingDir="/w")},
        {"op": "remove", "path": f"{SPEC}/containers/0/workingDir"},
        {"op": "remove", "path": f"{SPEC}/containers/1/args"},
        {"op": "remove", "path": f"{SPEC}/nodeSelector/disk"},
        {"op": "remove", "path": f"{SPEC}/containers/0"},
    ]
    made = unset_removals(before, operations, "Deployment")
    assert made[1:3] == [
        {"op": "add", "path": f"{SPEC}/containers/0/workingDir", "value": ""},
        {"op": "add", "path": f"{SPEC}/containers/1/args", "value": None},
    ]
    assert (made[0], made[3:]) == (operations[0], operations[3:])
