"""The settings of overriders with rules beyond their types."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from fleethook.engines.overrider.overrider_settings import OverriderSettings
from fleethook.settings import Settings


@pytest.mark.parametrize(
    ("text", "found"), [("256Mi", 256 << 20), ("1Gi", 1 << 30), ("2.68435456e+08", 256 << 20), (" 5M ", 5_000_000)]
)
def test_the_plan_cache_takes_a_quantity(monkeypatch: pytest.MonkeyPatch, text: str, found: int) -> None:
    monkeypatch.setenv("FLEETHOOK_PLAN_CACHE_BYTES", text)
    assert Settings().plan_cache_bytes == found


@pytest.mark.parametrize("text", ["256 MB", "", "1Ki", "2Ti"])
def test_an_invalid_size_of_the_plan_cache_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("FLEETHOOK_PLAN_CACHE_BYTES", text)
    with pytest.raises(ValidationError, match="plan_cache_bytes"):
        Settings()


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
