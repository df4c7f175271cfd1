"""The engine of interpreters in a server: its layers and checks by the settings."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from fleethook.app import create_app
from fleethook.cluster.registration import paths
from fleethook.engines.interpret.interpret_server import interpret_routes, list_resources
from fleethook.engines.interpret.interpreter_chain import Chain
from fleethook.model.admission import allowed
from fleethook.model.karmada import CONFIG_MAP, CUSTOMIZATION
from fleethook.settings import Settings
from tests.builders import workload
from tests.server.reviews.asking_routes import ask


async def test_the_routes_of_interpreters_answer_their_reviews() -> None:
    routes = {route.path: route for route in interpret_routes(Chain([]), lambda _: iter(()) or allowed())}  # type: ignore[arg-type,return-value]
    assert {path for path, route in routes.items() if not route.needs} == {
        paths.VALIDATE_HOOKS, paths.VALIDATE_CONFIG_MAP, paths.EXPLORE_FOO, paths.EXPLORE_BAR,
    }  # fmt: skip
    kind = {"group": "apps", "version": "v1", "kind": "Deployment"}
    request = {"uid": "u-1", "operation": "InterpretHealth", "kind": kind, "object": workload()}
    body = {"apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterContext", "request": request}
    response = await ask(routes[paths.INTERPRET], json.dumps(body).encode())
    assert (response["uid"], response["successful"]) == ("u-1", False)


REFUSED = {
    "apiVersion": "config.karmada.io/v1alpha1",
    "kind": "ResourceInterpreterCustomization",
    "metadata": {"name": "broken"},
    "spec": {
        "target": {"apiVersion": "example.io/v1", "kind": "Game"},
        "customizations": {"healthInterpretation": {"luaScript": "function ("}},
    },
}


def test_the_config_map_of_the_namespace_is_followed() -> None:
    followed = list_resources(Settings(karmada_namespace="fleet"))
    assert {CONFIG_MAP, CUSTOMIZATION} <= {one.group_kind for one in followed.needed}
    assert ("fleet", "karmada-config") in [one.only for one in followed.needed]


@pytest.mark.parametrize(
    ("given", "registers"),
    [
        ({}, False),
        ({"registration": "all"}, True),
        ({"registration": "all", "interpreter_registration": "off"}, False),
        ({"interpreter_registration": "own"}, True),
    ],
)
def test_the_settings_decide_about_the_registration_with_karmada(given: dict[str, Any], *, registers: bool) -> None:
    settings = Settings(kubeconfig=Path("k"), service="fleet/fleethook", **given)
    assert create_app(settings, log=None).engines["interpret"].registers is registers


REGISTERING = Settings(kubeconfig=Path("k"), service="fleet/fleethook", interpreter_registration="all")


def test_the_configuration_has_the_kinds_that_no_other_webhook_has_and_these_are_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = create_app(REGISTERING, log=None)
    server = app.engines["interpret"]
    rule = {"apiGroups": ["apps"], "apiVersions": ["*"], "kinds": ["Deployment"], "operations": ["InterpretHealth"]}
    other = {"name": "w.example.org", "clientConfig": {"url": "https://x"}, "rules": [rule]}
    app.store.put(
        {
            "apiVersion": "config.karmada.io/v1alpha1",
            "kind": "ResourceInterpreterWebhookConfiguration",
            "metadata": {"name": "other"},
            "webhooks": [other],
        }
    )
    with caplog.at_level(logging.WARNING):
        ((configuration,), _) = server.configurations(), server.configurations()
    (webhook,) = configuration["webhooks"]
    assert webhook["clientConfig"]["service"]["path"] == "/interpret"
    registered = {
        operation for one in webhook["rules"] if "Deployment" in one["kinds"] for operation in one["operations"]
    }
    assert "InterpretReplica" in registered
    assert "InterpretHealth" not in registered
    assert len([one for one in caplog.records if "already has it" in one.getMessage()]) == 1


def test_a_changed_customization_changes_the_registration_and_other_objects_do_not() -> None:
    app = create_app(REGISTERING, log=None)
    app.store.put({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "n"}})
    assert not app.parts.registration_changed.is_set()
    app.store.put(REFUSED)
    assert app.parts.registration_changed.is_set()
