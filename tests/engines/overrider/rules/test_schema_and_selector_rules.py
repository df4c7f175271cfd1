"""Tests of the rules for an overrider alone; mistakes.md has further mistakes."""

from typing import Any

import pytest

from fleethook.engines.overrider.rules.schema_and_selector_rules import check_overrider
from tests.builders import entry, image, overrider, patch

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


GOOD = entry("a", items=[image("nginx", "nginx:2")])


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({"entries": None}, [("required", "entries")]),
        ({"subject": {"kind": None, "name": "demo"}}, [("required", "subject.kind")]),
        ({"subject": {"kind": "YurtAppSet", "nmae": "demo"}}, [("unknown-field", "subject.nmae")]),
        ({"status": None}, []),
        ({"entries": [{**GOOD, "patches": None, "poolSelector": None}]}, []),
        ({"entries": [{**GOOD, "items": [None]}]}, [("invalid", "entries[0].items[0]")]),
        ({"entries": [{**GOOD, "items": [{"replicas": 10**20}]}]}, [("invalid", "entries[0].items[0].replicas")]),
        # A mistake hides no other one.
        (
            {"entries": [{"pools": "a", "patches": [patch("add", "spec.paused", True)]}, {"pools": ["-"], "itms": []}]},
            [
                ("invalid", "entries[0].pools"),
                ("unknown-field", "entries[1].itms"),
                ("invalid", "entries[0].patches[0].path"),
                ("invalid", "entries[1].pools[0]"),
            ],
        ),
    ],
)
def test_the_schema_decides_about_types_and_names(changed: Any, found: list[tuple[str, str]]) -> None:
    assert [(one.code, one.field) for one in check_overrider({**overrider(GOOD), **changed})] == found


def test_of_a_large_overrider_the_first_violation_is_reported() -> None:
    rule = overrider(*[{**GOOD, "itms": []} for _ in range(2000)])
    assert [one.code for one in check_overrider(rule)] == ["unknown-field"]
