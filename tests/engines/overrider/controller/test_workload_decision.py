"""Tests of the decision about a workload: its known drift, and the next step with the reason."""

import pytest

from fleethook.cluster.store import ObjectKey
from fleethook.engines.overrider.controller.workload_decision import Action, Decision, KnownDrift, KnownDrifts, decide
from fleethook.engines.overrider.plan.plan_cache import PlanCache
from fleethook.engines.overrider.render.stored_workload_comparison import detect_drift
from fleethook.engines.overrider.subject.workload_owner import Binding
from fleethook.model.gvk import GroupKind
from fleethook.model.openyurt import YURT_APP_SET
from tests.builders import entry, image, overrider, rendered, store_of, workload, yurt_app_set

RULE = overrider(entry("hangzhou", items=[image("nginx", "nginx:2.0")]))


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
    store, plans = store_of(yurt_app_set(), RULE), PlanCache()
    drift, drifts = detect_drift(edited, kind="Deployment", store=store, plans=plans), KnownDrifts()
    for one in (key, gone):
        drifts.note_unstored(one, drift)
        assert (drifts.note(one, drift), drifts.find(one)) == ("", None)
    assert [*drifts.recheck_lost({key: SUBJECT}.get)] == [SUBJECT]
    assert (drifts.find(key), drifts.find(gone)) == (KnownDrift(drift.identity, drift.pointers, "", ""), None)
    assert drifts.unstored == {}
