"""The settings of interpreters with rules beyond their types."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from fleethook.engines.interpret.interpret_settings import InterpretSettings
from fleethook.settings import Settings


@pytest.mark.parametrize(
    ("given", "registers"),
    [
        ({}, False),
        ({"registration": "all"}, True),
        ({"registration": "all", "interpreter_registration": False}, False),
        ({"interpreter_registration": True}, True),
        ({"interpreter_registration": True, "engines": ["crds"]}, False),
    ],
)
def test_the_leader_registers_interpreters_with_the_server_or_if_it_is_asked(
    given: dict[str, Any], *, registers: bool
) -> None:
    settings = Settings(kubeconfig=Path("k"), service="fleet/fleethook", **given)
    assert settings.section(InterpretSettings).registers_interpreters is registers


@pytest.mark.parametrize(
    ("given", "text"),
    [({}, "needs a cluster: give --kubeconfig"), ({"kubeconfig": Path("k")}, "needs the address of this server")],
)
def test_the_registration_of_interpreters_needs_a_cluster_and_an_address(given: dict[str, Any], text: str) -> None:
    with pytest.raises(ValidationError, match=f"interpreter_registration {text}"):
        Settings(interpreter_registration=True, **given)
