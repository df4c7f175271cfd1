"""Tests that workloads are found by the subject that owns them."""

from fleethook.cluster.store.store import PartialBuilder
from fleethook.engines.overrider.render.undo import RENDERED_ANNOTATION
from fleethook.engines.overrider.subject.binding import Binding
from fleethook.engines.overrider.subject.bound_workloads import (
    OTHER_VERSION_INDEXES,
    RENDERED_INDEXES,
    WORKLOAD_INDEXES,
    binding_of,
    hash_of,
    pool_of,
)
from fleethook.model.gvk import GroupKind
from fleethook.model.openyurt import YURT_APP_SET
from tests.builders import owner, workload

SUBJECT = Binding("", YURT_APP_SET, "default", "demo")


def test_a_workload_belongs_to_its_owner_in_its_cluster() -> None:
    assert binding_of(PartialBuilder().build(workload()), "ws1") == Binding("ws1", YURT_APP_SET, "default", "demo")
    other = workload(owners=[owner(kind="YurtAppDaemon", name="agent")])
    assert binding_of(PartialBuilder().build(other), "") == Binding(
        "", GroupKind("apps.openyurt.io", "YurtAppDaemon"), "default", "agent"
    )
    assert binding_of(PartialBuilder().build(workload(owners=[])), "") is None


def test_workloads_of_a_later_version_are_found_by_their_subject_and_others_are_not() -> None:
    keys = OTHER_VERSION_INDEXES["Deployment"].keys
    later = workload(owners=[owner(apiVersion="apps.openyurt.io/v1beta2")])
    assert list(keys("", PartialBuilder().build(later))) == [SUBJECT]
    beta = workload(owners=[owner(apiVersion="apps.openyurt.io/v1beta1")])
    for document in (
        workload(),
        beta,
        workload(owners=[]),
        workload(owners=[owner(apiVersion="apps/v1", kind="Other")]),
    ):
        assert list(keys("", PartialBuilder().build(document))) == []


def test_only_rendered_workloads_are_in_the_index_of_rendered_workloads() -> None:
    bare, marked = workload(), workload()
    marked["metadata"]["annotations"] = {RENDERED_ANNOTATION: "abc"}
    for document, keys, digest in ((bare, [], ""), (marked, [SUBJECT], "abc")):
        kept = PartialBuilder().build(document)
        assert list(WORKLOAD_INDEXES["Deployment"].keys("", kept)) == [SUBJECT]
        assert list(RENDERED_INDEXES["Deployment"].keys("", kept)) == keys
        assert hash_of(kept) == digest


def test_a_workload_without_the_pool_label_has_no_pool() -> None:
    assert pool_of(PartialBuilder().build(workload(pool="hangzhou"))) == "hangzhou"
    assert pool_of(PartialBuilder().build(workload(pool=None))) == ""
