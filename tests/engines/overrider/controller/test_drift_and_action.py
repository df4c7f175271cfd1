"""Tests of the decision about a workload: its plan, its drift, and the next step with the reason."""

from typing import Any

import pytest

from fleethook.cluster.store import ObjectKey
from fleethook.engines.overrider.controller.drift_and_action import (
    NO_DRIFT,
    Action,
    Decision,
    Drift,
    KnownDrift,
    KnownDrifts,
    decide,
    detect_drift,
)
from fleethook.engines.overrider.plan.plan_cache import PlanCache
from fleethook.engines.overrider.subject.owner_and_overrider import Binding
from fleethook.model.gvk import GroupKind
from fleethook.model.openyurt import YURT_APP_SET
from tests.builders import container, entry, image, overrider, rendered, store_of, workload, yurt_app_set

RULE = overrider(entry("hangzhou", items=[image("nginx", "nginx:2.0")]))


def find_drift(document: dict[str, Any], *objects: dict[str, Any]) -> Drift:
    return detect_drift(document, kind="Deployment", store=store_of(*objects), plans=PlanCache())


def test_a_rendered_workload_has_no_drift() -> None:
    assert find_drift(rendered(workload(), yurt_app_set(), RULE), yurt_app_set(), RULE) == NO_DRIFT


def test_the_drift_of_an_edit_has_its_path() -> None:
    edited = rendered(workload(), yurt_app_set(), RULE)
    edited["spec"]["template"]["spec"]["containers"][0]["image"] = "edited:9"
    assert find_drift(edited, yurt_app_set(), RULE).pointers == ("/spec/template/spec/containers/0/image",)


def test_a_workload_that_is_being_deleted_has_no_drift() -> None:
    going = workload()
    going["metadata"]["deletionTimestamp"] = "2026-06-01T00:00:00Z"
    assert find_drift(going, yurt_app_set(), RULE) == NO_DRIFT


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


SUBJECT = Binding("", YURT_APP_SET, "default", "demo")
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


def test_lost_values_are_a_drift_again_when_another_webhook_changes() -> None:
    key, gone = (ObjectKey("", GroupKind("apps", "Deployment"), "default", name) for name in ("demo", "gone"))
    edited = rendered(workload(), yurt_app_set(), RULE)
    edited["spec"]["template"]["spec"]["containers"][0]["image"] = "edited:9"
    drift, drifts = find_drift(edited, yurt_app_set(), RULE), KnownDrifts()
    for one in (key, gone):
        drifts.note_unstored(one, drift)
        assert (drifts.note(one, drift), drifts.find(one)) == ("", None)
    assert [*drifts.recheck_lost({key: SUBJECT}.get)] == [SUBJECT]
    assert (drifts.find(key), drifts.find(gone)) == (KnownDrift(drift.identity, drift.pointers, "", ""), None)
    assert drifts.unstored == {}
