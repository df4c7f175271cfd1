import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.model.merge_keys import WORKLOAD
from app.patch import StrategicMergeError, strategic_merge

BASE: Any = {
    "metadata": {"labels": {"a": "1"}, "finalizers": ["x"]},
    "spec": {
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}},
        "template": {
            "spec": {
                "containers": [{"name": "c0", "image": "i0", "args": ["--a"]}, {"name": "c1", "image": "i1"}],
                "volumes": [{"name": "v", "configMap": {"name": "cm"}}],
                "tolerations": [{"key": "k"}],
            }
        },
    },
}


def pod(**fields: Any) -> Any:
    return {"spec": {"template": {"spec": fields}}}


def merged_pod(patch: Any) -> Any:
    return strategic_merge(BASE, patch, WORKLOAD)["spec"]["template"]["spec"]


def test_a_list_with_a_merge_key_merges_element_by_element() -> None:
    result = merged_pod(pod(containers=[{"name": "c1", "image": "new"}, {"name": "c2", "image": "i2"}]))
    assert result["containers"] == [
        {"name": "c0", "image": "i0", "args": ["--a"]},
        {"name": "c1", "image": "new"},
        {"name": "c2", "image": "i2"},
    ]


def test_a_list_without_a_merge_key_is_replaced() -> None:
    assert merged_pod(pod(tolerations=[{"key": "z"}]))["tolerations"] == [{"key": "z"}]
    assert merged_pod(pod(containers=[{"name": "c0", "args": ["--b"]}]))["containers"][0]["args"] == ["--b"]


def test_null_deletes_a_member() -> None:
    assert "tolerations" not in merged_pod(pod(tolerations=None))


def test_patch_delete_removes_an_element_and_replace_replaces_one() -> None:
    result = merged_pod(
        pod(containers=[{"name": "c0", "$patch": "delete"}, {"name": "c1", "$patch": "replace", "tty": True}])
    )
    assert result["containers"] == [{"name": "c1", "tty": True}]


def test_patch_replace_replaces_an_object_or_a_whole_list() -> None:
    assert strategic_merge(BASE, {"metadata": {"$patch": "replace", "labels": {}}}, WORKLOAD)["metadata"] == {
        "labels": {}
    }
    result = merged_pod(pod(containers=[{"$patch": "replace"}, {"name": "only"}]))
    assert result["containers"] == [{"name": "only"}]


def test_patch_delete_removes_an_object() -> None:
    assert "strategy" not in strategic_merge(BASE, {"spec": {"strategy": {"$patch": "delete"}}}, WORKLOAD)["spec"]


def test_retain_keys_drops_what_it_does_not_name() -> None:
    patch = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}
    assert strategic_merge(BASE, patch, WORKLOAD)["spec"]["strategy"] == {"type": "Recreate"}


def test_primitive_lists_merge_as_sets_and_can_be_deleted_from() -> None:
    added = strategic_merge(BASE, {"metadata": {"finalizers": ["y", "x"]}}, WORKLOAD)
    assert added["metadata"]["finalizers"] == ["x", "y"]
    removed = strategic_merge(BASE, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["x"]}}, WORKLOAD)
    assert removed["metadata"]["finalizers"] == []


def test_set_element_order_sorts_and_leaves_server_elements_where_they_stood() -> None:
    order = {"$setElementOrder/containers": [{"name": "c2"}, {"name": "c1"}], "containers": [{"name": "c2"}]}
    assert [element["name"] for element in merged_pod(pod(**order))["containers"]] == ["c2", "c0", "c1"]


@pytest.mark.parametrize(
    ("patch", "place"),
    [
        (pod(containers=[{"image": "x"}]), "/spec/template/spec/containers/0"),
        (pod(containers={"name": "x"}), "/spec/template/spec/containers"),
        ({"spec": {"$patch": "explode"}}, "/spec/$patch"),
        ({"spec": {"$what": 1}}, "/spec/$what"),
        (pod(**{"$setElementOrder/containers": "c0"}), "/spec/template/spec"),
    ],
)
def test_what_does_not_fit_is_an_error_with_its_place(patch: Any, place: str) -> None:
    with pytest.raises(StrategicMergeError) as caught:
        strategic_merge(BASE, patch, WORKLOAD)
    assert str(caught.value).startswith(f"{place}: ")


ELEMENTS = st.lists(
    st.fixed_dictionaries({"name": st.sampled_from("abc")}, optional={"image": st.sampled_from("xy")}),
    unique_by=lambda element: element["name"],
    max_size=3,
)
PATCHES = st.fixed_dictionaries({}, optional={"containers": ELEMENTS, "nodeSelector": st.none() | st.just({"z": "1"})})


@settings(max_examples=200, deadline=None)
@given(ELEMENTS, PATCHES)
def test_merging_twice_is_merging_once_and_nothing_given_is_changed(elements: Any, fields: Any) -> None:
    original, patch = pod(containers=elements), pod(**fields)
    kept = copy.deepcopy((original, patch))
    once = strategic_merge(original, patch, WORKLOAD)
    assert strategic_merge(once, patch, WORKLOAD) == once
    assert (original, patch) == kept


def test_a_patch_that_changes_nothing_gives_the_object_itself() -> None:
    assert strategic_merge(BASE, pod(containers=[{"name": "c1", "image": "i1"}]), WORKLOAD) is BASE
