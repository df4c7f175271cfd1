"""The expected results are those of apimachinery's strategicpatch v0.36 for apps/v1 Deployment, except where noted."""

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleethook.model.merge_keys import WORKLOAD
from fleethook.patch import StrategicMergeError, identical, merge_patch, strategic_merge
from fleethook.patch.strategic_merge_patch import order_elements
from tests.hypothesis_profiles import examples

BASE: Any = {
    "metadata": {"labels": {"a": "1"}, "finalizers": ["x", "y"]},
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


def named(*names: str) -> list[dict[str, Any]]:
    return [{"name": name} for name in names]


def merged_pod(patch: Any) -> Any:
    return strategic_merge(BASE, patch, WORKLOAD)["spec"]["template"]["spec"]


def merged_spec(**fields: Any) -> Any:
    return strategic_merge(BASE, {"spec": fields}, WORKLOAD)["spec"]


def merged_names(before: list[Any], **patch: Any) -> list[str]:
    result = strategic_merge(pod(containers=before), pod(**patch), WORKLOAD)
    return [element["name"] for element in result["spec"]["template"]["spec"]["containers"]]


def test_a_list_with_a_merge_key_merges_element_by_element() -> None:
    result = merged_pod(
        pod(containers=[{"name": "c1", "image": "new", "$patch": "merge"}, {"name": "c2", "image": "i2"}])
    )
    assert result["containers"] == [
        {"name": "c0", "image": "i0", "args": ["--a"]},
        {"name": "c1", "image": "new"},
        {"name": "c2", "image": "i2"},
    ]


@pytest.mark.parametrize("field", ["tolerations", "readinessGates"])
def test_a_list_without_a_merge_key_is_replaced(field: str) -> None:
    assert merged_pod(pod(**{field: [{"key": "z"}]}))[field] == [{"key": "z"}]


def test_a_list_of_arguments_is_replaced() -> None:
    assert merged_pod(pod(containers=[{"name": "c0", "args": ["--b"]}]))["containers"][0]["args"] == ["--b"]


def test_null_deletes_a_member() -> None:
    assert "tolerations" not in merged_pod(pod(tolerations=None))


def test_null_for_a_missing_member_changes_nothing() -> None:
    assert strategic_merge(BASE, pod(nodeSelector=None), WORKLOAD) is BASE


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        (pod(nodeSelector={"a": None}), {"a": None}),
        (pod(nodeSelector={"a": None, "b": "1"}), {"a": None, "b": "1"}),
        (pod(nodeSelector=None), None),
    ],
)
def test_older_releases_keep_the_nulls_of_new_objects(patch: Any, expected: Any) -> None:
    merged = strategic_merge(BASE, patch, WORKLOAD, keeps_nulls=True)
    assert merged["spec"]["template"]["spec"].get("nodeSelector") == expected
    known = strategic_merge(BASE, {"metadata": {"labels": {"a": None, "b": None}}}, WORKLOAD, keeps_nulls=True)
    assert known["metadata"]["labels"] == {}


def test_new_values_contain_no_nulls() -> None:
    patch = pod(securityContext={"fsGroup": None, "runAsUser": 1}, containers=[{"name": "c2", "tty": None}])
    result = merged_pod(patch)
    assert result["securityContext"] == {"runAsUser": 1}
    assert {"name": "c2"} in result["containers"]


@pytest.mark.parametrize(
    ("before", "patch", "after"),
    [
        # New elements of the patch precede elements that it does not name.
        (named("a", "b"), {"containers": named("new")}, ["new", "a", "b"]),
        (named("a", "b", "c"), {"containers": named("c", "a")}, ["b", "c", "a"]),
        (named("a", "b", "c"), {"containers": named("b", "new")}, ["a", "b", "new", "c"]),
        (named("a", "b", "c"), {"$setElementOrder/containers": named("c", "a")}, ["b", "c", "a"]),
        (named("a", "b", "c"), {"$setElementOrder/containers": named("c", "a"), "containers": []}, ["b", "c", "a"]),
        (
            named("a", "b"),
            {"$setElementOrder/containers": named("a", "new", "b"), "containers": named("new")},
            ["a", "new", "b"],
        ),
        (named("a", "b"), {"containers": [{"$patch": "replace"}, {"name": "x"}]}, ["x"]),
        (named("a", "b"), {"containers": [{"$patch": "replace"}]}, []),
        (
            named("a", "b"),
            {"containers": [{"$patch": "delete", "name": "a"}, {"$patch": "delete", "name": "zz"}]},
            ["b"],
        ),
        # Upstream rejects "merge", although its design document names it.
        (named("a", "b"), {"containers": [{"$patch": "merge", "name": "b"}]}, ["a", "b"]),
    ],
)
def test_the_order_of_a_merged_list(before: list[Any], patch: Any, after: list[str]) -> None:
    assert merged_names(before, **patch) == after


def test_the_first_of_two_elements_with_one_key_is_merged_and_both_stay() -> None:
    udp, tcp = {"containerPort": 53, "protocol": "UDP"}, {"containerPort": 53, "protocol": "TCP"}
    original = pod(containers=[{"name": "a", "ports": [tcp, udp]}])
    result = strategic_merge(
        original, pod(containers=[{"name": "a", "ports": [{"containerPort": 53, "name": "dns"}]}]), WORKLOAD
    )
    assert result == pod(containers=[{"name": "a", "ports": [{**tcp, "name": "dns"}, udp]}])
    assert strategic_merge(pod(containers=named("a")), original, WORKLOAD) == original


def test_merge_keys_of_different_types_differ() -> None:
    original = pod(containers=[{"name": "a", "ports": [{"containerPort": 1}]}])
    patch = pod(containers=[{"name": "a", "ports": [{"containerPort": True}]}])
    result = strategic_merge(original, patch, WORKLOAD)["spec"]["template"]["spec"]["containers"][0]["ports"]
    assert identical(result, [{"containerPort": True}, {"containerPort": 1}])


def test_patch_delete_empties_an_object() -> None:
    assert merged_spec(strategy={"$patch": "delete"})["strategy"] == {}
    assert strategic_merge(BASE, {"$patch": "delete"}, WORKLOAD) == {}


def test_patch_replace_replaces_an_object() -> None:
    assert merged_spec(strategy={"$patch": "replace", "type": "Recreate"})["strategy"] == {"type": "Recreate"}


def test_patch_merge_has_no_effect() -> None:
    strategy = merged_spec(strategy={"$patch": "merge", "type": "Recreate"})["strategy"]
    assert strategy == {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}


def test_a_missing_object_is_not_created_from_a_directive() -> None:
    assert strategic_merge({"spec": {}}, {"spec": {"strategy": {"$patch": "replace", "type": "R"}}}, WORKLOAD) == {
        "spec": {}
    }


def test_retain_keys_drops_other_members() -> None:
    assert merged_spec(strategy={"$retainKeys": ["type"], "type": "Recreate"})["strategy"] == {"type": "Recreate"}


def test_retain_keys_changes_a_union_in_a_list() -> None:
    volume = {"name": "v", "$retainKeys": ["name", "emptyDir"], "emptyDir": {}}
    assert merged_pod(pod(volumes=[volume]))["volumes"] == [{"name": "v", "emptyDir": {}}]


def test_primitive_lists_merge_as_sets_in_the_order_of_the_patch() -> None:
    added = strategic_merge(BASE, {"metadata": {"finalizers": ["z", "x"]}}, WORKLOAD)
    assert added["metadata"]["finalizers"] == ["z", "x", "y"]


def test_primitive_lists_can_be_deleted_from() -> None:
    patch = {
        "$setElementOrder/finalizers": ["y", "z"],
        "finalizers": ["z"],
        "$deleteFromPrimitiveList/finalizers": ["x", "absent"],
    }
    assert strategic_merge(BASE, {"metadata": patch}, WORKLOAD)["metadata"]["finalizers"] == ["y", "z"]


SPEC = "/spec/template/spec"


@pytest.mark.parametrize(
    ("patch", "error"),
    [
        (pod(containers=[{"image": "x"}]), f"{SPEC}/containers/0: has no 'name'"),
        (pod(containers=["x"]), f"{SPEC}/containers/0: has no 'name'"),
        (pod(containers=[{"name": {}}]), f"{SPEC}/containers/0: must have a scalar as its 'name'"),
        (pod(ephemeralContainers=[{}]), f"{SPEC}/ephemeralContainers/0: has no 'name'"),
        (pod(containers=[{"$patch": "delete"}]), f"{SPEC}/containers/0: has no 'name'"),
        (pod(containers=[{"$patch": "explode", "name": "a"}]), f"{SPEC}/containers/0/$patch: must be delete"),
        (pod(containers=[{"$patch": [], "name": "a"}]), f"{SPEC}/containers/0/$patch: must be delete"),
        (pod(containers=[{"$patch": "replace", "name": "a"}]), f"{SPEC}/containers/0: replaces the list: remove"),
        (pod(containers={"name": "x"}), f"{SPEC}/containers: the patch has an object where the object has a list"),
        ({"spec": "x"}, "/spec: the patch has a scalar where the object has an object"),
        ({"metadata": {"labels": {"a": {}}}}, "/metadata/labels/a: the patch has an object where the object has a s"),
        ({"metadata": {"finalizers": [{}]}}, "/metadata/finalizers: must be a scalar"),
        ({"spec": {"$patch": "explode"}}, "/spec/$patch: must be delete, replace or merge, not 'explode'"),
        ({"spec": {"new": {"$patch": "explode"}}}, "/spec/new/$patch: must be"),
        ({"spec": {"$unknown": 1}}, "/spec/$unknown: is an unknown directive"),
        ({"spec": {"new": {"$unknown": 1}}}, "/spec/new/$unknown: is an unknown directive"),
        ({"spec": {"strategy": {"$retainKeys": "type"}}}, "/spec/strategy/$retainKeys: must be a list"),
        (
            {"spec": {"strategy": {"$retainKeys": [], "type": "R"}}},
            "/spec/strategy/$retainKeys: must name 'type', which the patch sets",
        ),
        (pod(**{"$setElementOrder/containers": "c0"}), f"{SPEC}/$setElementOrder~1containers: must be a list"),
        (
            pod(**{"$setElementOrder/tolerations": []}),
            f"{SPEC}/$setElementOrder~1tolerations: orders a list that the patch",
        ),
        (
            pod(**{"$setElementOrder/containers": named("c0", "c1"), "containers": named("c1", "c0")}),
            f"{SPEC}/containers: the elements of the patch are not in the order",
        ),
        (
            {"metadata": {"$deleteFromPrimitiveList/finalizers": "x"}},
            "/metadata/$deleteFromPrimitiveList~1finalizers: must be a list",
        ),
        ([], "/: both the object and the patch must be JSON objects"),
    ],
)
def test_an_invalid_patch_is_an_error_with_its_pointer(patch: Any, error: str) -> None:
    with pytest.raises(StrategicMergeError) as caught:
        strategic_merge(BASE, patch, WORKLOAD)
    assert str(caught.value).startswith(error)


def test_a_list_of_the_object_without_merge_keys_is_an_error() -> None:
    with pytest.raises(StrategicMergeError, match="element 0 of the object"):
        strategic_merge(pod(containers=[{}]), pod(containers=named("a")), WORKLOAD)


def test_deeply_nested_patches_are_rejected() -> None:
    deep: Any = {}
    for _ in range(5000):
        deep = {"d": deep}
    with pytest.raises(StrategicMergeError, match="nested too deeply"):
        strategic_merge({}, deep, WORKLOAD)


ELEMENTS = st.lists(
    st.fixed_dictionaries({"name": st.sampled_from("abcd")}, optional={"image": st.sampled_from("xy")}),
    unique_by=lambda element: element["name"],
    max_size=4,
)
PATCHES = st.fixed_dictionaries({}, optional={"containers": ELEMENTS, "nodeSelector": st.none() | st.just({"z": "1"})})


@settings(max_examples=examples(200))
@given(ELEMENTS, PATCHES)
def test_merging_is_idempotent_and_changes_no_argument(elements: Any, fields: Any) -> None:
    original, patch = pod(containers=elements), pod(**fields)
    kept = copy.deepcopy((original, patch))
    once = strategic_merge(original, patch, WORKLOAD)
    # The second merge returns the same object.
    assert strategic_merge(once, patch, WORKLOAD) is once
    assert (original, patch) == kept


@pytest.mark.parametrize(
    "patch",
    [
        {},
        pod(containers=[{"name": "c1", "image": "i1"}]),
        pod(**{"$setElementOrder/containers": named("c0", "c1"), "containers": named("c0")}),
        pod(tolerations=[{"key": "k"}]),
        {"metadata": {"finalizers": ["x", "y"], "$deleteFromPrimitiveList/finalizers": ["absent"]}},
        {"metadata": {"labels": {"$patch": "replace", "a": "1"}}},
        {"spec": {"strategy": {"$retainKeys": ["type", "rollingUpdate"], "type": "RollingUpdate"}}},
    ],
)
def test_a_patch_without_changes_returns_the_object_itself(patch: Any) -> None:
    assert strategic_merge(BASE, patch, WORKLOAD) is BASE


def test_untouched_branches_are_shared() -> None:
    result = strategic_merge(BASE, pod(containers=[{"name": "c1", "image": "new"}]), WORKLOAD)
    assert result["metadata"] is BASE["metadata"]
    containers = result["spec"]["template"]["spec"]["containers"]
    assert containers[0] is BASE["spec"]["template"]["spec"]["containers"][0]
    assert containers[1] == {"name": "c1", "image": "new"}


@pytest.mark.parametrize(
    ("merged", "wanted", "server", "expected"),
    [
        ("abc", "", "abc", "abc"),
        ("abc", "cba", "abc", "cba"),
        # An element of the server comes first only if it preceded the next element of the patch.
        ("abcx", "x", "abc", "xabc"),
        ("abcx", "bx", "abc", "abxc"),
        ("abc", "ca", "abc", "bca"),
        ("abcd", "db", "abcd", "acdb"),
        ("aab", "a", "aab", "aab"),
        ("", "ab", "", ""),
    ],
)
def test_elements_of_the_patch_keep_its_order_among_those_of_the_server(
    merged: str, wanted: str, server: str, expected: str
) -> None:
    assert "".join(order_elements(list(merged), order=wanted, server=server, identify=str)) == expected


# RFC 7386, appendix A.
RFC_7386: list[tuple[Any, Any, Any]] = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    (["a", "b"], ["c", "d"], ["c", "d"]),
    ({"a": "b"}, ["c"], ["c"]),
    ({"a": "foo"}, None, None),
    ({"a": "foo"}, "bar", "bar"),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]


@pytest.mark.parametrize(("target", "patch", "result"), RFC_7386)
def test_examples_of_rfc_7386(target: Any, patch: Any, result: Any) -> None:
    before = copy.deepcopy((target, patch))

    assert merge_patch(target, patch) == result
    assert (target, patch) == before
