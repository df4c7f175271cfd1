"""``--change``."""

from typing import Any

import pytest

from fleethook.cli.inputs.what_if import overlay
from fleethook.cluster.manifests.yaml_reader import Document
from fleethook.cluster.store import key_of
from tests.builders import node_pool, yurt_app_set

CLUSTER = "kcp.io/cluster"


def documents(*objects: dict[str, Any], source: str = "a.yaml") -> list[Document]:
    return [Document(one, source, line) for line, one in enumerate(objects, start=1)]


def named(kind: str, name: str, **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "example.org/v1", "kind": kind, "metadata": {"name": name, **metadata}}


def in_cluster(name: str, document: dict[str, Any]) -> dict[str, Any]:
    return {**document, "metadata": {**document["metadata"], "annotations": {CLUSTER: name}}}


def change(*objects: dict[str, Any]) -> list[Document]:
    return documents(*objects, source="change.yaml")


def refuse(changes: list[Document], capsys: pytest.CaptureFixture[str], *, kcp: bool = False) -> str:
    """Return the message with which a change is refused."""
    with pytest.raises(SystemExit) as caught:
        overlay([], changes, kcp=kcp)
    assert caught.value.code == 2
    return capsys.readouterr().err


def test_an_object_is_replaced_in_its_place_and_a_new_one_is_added() -> None:
    given = documents(yurt_app_set("a"), node_pool("east"), yurt_app_set("b"))
    edited, added = yurt_app_set("a", pools=[]), yurt_app_set("c")
    changed = overlay(given, change(edited, added))
    assert [one.object for one in changed.documents] == [edited, given[1].object, given[2].object, added]
    assert [one.place for one in changed.documents] == ["change.yaml:1", "a.yaml:2", "a.yaml:3", "change.yaml:2"]
    assert changed.keys == {key_of(edited), key_of(added)}


def test_an_object_of_another_logical_cluster_stays() -> None:
    given = documents(in_cluster("x", yurt_app_set()), in_cluster("y", yurt_app_set()))
    edited = in_cluster("y", yurt_app_set(pools=[]))
    assert [one.object for one in overlay(given, change(edited)).documents] == [given[0].object, edited]


def test_of_a_kcp_every_manifest_names_its_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    message = refuse(change(yurt_app_set()), capsys, kcp=True)
    assert message == "fleethook: change.yaml:1: the logical cluster is unknown: add the annotation kcp.io/cluster\n"


def without_namespace(document: dict[str, Any]) -> dict[str, Any]:
    return {**document, "metadata": {name: one for name, one in document["metadata"].items() if name != "namespace"}}


def test_a_manifest_for_a_cluster_is_in_the_namespace_of_the_context() -> None:
    bare = without_namespace(yurt_app_set())
    changed = overlay([], change(bare, node_pool("east")), namespace="team")
    assert [one.object["metadata"].get("namespace") for one in changed.documents] == ["team", None]


@pytest.mark.parametrize("bare_first", [True, False])
def test_in_files_no_namespace_and_default_are_the_same(*, bare_first: bool) -> None:
    pair = [without_namespace(yurt_app_set()), yurt_app_set(pools=[])]
    before, after = pair if bare_first else reversed(pair)
    changed = overlay(documents(before), change(after))
    assert [one.object["metadata"].get("namespace") for one in changed.documents] == [
        before["metadata"].get("namespace")
    ]
    assert changed.documents[0].object["spec"] == after["spec"]


def test_two_manifests_of_an_object_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    message = refuse(change(yurt_app_set(), yurt_app_set()), capsys)
    assert "change.yaml:2: YurtAppSet/default/demo is already defined at change.yaml:1" in message


def test_a_manifest_replaces_an_object_and_keeps_what_the_server_sets() -> None:
    server = {"uid": "1", "resourceVersion": "7", "ownerReferences": [{"uid": "2"}]}
    before = {**named("Widget", "a", **server, labels={"a": "b"}), "spec": {"x": 1}, "status": {"ok": True}}
    manifest = {**named("Widget", "a", ownerReferences=[]), "spec": {"y": 2}}
    (after,) = overlay(documents(before), change(manifest)).documents
    metadata = {"name": "a", **server, "ownerReferences": []}
    assert after.object == {**manifest, "metadata": metadata, "status": {"ok": True}}


def test_the_injected_ca_bundle_of_a_webhook_stays() -> None:
    def hooks(*configs: dict[str, Any]) -> dict[str, Any]:
        webhooks = [{"name": name, "clientConfig": one} for name, one in zip("abc", configs, strict=False)]
        return {**named("ValidatingWebhookConfiguration", "a"), "webhooks": webhooks}

    url = {"url": "https://b"}
    before = hooks({**url, "caBundle": "Q0E="}, {**url, "caBundle": "Q0E="})
    (after,) = overlay(documents(before), change(hooks(url, {**url, "caBundle": "b3du"}, url))).documents
    assert after.object == hooks({**url, "caBundle": "Q0E="}, {**url, "caBundle": "b3du"}, url)
