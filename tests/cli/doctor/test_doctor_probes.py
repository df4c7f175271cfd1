"""Tests of the checks of policies; tests/e2e/test_doctor.py has a real apiserver."""

from typing import Any

import pytest

from fleethook.cli.doctor.doctor_probes import (
    check_conditions,
    check_objects,
    find_modes,
    judge,
    judge_policy_rights,
    judge_rights,
    list_policy_rights,
    list_probes,
    list_rights,
)
from fleethook.cluster.registration.webhooks import list_webhooks
from fleethook.engine import Right, installed_engines
from fleethook.engines.overrider.policies.mode import MODE_ANNOTATION
from fleethook.engines.overrider.policies.policy_client import AppliedObject
from tests.builders import overrider
from tests.e2e.fleet import RULES

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


def allows(rules: list[dict[str, Any]], right: Right) -> bool:
    return any(
        right.group in rule["apiGroups"]
        and right.resource in rule["resources"]
        and right.verb in rule["verbs"]
        and (not rule.get("resourceNames") or right.name in rule["resourceNames"])
        for rule in rules
    )


def test_the_rights_of_a_running_server_suffice() -> None:
    """The end-to-end tests run servers with these rules."""
    rights = list_rights({"overrider", "interpret", "crds"}, "system")
    assert len(rights) > 30
    assert [one for one in rights if not allows(RULES, one)] == []


def test_only_the_rights_of_the_engines_are_listed() -> None:
    assert list_rights({"crds"}, "system") == []
    groups = {one.group for one in list_rights({"interpret"}, "system")}
    assert "config.karmada.io" in groups
    assert "apps.openyurt.io" not in groups


def test_a_review_asks_for_the_subresource_the_name_and_the_namespace() -> None:
    assert Right("patch", "g", "a/status").attributes() == {
        "verb": "patch", "group": "g", "resource": "a", "subresource": "status",
    }  # fmt: skip
    assert Right("get", "", "leases", name="n", namespace="s").attributes() == {
        "verb": "get", "resource": "leases", "name": "n", "namespace": "s",
    }  # fmt: skip


def test_rights_of_the_controller_are_warnings_and_others_errors() -> None:
    missing = [Right("list", "g", "a"), Right("patch", "", "b", leader=True)]
    found = list(judge_rights("s/n", missing, 9))
    assert [(one.level, one.text) for one in found] == [
        ("error", "the service account s/n must not: list a.g"),
        ("warning", "the service account s/n must not: patch b"),
    ]
    assert all("rbac.yaml" in one.remedy for one in found)
    assert [one.text for one in judge_rights("s/n", [], 9)] == [
        "the service account s/n has all 9 rights that were checked"
    ]


PROBES = list_probes(installed_engines())
PROBE = PROBES[0]


def test_each_probe_asks_a_validating_webhook_of_its_engine() -> None:
    webhooks = {one.name: one for one in list_webhooks()}
    assert [probe.engine for probe in PROBES] == ["overrider", "interpret", "crds"]
    for probe in PROBES:
        wanted = webhooks[probe.webhook]
        assert (wanted.engine, wanted.group, wanted.version) == (probe.engine, probe.group, probe.version)
        assert probe.plural in wanted.resources
        assert probe.namespaced is (wanted.scope == "Namespaced")
        assert wanted.side_effects in ("None", "NoneOnDryRun")


def test_the_path_has_the_namespace_of_namespaced_objects() -> None:
    assert PROBE.build_path("a") == "/apis/apps.openyurt.io/v1alpha1/namespaces/a/yurtappoverriders"
    assert PROBES[1].build_path("a") == "/apis/config.karmada.io/v1alpha1/resourceinterpretercustomizations"


@pytest.mark.parametrize(
    ("status", "message", "level", "part"),
    [
        (400, f'admission webhook "{PROBE.webhook}" denied the request: entries', "ok", ""),
        (400, 'admission webhook "policy.example.org" denied the request: no', "note", "--namespace"),
        (201, "", "error", "--namespace"),
        (403, 'cannot create resource "yurtappoverriders"', "note", "verbs: [create]"),
        (404, "404 page not found", "note", "definition of yurtappoverriders.apps.openyurt.io"),
        (422, "YurtAppOverrider is invalid", "warning", "correct"),
        (500, 'failed calling webhook "w": x509: certificate signed by unknown authority', "error", "caBundle"),
        (500, 'failed calling webhook "w": x509: certificate has expired or is not yet valid', "error", "NTP"),
        (500, 'failed calling webhook "w": x509: certificate is valid for a, not b', "error", "certs issue"),
        (500, 'failed calling webhook "w": dial tcp: connect: connection refused', "error", "start the server"),
        (500, 'failed calling webhook "w": no endpoints available for service "w"', "error", "no Pod"),
        (500, 'failed calling webhook "w": service "w" not found', "error", "create the Service"),
        (500, 'failed calling webhook "w": failed to call webhook: Not Found', "error", "enable the engine"),
        (500, 'failed calling webhook "w": context deadline exceeded', "error", "NetworkPolicy"),
        (500, 'failed calling webhook "w": net/http: TLS handshake timeout', "error", "NetworkPolicy"),
        (500, 'failed calling webhook "w": no such host', "error", "DNS"),
        (500, 'failed calling webhook "w": something else', "error", "log of the server"),
    ],
)
def test_each_answer_has_a_meaning_and_a_remedy(status: int, message: str, level: str, part: str) -> None:
    found = judge(PROBE, status, message, namespace="a")
    assert (found.level, part in found.remedy) == (level, True)
    assert bool(found.remedy) is (level != "ok")
