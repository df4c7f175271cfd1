from typing import Any

import pytest

from fleethook.cluster.store import partial
from fleethook.cluster.store.partial import PartialBuilder, PartialObject
from fleethook.model.gvk import GroupKind
from tests.builders import store_of, workload


def owned_by(uid: str, name: str = "w") -> dict[str, Any]:
    return {"metadata": {"name": name, "ownerReferences": [{"uid": uid, "kind": "YurtAppSet", "name": "demo"}]}}


def test_the_store_keeps_workloads_as_partial_objects() -> None:
    document = workload()
    kept = store_of(document).get("", GroupKind("apps", "Deployment"), "default", "demo-hangzhou-x")
    assert isinstance(kept, PartialObject)
    assert (kept.labels, kept.owners) == (
        document["metadata"]["labels"],
        tuple(document["metadata"]["ownerReferences"]),
    )


def test_missing_metadata_becomes_empty_values() -> None:
    kept = PartialBuilder().build({"metadata": {"name": "n", "labels": None}})
    assert kept == PartialObject("", "n", "", "", 0, deleting=False, labels={}, annotations={}, owners=())


def test_workloads_of_one_owner_share_its_reference() -> None:
    builder = PartialBuilder()
    first, second = builder.build(owned_by("u", "a")), builder.build(owned_by("u", "b"))
    assert first.owners is second.owners
    assert builder.build(owned_by("v")).owners is not first.owners


def test_a_changed_owner_replaces_the_shared_reference() -> None:
    builder = PartialBuilder()
    builder.build(owned_by("u"))
    changed = owned_by("u")
    changed["metadata"]["ownerReferences"][0]["controller"] = True
    assert builder.build(changed).owners[0]["controller"]
    assert builder.build(changed).owners is builder.build(changed).owners


def test_the_oldest_shared_owner_is_dropped_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partial, "MAX_OWNERS", 2)
    builder = PartialBuilder()
    first = builder.build(owned_by("1")).owners
    for uid in ("2", "3"):
        builder.build(owned_by(uid))
    again = builder.build(owned_by("1")).owners
    assert again == first
    assert again is not first


def test_labels_of_a_manifest_may_have_other_types_than_text() -> None:
    assert PartialBuilder().build({"metadata": {"name": "n", "labels": {"a": 1}}}).labels == {"a": 1}
