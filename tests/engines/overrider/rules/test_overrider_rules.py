"""Tests of the rules for an overrider alone; mistakes.md has further mistakes."""

from typing import Any

import pytest

from fleethook.engines.overrider.rules.overrider_rules import check_overrider
from tests.builders import entry, image, overrider

FIELD = "entries[0].poolSelector"


@pytest.mark.parametrize(
    ("selector", "pools", "found"),
    [
        ({"matchLabels": {"region": "east"}}, [], []),
        ({}, [], [("required", FIELD)]),
        ({"matchLabels": None}, [], [("required", FIELD)]),
        ({"region": "east"}, [], [("unknown-field", f"{FIELD}.region")]),
        ("east", [], [("invalid", FIELD)]),
        ({"matchLabels": {"a": "b c"}}, [], [("invalid", f"{FIELD}.matchLabels")]),
        ({"matchLabels": {"region": "east"}}, ["*"], [("no-effect", FIELD)]),
    ],
)
def test_a_selector_has_findings(selector: Any, pools: list[str], found: list[tuple[str, str]]) -> None:
    rule = overrider({**entry(*pools, items=[image("nginx", "nginx:2")]), "poolSelector": selector})
    assert [(one.code, one.field) for one in check_overrider(rule)] == found
