"""Tests of the difference that an overrider makes to a template."""

from typing import Any

from fleethook.engines.overrider.render.template_delta import (
    Leaf,
    apply_delta,
    delta_of,
    leaves,
    name_tokens,
    schema_at,
    value_at,
)
from fleethook.model.json import ABSENT
from fleethook.model.merge_keys import WORKLOAD
from fleethook.patch import format_pointer
from tests.builders import container


def deployment(*containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"labels": {"app": "demo"}},
        "spec": {"template": {"spec": {"containers": [*containers]}}, **spec},
    }


def names(workload: dict[str, Any]) -> list[str]:
    return [one["name"] for one in workload["spec"]["template"]["spec"]["containers"]]


BEFORE = deployment(container("nginx"), container("log"))
AFTER = deployment(container("nginx", "nginx:2"), container("side"), replicas=3)


def name(leaf: Leaf) -> str:
    return format_pointer([one if isinstance(one, str) else f"[name={one[0]}]" for one in leaf.tokens])


DELTA = delta_of(BEFORE, AFTER, WORKLOAD)


def test_a_delta_turns_the_template_into_the_result() -> None:
    assert apply_delta(BEFORE, DELTA) == AFTER


def test_a_delta_is_idempotent() -> None:
    made = apply_delta(BEFORE, DELTA)
    assert apply_delta(made, DELTA) is made


def test_a_delta_finds_elements_by_name_and_leaves_foreign_ones_in_place() -> None:
    living = deployment(container("istio"), container("log"), container("nginx"))
    made = apply_delta(living, DELTA)
    assert names(made) == ["istio", "nginx", "side"]
    assert value_at(made, ("spec", "template", "spec", "containers", ("nginx", 0), "image")) == "nginx:2"


def test_a_removed_map_keeps_the_labels_of_others() -> None:
    delta = delta_of({"metadata": {"labels": {"app": "demo"}}}, {"metadata": {}}, WORKLOAD)
    assert apply_delta({"metadata": {"labels": {"app": "demo", "team": "a"}}}, delta) == {
        "metadata": {"labels": {"team": "a"}}
    }
    assert apply_delta({"metadata": {"labels": {"app": "demo"}}}, delta) == {"metadata": {}}


def test_leaves_name_each_difference_with_both_values() -> None:
    found = {name(leaf): (leaf.before, leaf.after) for leaf in leaves(DELTA)}
    containers = "/spec/template/spec/containers"
    assert found == {
        f"{containers}/[name=log]": (container("log"), ABSENT),
        f"{containers}/[name=nginx]/image": ("nginx:1.0", "nginx:2"),
        f"{containers}/[name=side]": (ABSENT, container("side")),
        "/spec/replicas": (ABSENT, 3),
    }
    assert {leaf.pointer for leaf in leaves(DELTA)} == {
        f"{containers}/1", f"{containers}/0/image", "/spec/replicas",
    }  # fmt: skip


def test_a_pointer_is_resolved_to_names_as_far_as_it_leads() -> None:
    tokens = name_tokens(BEFORE, "/spec/template/spec/containers/1/image")
    assert tokens == ("spec", "template", "spec", "containers", ("log", 0), "image")
    assert name_tokens(BEFORE, "/spec/template/spec/containers/7/image") == tokens[:4]
    assert schema_at(tokens[:4]).merge_key == "name"
    assert value_at(BEFORE, ("spec", "paused")) is ABSENT
