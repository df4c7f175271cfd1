"""The form of a policy. tests/e2e/test_policies.py evaluates forms."""

import re
from typing import Any

import msgspec
import pytest

from fleethook.engines.overrider.policies.cel_expressions import Unsupported
from fleethook.engines.overrider.policies.form import compile_form, find_defaults, undo_of_first_render
from tests.builders import entry, image, patch, pod_template, pool, yurt_app_set
from tests.engines.overrider.policies.compiling import plan_of

SPEC = "/spec/template/spec"


def test_without_defaults_it_is_the_undo_of_the_plan() -> None:
    plan = plan_of(entry("*", items=[image("nginx", "nginx:2")], patches=[patch("add", "/spec/minReadySeconds", 3)]))
    assert undo_of_first_render(plan, plan.update.delta, find_defaults(plan, plan.update.delta)) == plan.undo_text


CASES = {
    "a member": (
        {},
        patch("add", f"{SPEC}/dnsPolicy", "Default"),
        {"template": {"spec": {"dnsPolicy": "ClusterFirst"}}},
    ),
    "the members of an object": (
        {"strategy": {"type": "RollingUpdate"}},
        patch("add", "/spec/strategy/rollingUpdate", {"maxSurge": 0}),
        {"strategy": {"rollingUpdate": {"maxSurge": "25%"}}},
    ),
    "the type of a strategy that is replaced": (
        {"strategy": {"rollingUpdate": {"maxSurge": 1}}},
        patch("replace", "/spec/strategy", {"type": "Recreate"}),
        {"strategy": {"rollingUpdate": {"$patch": "merge"}, "type": "RollingUpdate"}},
    ),
    "a volume without a source": (
        {"template": pod_template(volumes=[{"name": "v"}])},
        patch("replace", f"{SPEC}/volumes/[name=v]", {"name": "v", "emptyDir": {"medium": "Memory"}}),
        {"template": {"spec": {"volumes": [{"emptyDir": {"medium": None}, "name": "v"}]}}},
    ),
    "a volume with another source": (
        {"template": pod_template(volumes=[{"name": "v", "secret": {"secretName": "s"}}])},
        patch("replace", f"{SPEC}/volumes/[name=v]", {"name": "v", "emptyDir": {"medium": "Memory"}}),
        {"template": {"spec": {"volumes": [{"emptyDir": None, "name": "v", "secret": {"$patch": "merge"}}]}}},
    ),
}


STATEFUL_CASES = {
    "an update strategy without a type": (
        {},
        patch("add", "/spec/updateStrategy", {"type": "OnDelete"}),
        {"updateStrategy": {"rollingUpdate": {"partition": 0}, "type": "RollingUpdate"}},
    ),
    "no rolling update beside a type": (
        {"type": "RollingUpdate"},
        patch("add", "/spec/updateStrategy/rollingUpdate", {"partition": 2}),
        {"updateStrategy": {"rollingUpdate": None}},
    ),
}


@pytest.mark.parametrize(("strategy", "change", "expected"), STATEFUL_CASES.values(), ids=STATEFUL_CASES)
def test_a_default_of_a_stateful_set_is_restored(
    strategy: dict[str, Any], change: dict[str, Any], expected: dict[str, Any]
) -> None:
    subject = yurt_app_set(kind="StatefulSet", serviceName="demo", updateStrategy=strategy)
    plan = plan_of(entry("*", patches=[change]), subject=subject, kind="StatefulSet")
    undo = undo_of_first_render(plan, plan.update.delta, find_defaults(plan, plan.update.delta))
    assert msgspec.json.decode(undo) == {"spec": expected}


@pytest.mark.parametrize(("spec", "change", "expected"), CASES.values(), ids=CASES)
def test_a_default_is_restored(spec: dict[str, Any], change: dict[str, Any], expected: dict[str, Any]) -> None:
    plan = plan_of(entry("*", patches=[change]), subject=yurt_app_set(**spec))
    undo = undo_of_first_render(plan, plan.update.delta, find_defaults(plan, plan.update.delta))
    assert msgspec.json.decode(undo) == {"spec": expected}


def test_the_default_pull_policy_is_unknown() -> None:
    plan = plan_of(entry("*", patches=[patch("add", f"{SPEC}/containers/0/imagePullPolicy", "Always")]))
    with pytest.raises(Unsupported, match="from another one"):
        find_defaults(plan, plan.update.delta)


IMAGE = image("nginx", "nginx:2")


def form_text(*entries: dict[str, object]) -> str:
    form = compile_form(plan_of(*entries), number=0, texts=0)
    return "\n".join([*(one["expression"] for one in form.variables), form.expression])


def test_a_form_sets_the_annotations_and_the_values() -> None:
    text = form_text(entry("*", items=[IMAGE]))
    assert "/metadata/annotations/fleethook.io~1rendered" in text
    assert '"nginx:2"' in text
    assert "/spec/replicas" not in text


def test_replicas_are_set_if_an_entry_sets_them() -> None:
    assert '"path": dyn("/spec/replicas"), "value": dyn(7)' in form_text(entry("*", items=[IMAGE, {"replicas": 7}]))


@pytest.mark.parametrize(
    ("items", "created"), [([IMAGE, {"initialReplicas": 7}], "7"), ([{"leave": ["replicas"]}], "int(variables.row[3])")]
)
def test_replicas_that_an_entry_leaves_are_set_at_creation_and_read(items: list[Any], created: str) -> None:
    subject = yurt_app_set(pools=[pool("hangzhou", 2)])
    plan = plan_of(entry("*", items=items), subject=subject)
    form = compile_form(plan, number=0, texts=0)
    text = "\n".join([*(one["expression"] for one in form.variables), form.expression])
    assert f'"path": dyn("/spec/replicas"), "value": dyn({created})' in text
    assert '"path": dyn("/spec/replicas"), "value": dyn(oldObject.spec.replicas)' in text
    assert ("spec", "replicas") in form.reads


def test_the_variables_of_forms_have_different_names() -> None:
    plan = plan_of(entry("*", items=[IMAGE]))
    first, second = ({one["name"] for one in compile_form(plan, number=n, texts=0).variables} for n in (0, 1))
    assert first
    assert first.isdisjoint(second)


def test_a_member_that_only_a_creation_can_set_is_refused() -> None:
    with pytest.raises(Unsupported, match="only the creation"):
        form_text(entry("*", items=[IMAGE], patches=[patch("remove", "/spec/replicas")]))


# The selector of a workload is immutable, and its kind, too.
CONSTANT = {("spec", "selector")}
READ = re.compile(r"object\)?\.\??(metadata|spec)\.\??(\w+)")
OWN_PATCH = {"spec": {"paused": True, "progressDeadlineSeconds": 9}, "metadata": {"annotations": {"own": "1"}}}


@pytest.mark.parametrize("own", [None, OWN_PATCH])
def test_all_members_that_decide_on_the_operations_are_known(own: dict[str, Any] | None) -> None:
    rule = entry(
        "*",
        items=[IMAGE, {"replicas": 7}],
        patches=[patch("add", "/spec/minReadySeconds", 5), patch("add", "/spec/strategy", {"type": "Recreate"})],
    )
    form = compile_form(plan_of(rule, subject=yurt_app_set(pools=[pool("hangzhou", patch=own)])), number=0, texts=0)
    text = "\n".join([*(one["expression"] for one in form.variables), form.expression])
    read = set(READ.findall(text))
    assert {("spec", "template"), ("spec", "minReadySeconds"), ("spec", "strategy"), ("spec", "replicas")} <= read
    assert not own or {("spec", name) for name in own["spec"]} <= read
    assert read - CONSTANT <= form.reads
