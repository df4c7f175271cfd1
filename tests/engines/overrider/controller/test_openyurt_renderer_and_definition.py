"""OpenYurt's own renderer and a definition that drops members of overriders are found."""

import copy
import logging
from typing import Any

import pytest

from fleethook.cluster.registration.webhook_configurations import ServiceReference, webhook_configurations
from fleethook.cluster.store import Store, key_of
from fleethook.engines.overrider.controller.openyurt_renderer_and_definition import (
    OpenYurtConflicts,
    RenderWebhook,
    describe_dropped_members,
    find_dropped_members,
    find_render_webhooks,
)
from schemas.definitions import RESOURCES, custom_resource_definition

NAME = "yurt-manager-mutating-webhook-configuration"


def render_webhook(**fields: Any) -> dict[str, Any]:
    """Return the webhook that OpenYurt 1.4.4 registers."""
    service = {"namespace": "kube-system", "name": "yurt-manager-webhook-service", "path": "/mutate-apps-v1-deployment"}
    rule = {
        "apiGroups": ["apps"],
        "apiVersions": ["v1"],
        "resources": ["deployments"],
        "operations": ["CREATE", "UPDATE"],
    }
    return {
        "name": "mutate.apps.v1.deployment", "clientConfig": {"service": service}, "rules": [rule],
        "failurePolicy": "Ignore", "sideEffects": "None", "admissionReviewVersions": ["v1"], **fields,
    }  # fmt: skip


def configuration(*webhooks: Any, name: str = NAME) -> dict[str, Any]:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": name}, "webhooks": list(webhooks),
    }  # fmt: skip


def render_configuration() -> dict[str, Any]:
    pods = render_webhook(name="mutate.core.v1.pod.openyurt.io")
    pods["clientConfig"] = {
        "service": {"name": "yurt-manager-webhook-service", "path": "/mutate-core-openyurt-io-v1-pod"}
    }
    return configuration(pods, render_webhook())


def test_the_renderer_is_found_among_openyurts_webhooks() -> None:
    assert find_render_webhooks([configuration(), render_configuration()]) == (
        RenderWebhook(NAME, "mutate.apps.v1.deployment"),
    )


def test_the_renderer_is_found_under_another_name_and_outside_the_cluster() -> None:
    renamed = configuration(render_webhook(), name="edge-webhooks")
    assert find_render_webhooks([renamed])
    outside = render_webhook(clientConfig={"url": "https://10.0.0.1:10273/mutate-apps-v1-deployment"})
    assert find_render_webhooks([configuration(outside)])
    every = render_webhook(rules=[{"apiGroups": ["*"], "resources": ["*"], "operations": ["*"]}])
    assert find_render_webhooks([configuration(every)])


@pytest.mark.parametrize(
    "other",
    [
        # After the renderer is disabled, OpenYurt keeps its other webhooks in the configuration.
        configuration(render_webhook(rules=[])),
        configuration(render_webhook(rules=[{"apiGroups": ["apps"], "resources": ["daemonsets"]}])),
        configuration(render_webhook(clientConfig={"service": {"name": "istiod", "path": "/inject"}})),
        # A webhook of another vendor on Deployments: controller-runtime gives it the same path.
        configuration(
            render_webhook(clientConfig={"service": {"name": "policy", "path": "/mutate-apps-v1-deployment"}}),
            name="policy",
        ),
        configuration(name="empty"),
        {"metadata": {"name": NAME}, "webhooks": [None, {"rules": [None], "clientConfig": "x"}, "x"]},
        {"webhooks": "x"},
    ],
)
def test_other_webhooks_are_no_render_webhook(other: dict[str, Any]) -> None:
    assert find_render_webhooks([other]) == ()


def test_the_webhook_of_fleethook_is_no_render_webhook() -> None:
    service = ServiceReference("yurt-system", "yurt-fleethook")
    assert find_render_webhooks(webhook_configurations(service)) == ()


OURS = custom_resource_definition(RESOURCES[0])


def upstream() -> dict[str, Any]:
    """Return the definition of OpenYurt 1.4, with fewer items than fleethook's and without status."""
    made = copy.deepcopy(OURS)
    (version,) = made["spec"]["versions"]
    del version["subresources"]
    schema = version["schema"]["openAPIV3Schema"]
    del schema["properties"]["status"]
    items = schema["properties"]["entries"]["items"]["properties"]["items"]["items"]["properties"]
    for name in items.keys() - {"image"}:
        del items[name]
    return made


def test_the_definition_of_fleethook_drops_nothing() -> None:
    assert find_dropped_members(OURS) == ()


def test_members_that_the_installed_definition_does_not_have_are_named() -> None:
    dropped = find_dropped_members(upstream())
    assert dropped[0] == "status"
    assert "entries[].items[].replicas" in dropped
    assert "entries[].items[].image" not in dropped
    assert "silently drops status (so kubectl get yao shows no state), entries[]" in describe_dropped_members(dropped)
    assert "h and 3 more," in describe_dropped_members(tuple("abcdefghijk"))


def test_a_status_that_cannot_be_written_is_named() -> None:
    made = copy.deepcopy(OURS)
    del made["spec"]["versions"][0]["subresources"]
    assert find_dropped_members(made) == ("status",)


def test_a_definition_that_keeps_unknown_members_drops_none() -> None:
    keeping = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    made = copy.deepcopy(OURS)
    made["spec"]["versions"][0]["schema"] = {"openAPIV3Schema": keeping}
    assert find_dropped_members(made) == ()


@pytest.mark.parametrize("spec", [None, {}, {"versions": "x"}, {"versions": [{"name": "v1beta1"}]}])
def test_a_definition_of_another_shape_has_no_findings(spec: Any) -> None:
    assert find_dropped_members({"spec": spec}) == ()


def test_conflicts_are_logged_once_and_reported_until_they_are_resolved(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    store = Store()
    conflicts = OpenYurtConflicts(store)
    store.put(render_configuration())
    store.put(configuration(name="somebody-elses"))
    assert [text for text in conflicts.findings() if "webhook mutate.apps.v1.deployment of" in text]
    store.put(upstream())
    assert len(conflicts.findings()) == 2
    changed = render_configuration()
    changed["metadata"]["labels"] = {"a": "b"}
    store.put(changed)
    assert caplog.text.count("OpenYurt's own renderer is on") == 1
    store.put(OURS)
    store.remove(key_of(changed))
    assert conflicts.findings() == ()
    assert caplog.text.count("resolved: ") == 2
