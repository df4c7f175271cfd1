"""Tests of the dry run of an overrider in each pool of its subject."""

from typing import Any

from fleethook.engines.overrider.rules.subject_template_rules import MAX_TEMPLATE_VALUES
from fleethook.engines.overrider.rules.trial_render import DryRun, dry_run_overrider
from fleethook.engines.overrider.subject.subject_and_pools import Subject
from fleethook.model.openyurt import YURT_APP_SET
from tests.builders import entry, image, overrider, patch, pod_template, pool, yurt_app_set, yurt_app_set_v1beta1

SPEC = "/spec/template/spec"
NAMES = ("hangzhou", "beijing")


def run(*entries: dict[str, Any], subject: dict[str, Any] | None = None, pools: Any = NAMES) -> DryRun:
    target = Subject(YURT_APP_SET, subject or yurt_app_set(), "")
    return dry_run_overrider(overrider(*entries), target, pools, node_pools={})


def test_one_failure_in_many_pools_is_one_cause() -> None:
    names = [f"p{number}" for number in range(7)]
    remove = patch("remove", f"{SPEC}/hostNetwork")
    found = run(entry("*", patches=[remove]), subject=yurt_app_set(pools=[pool(name) for name in names]), pools=names)
    (cause,) = found.causes
    assert cause.field == "entries[0].patches[0]"
    assert cause.message.startswith("node pools p0, p1, p2, p3, p4 and 2 more: ")
    assert run(entry("beijing", patches=[remove])).causes[0].message.startswith("node pool beijing: ")


def test_a_step_that_changes_nothing_is_a_warning() -> None:
    patches = [patch("replace", f"{SPEC}/containers/0/image", "nginx:1.0")]
    warnings = run(entry("*", items=[image("nginx", "nginx:1.0"), image("ngnix", "a:1")], patches=patches)).warnings
    assert [(one.code, one.text.partition(":")[0]) for one in warnings] == [
        ("unknown-container", "entries[0].items[1]"),
        ("no-effect", "entries[0].items[0]"),
        ("no-effect", "entries[0].patches[0]"),
    ]
    assert all(one.text.endswith(" (node pools hangzhou, beijing)") for one in warnings)


def test_steps_of_replicas_are_compared_with_the_count_of_each_pool() -> None:
    subject = yurt_app_set(pools=[pool("hangzhou", 3), pool("beijing", 2)])
    idle, reverted = run(entry("*", items=[{"replicas": 3}]), subject=subject).warnings
    assert (idle.code, reverted.code) == ("no-effect", "topology-replicas")
    assert idle.text.endswith("(node pool hangzhou)")
    assert reverted.text.endswith("(node pool beijing)")
    assert reverted.text.startswith(
        "entries[0].items[0]: while replicas differ from spec.topology.pools, OpenYurt 1.4 writes"
    )


def test_replicas_that_are_left_are_compared_with_the_topology() -> None:
    (warning,) = run(entry("*", items=[{"initialReplicas": 2}])).warnings
    assert warning.text.startswith("entries[0].items[0]: while replicas differ from spec.topology.pools")
    beta = yurt_app_set_v1beta1(pools=NAMES, replicas=2)
    assert run(entry("*", items=[{"leave": ["replicas"]}]), subject=beta).warnings == []


def test_a_later_step_of_replicas_is_compared_with_the_result_of_the_former() -> None:
    subject = yurt_app_set(pools=[pool("hangzhou", 2)])
    warnings = run(*[entry("*", items=[{"replicas": 3}])] * 2, subject=subject, pools=NAMES[:1]).warnings
    assert [one.text.partition(":")[0] for one in warnings] == ["entries[1].items[0]"] * 2


def test_a_change_of_a_field_that_only_a_creation_sets_is_a_warning() -> None:
    policy = patch("add", "/spec/podManagementPolicy", "Parallel")
    found = run(entry("*", patches=[policy]), subject=yurt_app_set(kind="StatefulSet", serviceName="s"))
    (warning,) = found.warnings
    assert warning.text == (
        "entries[0].patches[0]: /spec/podManagementPolicy can only be set at creation; existing workloads keep their value "
        "(node pools hangzhou, beijing)"
    )


def test_a_subject_that_does_not_render_is_a_warning_about_its_pool() -> None:
    broken = pool("beijing", patch={"spec": {"template": 3}})
    found = run(entry("*", items=[image("nginx", "a:1")]), subject=yurt_app_set(pools=[pool("hangzhou"), broken]))
    (warning,) = found.warnings
    assert warning.code == "not-checked"
    assert warning.text.startswith("not checked: the pool's own patch does not fit")
    assert warning.text.endswith(" (node pool beijing)")


def test_a_template_with_too_many_values_is_not_rendered() -> None:
    args = ["x"] * MAX_TEMPLATE_VALUES
    found = run(
        entry("*", patches=[patch("remove", "/spec/absent")]), subject=yurt_app_set(template=pod_template(x=args))
    )
    assert found.causes == []
    assert found.warnings[0].text.startswith(f"not checked: the templates have more than {MAX_TEMPLATE_VALUES} values")


def test_an_add_that_drops_annotations_is_a_warning() -> None:
    template = pod_template(nodeSelector={"a": "b"})
    template["metadata"]["annotations"] = {"a": "b", "c": "d"}
    subject = yurt_app_set(template=template)
    path = "/spec/template/metadata/annotations"
    (warning,) = run(entry("*", patches=[patch("add", path, {"c": "e"})]), subject=subject).warnings
    assert warning.code == "removed-keys"
    assert warning.text == (
        f"entries[0].patches[0]: add {path} replaces all of them and removes a: to keep them, write add {path}/KEY for "
        "each key (node pools hangzhou, beijing)"
    )
    kept = [
        patch("add", path, {"a": "x", "c": "e"}),
        patch("replace", path, {"c": "e"}),
        patch("add", f"{path}/e", "f"),
    ]
    assert [run(entry("*", patches=[one]), subject=subject).warnings for one in kept] == [[], [], []]
    (selector,) = run(entry("*", patches=[patch("add", f"{SPEC}/nodeSelector", {"z": "1"})]), subject=subject).warnings
    assert "removes a:" in selector.text
