"""Tests of the overlay of a template over a stored workload."""

from typing import Any

import pytest

from fleethook.engines.overrider.render.overlay import covers, overlay
from fleethook.model.merge_keys import WORKLOAD, MergeSchema
from tests.builders import container

NO_SCHEMA = MergeSchema()
POD_SPEC = WORKLOAD.fields["spec"].fields["template"].fields["spec"]


def test_an_object_that_has_every_named_member_is_returned_itself() -> None:
    current = {"spec": {"replicas": 2, "paused": True}}
    assert overlay(current, {"spec": {"replicas": 2}}, NO_SCHEMA) is current


def test_unnamed_members_and_elements_stay_in_their_place() -> None:
    current = {"containers": [container("istio"), container("nginx", "nginx:1"), container("log")], "hostNetwork": True}
    made = overlay(current, {"containers": [container("nginx", "nginx:2")]}, POD_SPEC)
    assert [one["image"] for one in made["containers"]] == ["nginx:1.0", "nginx:2", "nginx:1.0"]
    assert made["hostNetwork"] is True
    assert current["containers"][1]["image"] == "nginx:1"


@pytest.mark.parametrize(
    ("current", "named", "expected"),
    [
        ({"httpGet": {"port": 80}}, {"exec": {"command": ["a"]}}, {"exec": {"command": ["a"]}}),
        ({"value": "a"}, {"valueFrom": {"fieldRef": {}}}, {"valueFrom": {"fieldRef": {}}}),
        ({"value": "a"}, {"value": "b"}, {"value": "b"}),
    ],
)
def test_an_exclusive_member_replaces_its_alternatives(current: Any, named: Any, expected: Any) -> None:
    assert overlay(current, named, NO_SCHEMA) == expected


def test_another_volume_source_replaces_the_former_one() -> None:
    current = {"volumes": [{"name": "v", "emptyDir": {}}]}
    made = overlay(current, {"volumes": [{"name": "v", "hostPath": {"path": "/a"}}]}, POD_SPEC)
    assert made == {"volumes": [{"name": "v", "hostPath": {"path": "/a"}}]}


def test_an_atomic_list_is_replaced_as_a_whole() -> None:
    assert overlay({"args": ["a", "b"]}, {"args": ["c"]}, NO_SCHEMA) == {"args": ["c"]}


def test_an_atomic_list_with_defaulted_members_stays() -> None:
    current = {"rules": [{"name": "a", "mode": "default"}]}
    assert overlay(current, {"rules": [{"name": "a"}]}, NO_SCHEMA) is current


@pytest.mark.parametrize(
    ("current", "named", "expected"),
    [
        ({"a": 1, "b": 2}, {"a": 1}, True),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ([{"a": 1, "b": 2}], [{"a": 1}], True),
        ([{"a": 1}, {"a": 2}], [{"a": 1}], False),
        ("a", "b", False),
    ],
)
def test_covers_allows_additional_members_but_no_additional_elements(
    current: Any, named: Any, *, expected: bool
) -> None:
    assert covers(current, named) is expected
