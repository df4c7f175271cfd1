"""Tests of the decision about a workload: its plan, its drift, and the next step with the reason."""

from typing import Any

import pytest

from fleethook.cluster.store import PartialBuilder
from fleethook.engines.overrider.controller.workload_decision import (
    MAX_POINTERS,
    NO_DRIFT,
    Action,
    Decision,
    Drift,
    KnownDrift,
    Planned,
    decide,
    decide_after_write,
    detect_drift,
    plan_workload,
    render_stored,
    retry,
    summarize_unstored,
)
from fleethook.engines.overrider.plan.plan_cache import PlanCache
from fleethook.engines.overrider.render.member_differences import ABSENT, Difference
from fleethook.engines.overrider.render.render import NOTHING_TO_RENDER, RenderTarget
from fleethook.engines.overrider.subject.owner_index import Binding, find_owner
from fleethook.model.openyurt import RENDERED_ANNOTATION, YURT_APP_SET
from tests.builders import container, entry, image, overrider, patch, rendered, store_of, workload, yurt_app_set

LOST = summarize_unstored("lost", [Difference("/spec/misspelled", ("spec", "misspelled"), True, ABSENT)])
EMPTY = summarize_unstored("empty", [Difference("/spec/paused", ("spec", "paused"), False, ABSENT)])


def test_lost_values_are_distinguished_from_empty_ones() -> None:
    assert (LOST.lost, LOST.insignificant) == (("/spec/misspelled",), ())
    assert (EMPTY.lost, EMPTY.insignificant) == ((), ("/spec/paused",))


def test_the_summary_is_bounded() -> None:
    many = [Difference(f"/spec/{number}", ("spec", str(number)), 1, ABSENT) for number in range(100)]
    assert len(summarize_unstored("many", many).lost) == MAX_POINTERS


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


def find_planned(document: dict[str, Any], rule: dict[str, Any] | None, *objects: dict[str, Any]) -> Planned:
    return plan_workload(
        PartialBuilder().build(document), SUBJECT, rule, kind="Deployment", store=store_of(*objects), plans=PlanCache()
    )


def find_digest(document: dict[str, Any], rule: dict[str, Any] | None, *objects: dict[str, Any]) -> str:
    plan = find_planned(document, rule, *objects).plan
    assert plan is not None
    return plan.digest


def test_the_hash_of_the_plan_is_the_hash_of_a_render() -> None:
    kept = rendered(workload(), yurt_app_set(), RULE)
    assert find_digest(kept, RULE, yurt_app_set()) == kept["metadata"]["annotations"][RENDERED_ANNOTATION]
    assert find_digest(workload(pool="beijing"), RULE, yurt_app_set()) == ""
    assert find_digest(kept, None, yurt_app_set()) == ""


def test_no_override_applies_to_a_workload_without_its_subject() -> None:
    assert find_planned(workload(), RULE) == Planned()


def test_an_overrider_that_does_not_fit_is_the_problem_of_a_workload() -> None:
    broken = overrider(entry("*", patches=[patch("remove", "/spec/paused")]))
    plan, problem, _ = find_planned(workload(), broken, yurt_app_set())
    assert plan is None
    assert "member 'paused' does not exist" in problem


def test_a_write_to_a_workload_without_its_subject_renders_nothing() -> None:
    owner = find_owner(workload()["metadata"])
    assert owner is not None
    target = RenderTarget("Deployment", "default", owner, creating=False)
    store, plans = store_of(RULE), PlanCache()
    assert render_stored(workload(), target, memory=None, store=store, plans=plans) == NOTHING_TO_RENDER


def test_equal_drifts_have_equal_identities() -> None:
    one, other = find_drift(workload(), yurt_app_set(), RULE), find_drift(workload(replicas=9), yurt_app_set(), RULE)
    assert one.identity == other.identity
    more = overrider(entry("hangzhou", items=[image("nginx", "nginx:3.0")]))
    assert find_drift(workload(), yurt_app_set(), more).identity != one.identity
    assert NO_DRIFT.identity == ""
    assert Drift((), "why").identity == "why"


TEXT = "waiting until the controller of YurtAppSet demo has written the changed template"
KNOWN = KnownDrift("drift", ("/spec/misspelled",), "", "")


@pytest.mark.parametrize(
    ("changed", "drift", "waits", "decision"),
    [
        (False, None, True, Decision()),
        # An edit of a rendered workload is repaired without a wait for the controller of the subject.
        (False, KNOWN, True, Decision(Action.TOUCH)),
        (False, KNOWN._replace(error="why"), False, Decision(problem="why")),
        (True, KNOWN, True, Decision(Action.WAIT, TEXT)),
        (True, None, False, Decision(Action.TOUCH)),
    ],
)
def test_hash_and_drift_of_a_workload_decide(
    changed: bool, drift: KnownDrift | None, waits: bool, decision: Decision
) -> None:
    assert decide(SUBJECT, changed=changed, drift=drift, unstored=None, waits=waits) == decision


def test_a_workload_without_drift_reports_the_values_that_are_not_stored() -> None:
    lost = decide(SUBJECT, changed=False, drift=None, unstored=LOST, waits=False)
    assert (lost.action, lost.lost, lost.notes) == (Action.LEAVE, True, ())
    assert lost.problem.startswith("the apiserver did not keep /spec/misspelled: check the path")
    empty = decide(SUBJECT, changed=False, drift=None, unstored=EMPTY, waits=False)
    assert empty == Decision(notes=("/spec/paused",))


FOUND = Drift((Difference("/spec/misspelled", ("spec", "misspelled"), True, ABSENT),), "")


@pytest.mark.parametrize(
    ("found", "rendered", "action"),
    [
        (NO_DRIFT, True, Action.LEAVE),
        (FOUND, True, Action.ACCEPT),
        (FOUND, False, Action.RETRY),
        (NO_DRIFT, False, Action.RETRY),
        (Drift((), "why"), False, Action.LEAVE),
    ],
)
def test_a_difference_after_a_render_is_not_stored_and_one_without_a_render_is_requested_again(
    found: Drift, rendered: bool, action: Action
) -> None:
    decided = decide_after_write(found, rendered=rendered)
    assert (decided.action, decided.lost) == (action, action is Action.ACCEPT)
    assert ("/spec/misspelled" in decided.problem) is (found is FOUND)


def test_a_retry_names_three_pointers_or_the_annotation() -> None:
    assert "/a, /b, /c and 2 more still differs" in retry(("/a", "/b", "/c", "/d", "/e")).problem
    assert "its annotation fleethook.io/rendered still differs" in retry(()).problem
