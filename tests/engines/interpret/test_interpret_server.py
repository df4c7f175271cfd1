"""The engine of interpreters in a server: its layers and checks by the settings."""

from pathlib import Path
from typing import Any

import pytest

from fleethook.app import create_app
from fleethook.engines.interpret.interpret_server import InterpretServer, list_resources
from fleethook.model.karmada import CONFIG_MAP, CUSTOMIZATION
from fleethook.settings import Settings

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


def test_a_refused_customization_is_a_check_that_leaves_the_server_ready() -> None:
    app = create_app(Settings(), log=None)
    app.store.put(REFUSED)
    checks = list(app.find_engine(InterpretServer).checks())
    assert [(check.name, check.ok, "broken" in check.detail) for check in checks] == [("customizations", True, True)]


@pytest.mark.parametrize(
    ("given", "leads"),
    [
        ({}, False),
        ({"registration": "all"}, True),
        ({"registration": "all", "interpreter_registration": False}, False),
        ({"interpreter_registration": True}, True),
    ],
)
def test_the_settings_decide_about_the_registration_with_karmada(given: dict[str, Any], *, leads: bool) -> None:
    settings = Settings(kubeconfig=Path("k"), service="fleet/fleethook", **given)
    assert create_app(settings, log=None).find_engine(InterpretServer).leads is leads
