"""Tests of the rules for node pools, items and patches of entries; mistakes.md has further mistakes."""

from typing import Any

import pytest

from fleethook.engines.overrider.entries.steps_and_limits import ITEMS
from fleethook.engines.overrider.rules.schema_and_binding_rules import check_rules
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
    assert [(one.code, one.field) for one in check_rules(rule)] == found


RIGHT: dict[str, Any] = {
    "image": {"containerName": "a", "imageClaim": "nginx:1"},
    "replicas": 0,
    "initialReplicas": 0,
    "leave": ["replicas"],
}


def check(item: Any) -> list[tuple[str, str]]:
    found = check_rules(overrider(entry("*", items=[item])))
    return [(one.code, one.field.replace("entries[0].items[0]", "i")) for one in found]


def test_every_item_that_can_be_rendered_has_rules() -> None:
    assert set(RIGHT) == set(ITEMS)


@pytest.mark.parametrize(
    ("item", "found"),
    [
        ("image", [("invalid", "i")]),
        ({"replicas": -1}, [("invalid", "i.replicas")]),
        ({"replicas": True}, [("invalid", "i.replicas")]),
        ({"replicas": 2**31}, [("invalid", "i.replicas")]),
        ({"replicas": 1, "image": None}, []),
        ({"replicas": None}, [("required", "i")]),
    ],
)
def test_a_wrong_item_has_a_finding_with_its_path(item: Any, found: list[tuple[str, str]]) -> None:
    assert check(item) == found


SPEC = "/spec/template/spec"


def check_one_patch(made: Any) -> list[tuple[str, str]]:
    found = check_rules(overrider(entry("hangzhou", patches=[made])))
    return [(one.code, one.field.replace("entries[0].patches[0]", "p")) for one in found]


@pytest.mark.parametrize(
    "made",
    [
        patch("add", f"{SPEC}/containers/[name=app]/env/-", {"name": "A"}),
        patch("replace", f"{SPEC}/containers/0/image", "r.io/{{nodepool}}:1"),
        patch("replace", f"{SPEC}/hostNetwork", None),
        patch("remove", f"{SPEC}/hostNetwork", None),
        patch("remove", f"{SPEC}/containers/0"),
    ],
)
def test_a_right_patch_has_no_finding(made: dict[str, Any]) -> None:
    assert check_one_patch(made) == []


@pytest.mark.parametrize(
    ("made", "found"),
    [
        ("patch", [("invalid", "p")]),
        ({"path": "/spec/paused"}, [("required", "p.operation")]),
        ({"op": "remove", "path": "/spec/paused"}, [("unknown-field", "p.op")]),
        (patch("move", "/spec/paused"), [("unsupported", "p.operation")]),
        ({"operation": 1, "path": "/spec/paused"}, [("invalid", "p.operation")]),
        (patch("add", "/spec/paused"), [("required", "p.value")]),
        (patch("remove", "/spec/paused", True), [("forbidden", "p.value")]),
        ({"operation": "remove"}, [("required", "p.path")]),
        (patch("remove", "spec.paused"), [("invalid", "p.path")]),
        (patch("remove", f"{SPEC}/containers/[name]"), [("invalid", "p.path")]),
        (patch("remove", f"{SPEC}/containers/[name=app"), [("invalid", "p.path")]),
        (patch("remove", f"{SPEC}/containers/-"), [("invalid", "p.path")]),
        (patch("replace", "/metadata/name", "x"), [("forbidden", "p.path")]),
        (patch("add", f"{SPEC}/nodeSelector/a", "{{ nodepool }}"), [("token", "p.value")]),
        (patch("replace", f"{SPEC}/containers/0/image", "Not:an image"), [("image", "p.value")]),
        (patch("add", f"{SPEC}/initContainers/-", {"image": "Not:an image"}), [("image", "p.value.image")]),
        (patch("add", f"{SPEC}/containers", [{"image": "a"}, {"image": "?"}]), [("image", "p.value[1].image")]),
        (patch("add", "/metadata/annotations/image", "Not:an image"), []),
    ],
)
def test_a_wrong_patch_has_a_finding_with_its_path(made: Any, found: list[tuple[str, str]]) -> None:
    assert check_one_patch(made) == found
