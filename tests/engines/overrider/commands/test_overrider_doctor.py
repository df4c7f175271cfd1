"""The checks of ``fleethook doctor`` for overriders; tests/e2e/test_doctor.py has a real apiserver."""

import copy
from typing import Any

from fleethook.cluster.registration.webhook_configurations import (
    MUTATING,
    VALIDATING,
    ServiceReference,
    webhook_configurations,
)
from fleethook.engines.overrider.commands.overrider_doctor import check_configurations, check_definition
from schemas.definitions import RESOURCES, custom_resource_definition
from tests.cli.doctor.test_registered_webhooks import levels
from tests.engines.overrider.controller.test_openyurt_renderer_and_definition import upstream

(DEFINITION,) = (custom_resource_definition(one) for one in RESOURCES if one.plural == "yurtappoverriders")


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
    del entries["items"]["properties"]["items"]["items"]["properties"]["leave"]
    (one,) = check_definition(poor)
    assert (one.level, "leave" in one.text) == ("warning", True)
    (one,) = check_definition(upstream())
    assert "drops status (so kubectl get yao shows no state)" in one.text
