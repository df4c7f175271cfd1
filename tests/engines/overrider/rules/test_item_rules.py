"""Tests of the shapes of items; docs/overriders.md has the messages of further mistakes (test_mistakes.py)."""

from typing import Any

import pytest

from fleethook.engines.overrider.entries.items import ITEMS
from fleethook.engines.overrider.rules.item_rules import check_image, check_item
from tests.builders import image

RIGHT: dict[str, Any] = {
    "image": {"containerName": "a", "imageClaim": "nginx:1"},
    "replicas": 0,
    "initialReplicas": 0,
    "leave": ["replicas"],
    "env": {"containerName": "a", "env": [{"name": "A", "value": "b"}]},
    "args": {"containerName": "a", "args": ["-v"]},
    "resources": {"containerName": "a", "resources": {"limits": {"cpu": 1, "memory": "1Gi"}}},
    "volumeMounts": {"containerName": "a", "volumeMounts": [{"name": "v", "mountPath": "/v"}]},
    "volumes": [{"name": "v", "emptyDir": {}}],
    "tolerations": [{"key": "a", "operator": "Exists"}],
    "nodeSelector": {"a": "b", "c": None},
    "annotations": {"a": "any text", "b": None},
    "labels": {"a": "{{nodepool}}"},
}


def check(item: Any) -> list[tuple[str, str]]:
    return [(one.code, one.field) for one in check_item(item, "i", pools=())]


def test_every_item_that_can_be_rendered_has_rules() -> None:
    assert set(RIGHT) == set(ITEMS)


@pytest.mark.parametrize("member", RIGHT)
def test_a_right_item_has_no_finding(member: str) -> None:
    assert check({member: RIGHT[member]}) == []


@pytest.mark.parametrize(
    ("item", "found"),
    [
        ("image", [("invalid", "i")]),
        ({"replicas": -1}, [("invalid", "i.replicas")]),
        ({"replicas": True}, [("invalid", "i.replicas")]),
        ({"replicas": 2**31}, [("invalid", "i.replicas")]),
        ({"labels": {"a": "not a label!"}}, [("invalid", "i.labels.a")]),
        ({"annotations": {"a": 1}}, [("invalid", "i.annotations.a")]),
        ({"nodeSelector": {"/": "a"}}, [("invalid", "i.nodeSelector./")]),
        ({"labels": {"fleethook.io/x": "a"}}, [("forbidden", "i.labels.fleethook.io/x")]),
        ({"volumes": [{}]}, [("required", "i.volumes[0].name")]),
        ({"replicas": 1, "image": None}, []),
        ({"replicas": None}, [("required", "i")]),
    ],
)
def test_a_wrong_item_has_a_finding_with_its_path(item: Any, found: list[tuple[str, str]]) -> None:
    assert check(item) == found


def test_an_image_is_checked_with_the_names_of_the_pools() -> None:
    assert list(check_image("r.io/{{nodepool}}:1", "f", pools=("hangzhou",))) == []
    (finding,) = check_image("r.io/{{nodepool}}:1", "f", pools=("hangzhou", "a..b"))
    assert finding.message.startswith("'r.io/{{nodepool}}:1' is not an image for node pool a..b: ")
    assert check(image("a", "{{nodepool}}/x:1")) == []
