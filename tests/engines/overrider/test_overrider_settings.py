"""The settings of overriders with rules beyond their types."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from fleethook.engines.overrider.overrider_settings import OverriderSettings
from fleethook.settings import Settings


@pytest.mark.parametrize(
    ("given", "controls"),
    [
        ({}, False),
        ({"registration": "ca-bundle"}, True),
        ({"registration": "ca-bundle", "controller": False}, False),
        ({"controller": True}, True),
        ({"controller": True, "engines": ["dispatch"]}, False),
    ],
)
def test_the_controller_runs_with_registration_or_if_it_is_switched_on(
    given: dict[str, Any], *, controls: bool
) -> None:
    assert Settings(kubeconfig=Path("k"), **given).section(OverriderSettings).controls is controls


def test_the_controller_needs_a_cluster() -> None:
    with pytest.raises(ValidationError, match="the controller needs a cluster: give --kubeconfig or --in-cluster"):
        Settings(controller=True)
