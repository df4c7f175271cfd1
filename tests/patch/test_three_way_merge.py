"""The three-way merge of ``kubectl apply``. Cases follow upstream's tests (three_way_*_test.go)."""

import copy
import json
from typing import Any

import pytest

from fleethook.model.merge_keys import WORKLOAD, find_merge_schema
from fleethook.patch import StrategicMergeError, merge_patch
from fleethook.patch.three_way_merge import LAST_APPLIED, apply_manifest, merge_three_way

# RFC 7386, appendix A.
CASES: list[tuple[Any, Any, Any]] = [
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


@pytest.mark.parametrize(("target", "patch", "result"), CASES)
def test_examples_of_rfc_7386(target: Any, patch: Any, result: Any) -> None:
    before = copy.deepcopy((target, patch))

    assert merge_patch(target, patch) == result
    assert (target, patch) == before


HOOKS = find_merge_schema("admissionregistration.k8s.io")


@pytest.mark.parametrize(
    ("last", "manifest", "live", "result"),
    [
        pytest.param({"a": 1, "b": 1}, {"b": 2}, {"a": 1, "b": 1, "c": 1}, {"b": 2, "c": 1}, id="removed and set"),
        pytest.param({}, {"b": 2}, {"a": 1}, {"a": 1, "b": 2}, id="fields of others stay"),
        pytest.param({"m": {"a": 1}}, {"m": {}}, {"m": {"a": 1, "b": 2}}, {"m": {"b": 2}}, id="removed inside"),
        pytest.param(
            {"m": {"a": 1}}, {}, {"m": {"a": 1, "b": 2}}, {}, id="a removed object takes others' fields along"
        ),
        pytest.param({"l": [1]}, {"l": [2]}, {"l": [1, 3]}, {"l": [2]}, id="lists are replaced"),
        pytest.param({"a": 1}, {"a": None}, {"a": 1}, {}, id="null removes"),
        pytest.param({"a": {"x": 1}}, {"a": 2}, {"a": {"x": 1}}, {"a": 2}, id="another type"),
        pytest.param({"a": 1}, {"a": {"x": 1}}, {"a": 1}, {"a": {"x": 1}}, id="another type inside"),
    ],
)
def test_custom_resources_are_merged_by_member(last: Any, manifest: Any, live: Any, result: Any) -> None:
    assert merge_three_way(last, manifest, live, schema=None) == result


def test_webhooks_are_merged_by_name() -> None:
    last = {"webhooks": [{"name": "a", "timeoutSeconds": 5, "rules": [1]}, {"name": "b"}]}
    manifest = {"webhooks": [{"name": "c"}, {"name": "a", "rules": [2, 3]}]}
    injected = {"caBundle": "Q0E="}
    live = {
        "webhooks": [
            {"name": "a", "timeoutSeconds": 5, "rules": [1], "clientConfig": injected},
            {"name": "b"},
            {"name": "other"},
        ]
    }
    merged = merge_three_way(last, manifest, live, schema=HOOKS)
    # A kube-apiserver puts "other" first, because the new webhook gets the place of the removed one.
    assert merged == {
        "webhooks": [{"name": "other"}, {"name": "c"}, {"name": "a", "rules": [2, 3], "clientConfig": injected}]
    }


def test_sets_and_unions_of_a_workload_are_merged() -> None:
    def spec(strategy: dict[str, Any], *volumes: dict[str, Any]) -> dict[str, Any]:
        return {"spec": {"strategy": strategy, "template": {"spec": {"volumes": list(volumes)}}}}

    last = {"metadata": {"finalizers": ["x", "y"]}, **spec({"type": "RollingUpdate"}, {"name": "v", "emptyDir": {}})}
    manifest = {
        "metadata": {"finalizers": ["y"]},
        **spec({"type": "Recreate"}, {"name": "v", "hostPath": {"path": "/"}}),
    }
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}
    live = {"metadata": {"finalizers": ["x", "y", "z"]}, **spec(rolling, {"name": "v", "emptyDir": {}})}
    merged = merge_three_way(last, manifest, live, schema=WORKLOAD)
    assert merged == {
        "metadata": {"finalizers": ["y", "z"]},
        **spec({"type": "Recreate"}, {"name": "v", "hostPath": {"path": "/"}}),
    }


def test_a_webhook_without_name_cannot_be_merged() -> None:
    with pytest.raises(StrategicMergeError, match="'name'"):
        merge_three_way({}, {"webhooks": [{"rules": []}]}, {"webhooks": []}, schema=HOOKS)


def test_the_arguments_stay_unchanged() -> None:
    last, manifest, live = {"a": {"b": 1}}, {"a": {}}, {"a": {"b": 1, "c": 2}}
    merge_three_way(last, manifest, live, schema=None)
    assert (last, manifest, live) == ({"a": {"b": 1}}, {"a": {}}, {"a": {"b": 1, "c": 2}})


def test_webhooks_of_others_stay_behind_a_new_one_if_none_is_removed() -> None:
    last = {"webhooks": [{"name": "a"}]}
    manifest = {"webhooks": [{"name": "c"}, {"name": "a"}]}
    merged = merge_three_way(last, manifest, {"webhooks": [{"name": "a"}, {"name": "other"}]}, schema=HOOKS)
    assert [one["name"] for one in merged["webhooks"]] == ["c", "a", "other"]


def make(spec: dict[str, Any], *, version: str = "v1", **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"example.org/{version}",
        "kind": "Widget",
        "metadata": {"name": "a", **metadata},
        "spec": spec,
    }


def applied(spec: dict[str, Any]) -> dict[str, str]:
    """Return the annotation that ``kubectl apply`` sets."""
    return {LAST_APPLIED: json.dumps(make(spec, annotations={}))}


SERVER = {"uid": "1", "resourceVersion": "7", "ownerReferences": [{"uid": "2"}]}


def test_a_new_object_is_the_manifest() -> None:
    manifest = make({"x": 1})
    assert apply_manifest(manifest, None) is manifest


def test_an_applied_object_is_merged_as_kubectl_does() -> None:
    live = {**make({"x": 1, "y": 1, "z": 1}, **SERVER, annotations=applied({"x": 1, "y": 1})), "status": {"ok": True}}
    result = apply_manifest(make({"y": 2}), live)
    assert (result["spec"], result["status"]) == ({"y": 2, "z": 1}, {"ok": True})
    assert {name: result["metadata"][name] for name in SERVER} == SERVER
    assert json.loads(result["metadata"]["annotations"][LAST_APPLIED]) == make({"y": 2}, annotations={})


def test_annotations_of_others_survive_a_manifest_without_annotations() -> None:
    live = make({}, annotations={**applied({}), "kcp.io/cluster": "c"})
    assert apply_manifest(make({}), live)["metadata"]["annotations"]["kcp.io/cluster"] == "c"


def test_an_object_of_another_tool_is_replaced_and_keeps_what_the_server_sets() -> None:
    live = {**make({"x": 1}, **SERVER, labels={"a": "b"}), "status": {"ok": True}}
    assert apply_manifest(make({"y": 2}), live) == {**make({"y": 2}, **SERVER), "status": {"ok": True}}


def test_metadata_of_the_manifest_counts() -> None:
    result = apply_manifest(make({}, uid="mine", ownerReferences=[]), make({}, **SERVER))
    assert result["metadata"] == {"name": "a", **SERVER, "uid": "mine", "ownerReferences": []}


def test_an_object_in_another_version_is_replaced() -> None:
    live = make({"old": 1}, version="v2", annotations=applied({"x": 1}), uid="1")
    assert apply_manifest(make({"y": 2}), live) == make({"y": 2}, uid="1")


def test_an_unreadable_annotation_means_another_tool() -> None:
    live = make({"x": 1}, annotations={LAST_APPLIED: "{"})
    assert apply_manifest(make({"y": 2}), live) == make({"y": 2})


def test_the_injected_ca_bundle_of_a_webhook_survives() -> None:
    def hooks(*webhooks: dict[str, Any]) -> dict[str, Any]:
        kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
        return {**kind, "metadata": {"name": "a"}, "webhooks": list(webhooks)}

    live = hooks({"name": "a", "clientConfig": {"url": "https://a", "caBundle": "Q0E="}}, {"name": "gone"})
    url = {"url": "https://b"}
    result = apply_manifest(hooks({"name": "a", "clientConfig": url}, {"name": "new", "clientConfig": url}), live)
    assert result["webhooks"] == [
        {"name": "a", "clientConfig": {**url, "caBundle": "Q0E="}},
        {"name": "new", "clientConfig": url},
    ]
    own = {"url": "https://b", "caBundle": "b3du"}
    assert apply_manifest(hooks({"name": "a", "clientConfig": own}), live)["webhooks"][0]["clientConfig"] == own
