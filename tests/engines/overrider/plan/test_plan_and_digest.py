"""Tests of the plan of one pool. tests/conformance and test_render_properties.py test the rendered workloads."""

from typing import Any

from fleethook.engines.overrider.plan.plan_and_digest import Plan
from fleethook.model.openyurt import YURT_APP_SET
from tests.builders import compile_plan, container, entry, image, overrider, patch, pod_template, pool, yurt_app_set

SPEC = "/spec/template/spec"


def compile_for(*entries: dict[str, Any], name: str = "hangzhou", **subject: Any) -> Plan:
    rule = overrider(*entries) if entries else None
    return compile_plan(YURT_APP_SET, yurt_app_set(**subject), rule, kind="Deployment", pool=name, node_pool=None)


def test_the_last_step_that_changes_a_value_is_its_source() -> None:
    plan = compile_for(
        entry("*", items=[image("nginx", "a:1")]),
        entry("hangzhou", items=[image("nginx", "a:2"), {"replicas": 2}]),
        entry("beijing", items=[image("nginx", "a:3")]),
    )
    (changed,) = {source.tokens for source in plan.sources if source.after == "a:1"}
    assert [source.field for source in plan.sources if source.tokens == changed] == [
        "entries[0].items[0]",
        "entries[1].items[0]",
    ]
    assert plan.source_of(changed) == "entries[1].items[0]"
    assert plan.source_of(("spec", "replicas")) == "entries[1].items[1]"
    assert plan.source_of(("spec", "paused")) == ""


def test_a_replaced_list_changes_only_the_values_that_differ() -> None:
    nginx = container("nginx", "a:1", args=["x"])
    plan = compile_for(
        entry(
            "*",
            patches=[
                patch("add", "/spec/template/metadata/labels/tier", "edge"),
                patch("replace", f"{SPEC}/containers", [nginx]),
            ],
        ),
        template=pod_template(containers=[container("nginx", "a:1")]),
    )
    fields = {source.tokens[-1]: source.field for source in plan.sources}
    assert fields == {"tier": "entries[0].patches[0]", "args": "entries[0].patches[1]"}


def test_the_hash_depends_on_the_result_and_not_on_the_entries() -> None:
    once = compile_for(entry("*", items=[image("nginx", "a:2")]))
    twice = compile_for(entry("*", items=[image("nginx", "a:1")]), entry("*", items=[image("nginx", "a:2")]))
    assert once.digest == twice.digest
    assert once.digest != compile_for(entry("*", items=[image("nginx", "a:1")])).digest
    assert once.digest != compile_for(entry("*", items=[image("nginx", "a:2")]), name="beijing").digest
    assert compile_for().digest == compile_for(entry("beijing", items=[image("nginx", "a:2")])).digest == ""


def test_annotations_of_openyurt_survive_a_replacement_of_all() -> None:
    plan = compile_for(
        entry("*", patches=[patch("add", "/metadata/annotations", {"a": "b"})]), pools=[pool("hangzhou", patch={})]
    )
    kept = {
        name for name in plan.create.bare["metadata"].get("annotations", {}) if name.startswith("apps.openyurt.io/")
    }
    assert plan.create.rendered["metadata"]["annotations"].keys() == {"a", *kept}
