"""Tests of the fast check whether a workload matches its template."""

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleethook.engines.overrider.entries.value_marks import PoolValues
from fleethook.engines.overrider.render.overlay import overlay
from fleethook.engines.overrider.render.template_match import matches
from fleethook.model.merge_keys import WORKLOAD
from tests.hypothesis_profiles import examples

NAMED: dict[str, Any] = {
    "metadata": {"labels": {"app": "a"}, "annotations": {}},
    "spec": {
        "paused": False,
        "template": {
            "spec": {
                "serviceAccountName": "sa",
                "containers": [{"name": "c", "image": "i:1", "args": ["x", "y"], "ports": [{"containerPort": 80}]}],
                "volumes": [{"name": "v", "emptyDir": {}}],
            }
        },
    },
}


NO_POOL = PoolValues("")


def stored() -> dict[str, Any]:
    """NAMED as an apiserver returns it, with defaults and labels of other clients."""
    document = copy.deepcopy(NAMED)
    document["metadata"]["labels"]["theirs"] = "1"
    document["metadata"]["annotations"]["theirs"] = "1"
    spec = document["spec"]["template"]["spec"]
    spec["restartPolicy"] = "Always"
    spec["containers"][0]["imagePullPolicy"] = "IfNotPresent"
    spec["containers"][0]["ports"][0]["protocol"] = "TCP"
    return document


def test_members_of_other_clients_and_defaults_are_ignored() -> None:
    assert matches(NAMED, NAMED, NO_POOL)
    assert matches(stored(), NAMED, NO_POOL)


POD = ("spec", "template", "spec")
CHANGES: list[tuple[tuple[Any, ...], Any]] = [
    (("metadata", "labels", "app"), "b"),
    (("spec", "paused"), True),
    ((*POD, "serviceAccountName"), "other"),
    ((*POD, "containers", 0, "image"), "i:2"),
    ((*POD, "containers", 0, "args"), ["y", "x"]),
    ((*POD, "containers", 0, "args"), ["x"]),
    ((*POD, "containers", 0, "args"), "x"),
    ((*POD, "containers", 0, "ports", 0, "containerPort"), 81),
    ((*POD, "containers"), []),
    ((*POD, "containers"), {}),
    ((*POD, "volumes", 0), "v"),
    ((*POD, "volumes", 0, "emptyDir"), None),
    (("metadata",), "text"),
    (("spec", "template"), []),
]


@pytest.mark.parametrize(("path", "value"), CHANGES, ids=str)
def test_a_changed_member_does_not_match(path: tuple[Any, ...], value: Any) -> None:
    document = stored()
    target: Any = document
    for token in path[:-1]:
        target = target[token]
    target[path[-1]] = value
    assert not matches(document, NAMED, NO_POOL)
    del target[path[-1]]
    assert not matches(document, NAMED, NO_POOL)


@pytest.mark.parametrize("document", [None, [], "text", 1, {}])
def test_other_values_do_not_match(document: Any) -> None:
    assert not matches(document, NAMED, NO_POOL)


def test_a_longer_list_does_not_match() -> None:
    document = stored()
    document["spec"]["template"]["spec"]["containers"].append({"name": "sidecar"})
    assert not matches(document, NAMED, NO_POOL)


NAMES = st.sampled_from(["metadata", "spec", "template", "containers", "volumes", "env", "name", "args"])
SCALARS = st.sampled_from([None, True, 0, 1, "a", "b"])
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(NAMES, JSON, max_size=4)


@st.composite
def covering(draw: Any, named: Any) -> Any:
    """A value that has the members of ``named``, with random changes."""
    if draw(st.integers(0, 12)) == 0:
        return draw(JSON)
    if isinstance(named, dict):
        return {**draw(OBJECTS), **{name: draw(covering(value)) for name, value in named.items()}}
    if isinstance(named, list):
        return [draw(covering(value)) for value in named]
    return named


@settings(max_examples=examples(500))
@given(st.data())
def test_overlay_changes_nothing_in_a_workload_that_matches(data: Any) -> None:
    named = data.draw(OBJECTS)
    document = data.draw(covering(named))
    if isinstance(document, dict) and matches(document, named, NO_POOL):
        assert overlay(document, named, WORKLOAD) is document
