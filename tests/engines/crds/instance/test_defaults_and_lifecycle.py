"""Tests of finalizer, label, defaults and deletion of an instance."""

from typing import Any

import pytest

from fleethook.engines.crds.instance.defaults_and_lifecycle import (
    CASCADE_LABEL,
    FINALIZER,
    build_ownership_patch,
    build_release_patch,
    cascades_deletion,
    needs_reconcile,
)


def karmada(*, spec: Any = None, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": "demo", "namespace": "ns", **metadata}, "spec": {} if spec is None else spec}


def test_a_new_deleted_or_changed_instance_needs_reconciliation() -> None:
    before = karmada(spec={"components": {}})
    assert needs_reconcile(None, before)
    assert needs_reconcile(before, karmada(spec={"components": {"etcd": {}}}))
    assert needs_reconcile(before, karmada(spec={"components": {}}, deletionTimestamp="2026-01-01T00:00:00Z"))
    assert not needs_reconcile(before, karmada(spec={"components": {}}, labels={"touched": "yes"}))
    assert not needs_reconcile(before, {**before, "status": {"conditions": []}})


def test_an_instance_of_the_same_name_with_another_uid_needs_reconciliation() -> None:
    assert needs_reconcile(karmada(uid="a"), karmada(uid="b"))
    assert not needs_reconcile(karmada(uid="a"), karmada(uid="a"))


@pytest.mark.parametrize(
    ("labels", "wanted"),
    [
        (None, True), ({}, True), ({CASCADE_LABEL: "false"}, True), ({CASCADE_LABEL: "true"}, False),
        ({CASCADE_LABEL: ""}, False), ({CASCADE_LABEL: "False"}, False), ("odd", True),
    ],
)  # fmt: skip
def test_deletion_cascades_unless_the_label_is_not_false(labels: Any, wanted: bool) -> None:
    assert cascades_deletion(karmada(labels=labels)) is wanted


def test_finalizer_label_and_defaults_are_added_at_once() -> None:
    given = karmada(spec={"crdTarball": {}}, finalizers=["others"], labels={"app": "demo"})
    assert build_ownership_patch(given) == {
        "metadata": {"finalizers": ["others", FINALIZER], "labels": {CASCADE_LABEL: "false"}},
        "spec": {"crdTarball": {"crdDownloadPolicy": "IfNotPresent"}},
    }


def test_a_merge_patch_of_the_label_takes_no_other_label_away() -> None:
    change = build_ownership_patch(karmada(finalizers=[FINALIZER], labels={"app": "demo"}))
    assert change == {"metadata": {"labels": {CASCADE_LABEL: "false"}}}


def test_only_our_finalizer_is_taken_away() -> None:
    assert build_release_patch(karmada(finalizers=["a", FINALIZER, "b"])) == {"metadata": {"finalizers": ["a", "b"]}}
    assert build_release_patch(karmada(finalizers=["a"])) is None
    assert build_release_patch(karmada()) is None
    assert build_release_patch(karmada(finalizers="odd")) is None
