"""Dry runs and rights; tests/e2e/test_doctor.py has a real apiserver."""

from typing import Any

import pytest

from fleethook.cli.doctor.doctor_probes import (
    Right,
    judge,
    judge_rights,
    list_probes,
    list_rights,
)
from fleethook.cluster.registration.configuration_objects import list_webhooks
from fleethook.engine import installed_engines
from tests.e2e.fleet import RULES


def allows(rules: list[dict[str, Any]], right: Right) -> bool:
    group, resource, verb = right
    return any(
        group in rule["apiGroups"] and resource in rule["resources"] and verb in rule["verbs"]
        for rule in rules
        if not rule.get("resourceNames")
    )


def test_the_rights_of_a_running_server_suffice() -> None:
    """The end-to-end tests run servers with these rules."""
    rights = list_rights({"overrider", "interpret", "crds"})
    assert len(rights) > 15
    assert [one for one in rights if not allows(RULES, one)] == []


def test_only_the_rights_of_the_engines_are_listed() -> None:
    assert list_rights({"crds"}) == []
    groups = {group for group, _, _ in list_rights({"interpret"})}
    assert "config.karmada.io" in groups
    assert "apps.openyurt.io" not in groups


def test_missing_rights_are_an_error_with_the_rules_to_add() -> None:
    found = judge_rights("s/n", [("g", "a", "list"), ("g", "a", "watch")], 9)
    assert (found.level, found.text) == (
        "error",
        "the service account s/n lacks 2 of the 9 rights that the server needs",
    )
    rule = '{apiGroups: ["g"], resources: [a], verbs: [list, watch]}'
    assert found.remedy == f"add to a ClusterRole that is bound to the service account: {rule}"
    assert judge_rights("s/n", [], 9).level == "ok"


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
        (400, 'admission webhook "policy.example.org" denied the request: no', "unknown", "--namespace"),
        (201, "", "error", "--namespace"),
        (403, 'cannot create resource "yurtappoverriders"', "unknown", "verbs: [create]"),
        (404, "404 page not found", "unknown", "definition of yurtappoverriders.apps.openyurt.io"),
        (422, "YurtAppOverrider is invalid", "unknown", "correct"),
        (403, 'pods "a" is forbidden: exceeded quota: q', "unknown", "correct"),
        (500, 'failed calling webhook "w": the server is currently unable to handle the request', "error", "readyz"),
        (500, 'failed calling webhook "w": x509: certificate signed by unknown authority', "error", "caBundle"),
        (500, 'failed calling webhook "w": x509: certificate has expired or is not yet valid', "error", "NTP"),
        (500, 'failed calling webhook "w": x509: certificate is valid for a, not b', "error", "dns_names"),
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
