"""Tests of the checks of policies; tests/e2e/test_doctor.py has a real apiserver."""

from typing import Any

from fleethook.cli.doctor.doctor_policies import (
    check_conditions,
    check_objects,
    find_modes,
    judge_policy_rights,
    list_policy_rights,
)
from fleethook.engines.overrider.policies.mode import MODE_ANNOTATION
from fleethook.engines.overrider.policies.policy_client import AppliedObject
from tests.builders import overrider
from tests.cli.doctor.test_doctor_rights import allows
from tests.e2e.fleet import RULES

BASE = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies"
UID = "3f0c2b6e-5d0a"
MISSING = list_policy_rights()[:1]


def rule_of(**metadata: Any) -> dict[str, Any]:
    return overrider(uid=UID, **metadata)


def judge(*, modes: set[str], annotations: dict[str, str] | None = None, missing: Any = MISSING) -> tuple[str, str]:
    found = judge_policy_rights("s/n", missing, modes=modes, overriders=[rule_of(annotations=annotations)])
    return found.level, found.text


def test_the_rights_of_a_running_server_suffice() -> None:
    """The end-to-end tests run servers with these rules."""
    rights = list_policy_rights()
    assert len(rights) == 8
    assert [one for one in rights if not allows(RULES, one)] == []


def test_the_modes_are_read_from_the_pods() -> None:
    variable = {"name": "FLEETHOOK_OVERRIDER_MODE", "value": "auto"}
    pod = {"spec": {"containers": [{"name": "a"}, {"name": "b", "env": [{"name": "OTHER"}, variable]}]}}
    assert find_modes([pod, {}]) == {"auto"}


def test_missing_rights_are_a_warning_unless_only_the_webhook_is_wanted() -> None:
    assert judge(modes={"auto"})[0] == "warning"
    assert "must not create mutatingadmissionpolicies.admissionregistration.k8s.io" in judge(modes={"auto"})[1]
    assert judge(modes=set())[0] == "warning"
    assert judge(modes={"webhook"})[0] == "ok"
    assert judge(modes={"webhook", "auto"})[0] == "warning"
    assert judge(modes={"auto"}, missing=[]) == ("ok", "the service account s/n may apply policies")


def test_an_annotation_that_asks_for_policies_needs_the_rights() -> None:
    level, text = judge(modes={"webhook"}, annotations={MODE_ANNOTATION: "auto"})
    assert (level, text.rpartition(": ")[2]) == ("warning", "default/demo1")
    assert judge(modes={"webhook"}, annotations={MODE_ANNOTATION: "webhook"})[0] == "ok"


def test_policies_without_an_overrider_are_a_warning() -> None:
    owned = AppliedObject(f"{BASE}/a", UID, "default/demo1")
    # `fleethook compile` has labelled it by a hash, because the file had no uid.
    by_hash = AppliedObject(f"{BASE}/b", "00ff00", "default/demo1")
    former = AppliedObject(f"{BASE}/c", "11111111-0000", "default/demo1")
    gone = AppliedObject(f"{BASE}/d", "00ff00", "default/gone")
    assert [one.level for one in check_objects([owned, by_hash], [rule_of()])] == ["ok"]
    (found,) = check_objects([owned, by_hash, former, gone], [rule_of()])
    assert found.level == "warning"
    assert "2 policies and bindings" in found.text
    assert found.text.endswith("mutatingadmissionpolicies/c, mutatingadmissionpolicies/d")
    assert "fleethook policies remove" in found.remedy
    assert list(check_objects([], [])) == []


def test_many_names_are_cut() -> None:
    (found,) = check_objects([AppliedObject(f"{BASE}/{n}", "0", "default/gone") for n in range(7)], [])
    assert found.text.endswith("mutatingadmissionpolicies/4 and 2 more")


def test_policies_that_could_not_be_applied_are_a_warning() -> None:
    failed = {"type": "Policy", "status": "False", "reason": "NotApplied", "message": "the webhook applies it: no"}
    rule = {**rule_of(), "status": {"conditions": [{"type": "Rendered"}, failed]}}
    (found,) = check_conditions([rule, rule_of()])
    assert (found.level, found.text) == ("warning", "YurtAppOverrider default/demo1: the webhook applies it: no")
