"""The settings of interpreters with rules beyond their types."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from fleethook.engines.interpret.interpret_settings import InterpretSettings
from fleethook.settings import Settings


@pytest.mark.parametrize(
    ("given", "chosen"),
    [
        ({}, "off"),
        ({"registration": "all"}, "missing"),
        ({"registration": "all", "interpreter_registration": "off"}, "off"),
        ({"registration": "all", "interpreter_registration": "own"}, "own"),
        ({"interpreter_registration": "all"}, "all"),
        ({"interpreter_registration": "all", "engines": ["crds"]}, "off"),
    ],
)
def test_the_leader_registers_interpreters_with_the_server_or_if_it_is_asked(
    given: dict[str, Any], chosen: str
) -> None:
    settings = Settings(kubeconfig=Path("k"), service="fleet/fleethook", **given)
    assert settings.section(InterpretSettings).chosen_registration == chosen


@pytest.mark.parametrize(
    ("given", "text"),
    [({}, "needs a cluster: give --kubeconfig"), ({"kubeconfig": Path("k")}, "needs the address of this server")],
)
def test_the_registration_of_interpreters_needs_a_cluster_and_an_address(given: dict[str, Any], text: str) -> None:
    with pytest.raises(ValidationError, match=f"interpreter_registration {text}"):
        Settings(interpreter_registration="own", **given)
