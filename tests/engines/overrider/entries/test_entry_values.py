"""Tests of the values of an entry that may differ between node pools."""

from typing import Any

import pytest

from fleethook.engines.overrider.entries.entry_values import map_values
from tests.builders import entry, image, patch

SPEC = "/spec/template/spec"


def values_of(item: Any) -> list[str | int]:
    found: list[str | int] = []

    def collect(value: str | int) -> str | int:
        found.append(value)
        return value

    assert map_values(entry("a", items=[item]), collect) == entry("a", items=[item])
    return found


@pytest.mark.parametrize(
    ("item", "values"),
    [
        (image("nginx", "r.io/nginx:{{nodepool}}"), ["r.io/nginx:{{nodepool}}"]),
        ({"replicas": 3}, [3]),
        ({"env": {"containerName": "a", "env": [{"name": "A", "value": "x"}, {"name": "B", "valueFrom": {}}]}}, ["x"]),
        ({"args": {"containerName": "a", "args": ["-v", "--x=1"]}}, ["-v", "--x=1"]),
        ({"labels": {"a": "b"}}, ["b"]),
        ({"nodeSelector": {"a": "b", "c": None}}, ["b"]),
        ({"annotations": {"a": 'quoted "text"', "b": "ä"}}, []),
        ({"resources": {"containerName": "a", "resources": {"limits": {"cpu": "1"}}}}, []),
        ({"replicas": 2_147_480_017}, []),
        ({"replicas": True}, []),
        (image("nginx", "not an image"), []),
        ({"image": "nginx"}, []),
        ("replicas", []),
    ],
)
def test_only_values_that_no_rule_inspects_are_found(item: Any, values: list[str | int]) -> None:
    assert values_of(item) == values


def test_values_are_replaced_by_items_and_patches_in_order() -> None:
    taken = iter(["i", "p", "q"])
    patches = [
        patch("replace", f"{SPEC}/containers/[name=nginx]/image", "nginx:1"),
        patch("add", "/metadata/annotations/note", "n"),
        patch("add", f"{SPEC}/priorityClassName", "high"),
    ]
    made = map_values(entry("a", items=[image("nginx", "nginx:1")], patches=patches), lambda _: next(taken))
    assert made["items"][0]["image"]["imageClaim"] == "i"
    assert [one["value"] for one in made["patches"]] == ["p", "q", "high"]


@pytest.mark.parametrize("path", [f"{SPEC}/nodeSelector/k", "/spec/template/metadata/labels/k"])
def test_a_value_that_kube_apiserver_refuses_is_not_replaced(path: str) -> None:
    for value, found in (("a b", []), ("a", ["a"]), ("in-{{nodepool}}", [])):
        made: list[str | int] = []
        map_values(entry("a", patches=[patch("add", path, value)]), lambda one, made=made: made.append(one) or one)
        assert made == found
