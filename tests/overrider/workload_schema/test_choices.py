"""The table of choices fits the API."""

import pytest

from app.overrider.workload_schema.choices import DISCRIMINATED, load_choices
from app.overrider.workload_schema.fields import load_structs


@pytest.mark.parametrize("struct", load_choices())
def test_members_of_choices_exist(struct: str) -> None:
    choice, members = load_choices()[struct], load_structs()[struct].keys()
    assert len(choice.members) > 1
    assert choice.members <= members
    assert choice.default in {"", *choice.members}


@pytest.mark.parametrize("struct", DISCRIMINATED)
def test_discriminated_members_exist(struct: str) -> None:
    found = DISCRIMINATED[struct]
    assert {found.discriminator, found.member} <= load_structs()[struct].keys()


def test_every_source_of_a_volume_is_a_choice() -> None:
    """A source that a later version of the API adds joins the choice."""
    chosen = load_choices()["core.v1.Volume"].members
    assert {"configMap", "emptyDir", "hostPath", "projected", "image"} <= chosen
    assert "name" not in chosen
