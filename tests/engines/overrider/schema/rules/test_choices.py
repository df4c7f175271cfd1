"""The table of choices fits the API."""

from itertools import combinations

import pytest

from fleethook.engines.overrider.schema.go_structs import load_structs
from fleethook.engines.overrider.schema.rules.choices import (
    DISCRIMINATED,
    find_conflicts,
    find_disallowed,
    load_choices,
)


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


@pytest.mark.parametrize("struct", load_choices())
def test_each_two_members_conflict(struct: str) -> None:
    choice = load_choices()[struct]
    for first, second in combinations(sorted(choice.members), 2):
        (found,) = find_conflicts(choice, {"name": "n", second: {}, first: {}})
        assert found == (first, f"may not be set together with {second}: remove one of them")
    assert [one for one in choice.members if list(find_conflicts(choice, {one: {}}))] == []
    assert bool(list(find_conflicts(choice, {}))) == choice.needed


@pytest.mark.parametrize("struct", DISCRIMINATED)
def test_a_discriminator_decides(struct: str) -> None:
    rule = DISCRIMINATED[struct]
    for value in rule.values:
        assert list(find_disallowed(rule, {rule.member: {}, rule.discriminator: value})) == []
        assert bool(list(find_disallowed(rule, {rule.discriminator: value}))) == rule.needed
    assert [one for one, _ in find_disallowed(rule, {rule.member: {}, rule.discriminator: "Other"})] == [rule.member]
    assert bool(list(find_disallowed(rule, {rule.member: {}}))) == ("" not in rule.values)


def test_more_than_two_members_are_listed() -> None:
    (found,) = find_conflicts(load_choices()["core.v1.Probe"], {"exec": {}, "httpGet": {}, "grpc": {}})
    assert found == ("httpGet", "may not be set together with exec: keep one of exec, httpGet, grpc")
