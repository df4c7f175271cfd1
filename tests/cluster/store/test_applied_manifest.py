"""Objects as the API server holds them after a manifest was applied."""

import json
from typing import Any

from fleethook.cluster.store.applied_manifest import LAST_APPLIED, apply_manifest


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
