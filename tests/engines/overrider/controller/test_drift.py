"""Tests of the drift of stored workloads."""

from typing import Any

import pytest

from fleethook.cluster.store import ObjectKey, PartialBuilder
from fleethook.engines.overrider.controller.drift import (
    MAX_POINTERS,
    NO_DRIFT,
    Drift,
    UnstoredValues,
    detect_drift,
    find_plan,
    summarize_unstored,
)
from fleethook.engines.overrider.plan.plan_cache import PlanCache
from fleethook.engines.overrider.render.member_differences import ABSENT, Difference
from fleethook.engines.overrider.subject.binding import Binding
from fleethook.engines.overrider.template.pool_template import SubjectError
from fleethook.model.gvk import GroupKind
from fleethook.model.openyurt import RENDERED_ANNOTATION, YURT_APP_SET
from tests.builders import container, entry, image, overrider, patch, rendered, store_of, workload, yurt_app_set

LOST = summarize_unstored("lost", [Difference("/spec/misspelled", ("spec", "misspelled"), True, ABSENT)])
EMPTY = summarize_unstored("empty", [Difference("/spec/paused", ("spec", "paused"), False, ABSENT)])


def key(name: str) -> ObjectKey:
    return ObjectKey("", GroupKind("apps", "Deployment"), "default", name)


def test_lost_values_are_distinguished_from_empty_ones() -> None:
    assert (LOST.lost, LOST.insignificant) == (("/spec/misspelled",), ())
    assert (EMPTY.lost, EMPTY.insignificant) == ((), ("/spec/paused",))


def test_only_the_same_differences_are_explained() -> None:
    known = UnstoredValues()
    known.remember(key("a"), LOST)
    assert known.explains(key("a"), "lost")
    assert not known.explains(key("a"), "another")
    assert not known.explains(key("b"), "lost")
    known.forget(key("a"))
    assert not known.explains(key("a"), "lost")


def test_the_memory_is_bounded_in_number_and_size() -> None:
    known = UnstoredValues(max_workloads=2)
    for name in "abac":
        known.remember(key(name), LOST)
    assert [known.explains(key(name), "lost") for name in "abc"] == [True, False, True]
    many = [Difference(f"/spec/{number}", ("spec", str(number)), 1, ABSENT) for number in range(100)]
    assert len(summarize_unstored("many", many).lost) == MAX_POINTERS


def test_the_oldest_lost_values_are_requested_again() -> None:
    known = UnstoredValues()
    for name in "abc":
        known.remember(key(name), LOST)
    known.remember(key("d"), EMPTY)
    known.forget_lost(most=2)
    assert [known.get(key(name)) is not None for name in "abcd"] == [False, False, True, True]
    known.remember(key("a"), LOST)
    known.forget_lost(most=1)
    assert [known.get(key(name)) is not None for name in "abcd"] == [True, False, False, True]


RULE = overrider(entry("hangzhou", items=[image("nginx", "nginx:2.0")]))


def find_drift(document: dict[str, Any], *objects: dict[str, Any]) -> Drift:
    return detect_drift(document, kind="Deployment", store=store_of(*objects), plans=PlanCache())


def test_a_rendered_workload_has_no_drift() -> None:
    assert find_drift(rendered(workload(), yurt_app_set(), RULE), yurt_app_set(), RULE) == NO_DRIFT


def test_a_workload_without_an_entry_or_an_owner_has_no_drift() -> None:
    assert find_drift(workload(pool="beijing"), yurt_app_set(), RULE) == NO_DRIFT
    assert find_drift(workload(owners=[]), yurt_app_set(), RULE) == NO_DRIFT


def test_a_workload_that_was_never_rendered_has_the_drift_of_its_render() -> None:
    found = find_drift(workload(), yurt_app_set(), RULE)
    assert "/spec/template/spec/containers/0/image" in found.pointers
    assert not found.is_in_sync


def test_the_drift_of_an_edit_has_its_path() -> None:
    edited = rendered(workload(), yurt_app_set(), RULE)
    edited["spec"]["template"]["spec"]["containers"][0]["image"] = "edited:9"
    assert find_drift(edited, yurt_app_set(), RULE).pointers == ("/spec/template/spec/containers/0/image",)


def test_a_deleted_overrider_leaves_a_drift() -> None:
    assert (
        "/spec/template/spec/containers/0/image"
        in find_drift(rendered(workload(), yurt_app_set(), RULE), yurt_app_set()).pointers
    )


def test_a_workload_that_is_being_deleted_has_no_drift() -> None:
    going = workload()
    going["metadata"]["deletionTimestamp"] = "2026-06-01T00:00:00Z"
    assert find_drift(going, yurt_app_set(), RULE) == NO_DRIFT


def test_a_workload_that_cannot_be_rendered_has_an_error() -> None:
    broken = overrider(entry("*", patches=[patch("remove", "/spec/paused")]))
    assert "remove /spec/paused: member 'paused' does not exist" in find_drift(workload(), yurt_app_set(), broken).error


def test_a_workload_without_its_subject_has_no_drift() -> None:
    assert find_drift(workload(), RULE) == NO_DRIFT


@pytest.mark.parametrize(
    ("written", "stored", "same"),
    [("0.5", "500m", True), ("1000m", "1", True), ("1024Mi", "1Gi", True), ("1", "2", False)],
)
def test_equal_quantities_are_no_drift(written: str, stored: str, same: bool) -> None:
    resources = {"limits": {"cpu": written}}
    subject = yurt_app_set(template={"metadata": {}, "spec": {"containers": [container(resources=resources)]}})
    kept = rendered(workload(), subject, RULE)
    kept["spec"]["template"]["spec"]["containers"][0]["resources"] = {"limits": {"cpu": stored}}
    assert find_drift(kept, subject, RULE).is_in_sync is same


def test_a_string_like_a_quantity_is_compared_as_a_string() -> None:
    env = [{"name": "HALF", "value": "0.5"}]
    subject = yurt_app_set(template={"metadata": {}, "spec": {"containers": [container(env=env)]}})
    kept = rendered(workload(), subject, RULE)
    kept["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": "HALF", "value": "500m"}]
    assert not find_drift(kept, subject, RULE).is_in_sync


SUBJECT = Binding("", YURT_APP_SET, "default", "demo")


def find_digest(document: dict[str, Any], rule: dict[str, Any] | None, *objects: dict[str, Any]) -> str:
    plan = find_plan(
        PartialBuilder().build(document), SUBJECT, rule, kind="Deployment", store=store_of(*objects), plans=PlanCache()
    )
    return plan.digest


def test_the_hash_of_the_plan_is_the_hash_of_a_render() -> None:
    kept = rendered(workload(), yurt_app_set(), RULE)
    assert find_digest(kept, RULE, yurt_app_set()) == kept["metadata"]["annotations"][RENDERED_ANNOTATION]
    assert find_digest(workload(pool="beijing"), RULE, yurt_app_set()) == ""
    assert find_digest(kept, None, yurt_app_set()) == ""
    with pytest.raises(SubjectError):
        find_digest(kept, RULE)


def test_equal_drifts_have_equal_identities() -> None:
    one, other = find_drift(workload(), yurt_app_set(), RULE), find_drift(workload(replicas=9), yurt_app_set(), RULE)
    assert one.identity == other.identity
    more = overrider(entry("hangzhou", items=[image("nginx", "nginx:3.0")]))
    assert find_drift(workload(), yurt_app_set(), more).identity != one.identity
    assert NO_DRIFT.identity == ""
    assert Drift((), "why").identity == "why"
