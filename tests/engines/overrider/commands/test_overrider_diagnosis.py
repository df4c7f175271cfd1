"""The checks of ``fleethook doctor`` for overriders; tests/e2e/test_doctor.py has a real apiserver."""

import copy
from typing import Any

from fleethook.cluster.registration.configuration_objects import (
    MUTATING,
    VALIDATING,
    ServiceReference,
    webhook_configurations,
)
from fleethook.engines.overrider.commands.overrider_diagnosis import (
    check_conditions,
    check_configurations,
    check_definition,
    check_objects,
    find_modes,
    judge_policy_rights,
    list_policy_rights,
)
from fleethook.engines.overrider.policies.mode import MODE_ANNOTATION
from fleethook.engines.overrider.policies.policy_client import AppliedObject
from schemas.definitions import RESOURCES, custom_resource_definition
from tests.builders import overrider
from tests.cli.doctor.test_doctor_checks import levels
from tests.cli.doctor.test_doctor_probes import allows
from tests.e2e.fleet import RULES
from tests.engines.overrider.controller.test_openyurt_conflicts import upstream

(DEFINITION,) = (custom_resource_definition(one) for one in RESOURCES if one.plural == "yurtappoverriders")
BASE = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies"
UID = "3f0c2b6e-5d0a"
MISSING = list_policy_rights()[:1]


def rule_of(**metadata: Any) -> dict[str, Any]:
    return overrider(uid=UID, **metadata)


def judge_modes(
    *, modes: set[str], annotations: dict[str, str] | None = None, missing: Any = MISSING
) -> tuple[str, str]:
    found = judge_policy_rights("s/n", missing, modes=modes, overriders=[rule_of(annotations=annotations)])
    return found.level, found.text


def test_the_rights_of_a_running_server_suffice_for_policies() -> None:
    """The end-to-end tests run servers with these rules."""
    rights = list_policy_rights()
    assert len(rights) == 8
    assert [one for one in rights if not allows(RULES, one)] == []


def test_the_modes_are_read_from_the_pods() -> None:
    variable = {"name": "FLEETHOOK_OVERRIDER_MODE", "value": "auto"}
    pod = {"spec": {"containers": [{"name": "a"}, {"name": "b", "env": [{"name": "OTHER"}, variable]}]}}
    assert find_modes([pod, {}]) == {"auto"}


def test_missing_rights_are_a_warning_unless_only_the_webhook_is_wanted() -> None:
    assert judge_modes(modes={"auto"})[0] == "warning"
    assert "must not create mutatingadmissionpolicies.admissionregistration.k8s.io" in judge_modes(modes={"auto"})[1]
    assert judge_modes(modes=set())[0] == "warning"
    assert judge_modes(modes={"webhook"})[0] == "ok"
    assert judge_modes(modes={"webhook", "auto"})[0] == "warning"
    assert judge_modes(modes={"auto"}, missing=[]) == ("ok", "the service account s/n may apply policies")


def test_an_annotation_that_asks_for_policies_needs_the_rights() -> None:
    level, text = judge_modes(modes={"webhook"}, annotations={MODE_ANNOTATION: "auto"})
    assert (level, text.rpartition(": ")[2]) == ("warning", "default/demo1")
    assert judge_modes(modes={"webhook"}, annotations={MODE_ANNOTATION: "webhook"})[0] == "ok"


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


def foreign(kind: str, name: str, **members: Any) -> dict[str, Any]:
    rule = {
        "apiGroups": ["apps"],
        "apiVersions": ["*"],
        "operations": ["*"],
        "resources": ["deployments", "statefulsets"],
    }
    webhook = {"name": name, "rules": [rule], **members}
    return {"kind": kind, "metadata": {"name": "foreign"}, "webhooks": [webhook]}


def test_webhooks_of_others_are_noted_and_openyurts_renderer_is_an_error() -> None:
    configurations = webhook_configurations(ServiceReference("system", "fleethook"))
    (one,) = check_configurations([*configurations, foreign(VALIDATING, "policy.example.org")])
    assert (one.level, one.text) == (
        "note", "policy.example.org of ValidatingWebhookConfiguration foreign is called for deployments and statefulsets, too",
    )  # fmt: skip
    service = {"service": {"name": "yurt-manager-webhook-service", "path": "/mutate-apps-v1-deployment"}}
    render = foreign(MUTATING, "mutate.apps.v1.deployment", clientConfig=service)
    found = list(check_configurations([*configurations, render]))
    assert levels(found) == ["error"]
    # yurt-manager registers a removed webhook again (tests/conformance/openyurt/controllers.yaml).
    assert found[0].remedy.startswith("start yurt-manager with --controllers=*,-yurt-app-overrider-controller")


def test_a_definition_that_drops_members_is_a_warning_and_none_is_an_error() -> None:
    assert levels(check_definition(None)) == ["error"]
    assert levels(check_definition(DEFINITION)) == []
    poor = copy.deepcopy(DEFINITION)
    entries = poor["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["entries"]
    del entries["items"]["properties"]["items"]["items"]["properties"]["env"]
    (one,) = check_definition(poor)
    assert (one.level, "env" in one.text) == ("warning", True)
    (one,) = check_definition(upstream())
    assert "drops status (so kubectl get yao shows no state)" in one.text
