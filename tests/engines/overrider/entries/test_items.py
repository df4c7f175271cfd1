"""Tests of the workload that each item produces."""

import copy
from typing import Any

import pytest

from fleethook.engines.overrider.entries.items import ITEMS, item_effect

WORKLOAD: dict[str, Any] = {
    "spec": {
        "replicas": 2,
        "template": {
            "spec": {
                "containers": [{"name": "app", "image": "app:1", "args": ["-v"]}, {"name": "side", "image": "side:1"}],
                "initContainers": [{"name": "app", "image": "init:1"}],
            },
        },
    },
}
APP = {"containerName": "app"}


def expected(**changes: Any) -> dict[str, Any]:
    """Return the workload with replaced members, each named by its path: `template__spec__containers`."""
    made = copy.deepcopy(WORKLOAD)
    for path, value in changes.items():
        *parents, last = path.split("__")
        place: Any = made["spec"]
        for name in parents:
            place = place[int(name) if name.isdigit() else name]
        place[last] = value
    return made


CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "image": (
        {"image": {**APP, "imageClaim": "app:2"}},
        expected(template__spec__containers__0__image="app:2", template__spec__initContainers__0__image="app:2"),
    ),
    "replicas": ({"replicas": 5}, expected(replicas=5)),
    "initialReplicas": ({"initialReplicas": 5}, expected(replicas=5)),
    "leave": ({"leave": ["replicas"]}, expected()),
}


def test_every_item_has_a_case() -> None:
    assert sorted(CASES) == sorted(ITEMS)


@pytest.mark.parametrize("name", CASES)
def test_an_item_changes_only_its_member(name: str) -> None:
    item, wanted = CASES[name]
    before = copy.deepcopy(WORKLOAD)
    effect = item_effect(item)
    assert effect is not None
    assert effect.apply(before) == wanted
    assert before == WORKLOAD
