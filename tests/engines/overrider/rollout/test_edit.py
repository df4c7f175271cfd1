"""The prediction at admission: slices and limits for thousands of node pools."""

from typing import Any

from fleethook.engines.overrider.admission.dry_run import Subject
from fleethook.engines.overrider.rollout.edit import Edit, EditEffects, predict_edit
from fleethook.model.openyurt import YURT_APP_SET
from fleethook.work.pausing import do_at_once
from tests.builders import entry, image, overrider, patch, pod_template, pool, tweak, yurt_app_set, yurt_app_set_v1beta1

Document = dict[str, Any]
POOLS = [f"pool-{number}" for number in range(5000)]


def make_edit(subject: Document, old: Document | None, new: Document | None, pools: list[str]) -> Edit:
    return Edit(Subject(YURT_APP_SET, subject, ""), old, new, pools, {})


def count_slices(edit: Edit) -> tuple[int, EditEffects]:
    work, slices = predict_edit(edit), 0
    while True:
        try:
            next(work)
        except StopIteration as end:
            return slices, end.value
        slices += 1


def test_thousands_of_node_pools_are_compared_in_slices() -> None:
    subject = yurt_app_set(pools=[pool(name) for name in POOLS])
    old, new = (overrider(entry("*", items=[image("nginx", f"nginx:{tag}")])) for tag in (1, 2))
    slices, effects = count_slices(make_edit(subject, old, new, POOLS))
    assert (effects.rolls, effects.uncompared, effects.totals.pods["rolls"]) == (5000, 0, 10_000)
    assert slices >= len(POOLS) // 40
    assert effects.text == (
        "rolls 5000 of 5000 workloads, 10000 pods (node pools pool-0, pool-1, pool-2, pool-3, pool-4 and 4995 more)"
    )


def test_plans_beyond_the_limit_count_as_rolling() -> None:
    """Each node pool has a patch of its own, so none shares a plan with another."""
    annotations = {f"note-{number}": "x" for number in range(400)}
    template = {**pod_template(), "metadata": {"labels": {"app": "demo"}, "annotations": annotations}}
    names = POOLS[:600]
    pools = [pool(name, patch={"spec": {"minReadySeconds": number}}) for number, name in enumerate(names)]
    subject = yurt_app_set(pools=pools, template=template)
    old = overrider(entry("*", items=[image("nginx", "nginx:1")]))
    same = overrider(entry("*", items=[image("nginx", "nginx:1")]), entry("other", items=[{"replicas": 3}]))
    effects = do_at_once(predict_edit(make_edit(subject, old, same, names)))
    assert 300 < effects.uncompared < 600
    assert effects.rolls == effects.uncompared
    assert effects.text.endswith(f", of which {effects.uncompared} were not compared and may not roll)")


def test_a_huge_template_is_not_compared() -> None:
    annotations = {f"note-{number}": "x" for number in range(60_000)}
    subject = yurt_app_set(template={**pod_template(), "metadata": {"annotations": annotations}})
    effects = do_at_once(predict_edit(make_edit(subject, None, overrider(), ["hangzhou", "beijing"])))
    assert (effects.rolls, effects.uncompared) == (2, 2)


def test_an_entry_that_did_not_fit_before_rolls_the_workloads_that_it_now_changes() -> None:
    broken = overrider(entry("hangzhou", patches=[patch("remove", "/spec/template/spec/priority")]))
    repaired = overrider(entry("hangzhou", items=[image("nginx", "nginx:2")]))
    edit = make_edit(yurt_app_set(), broken, repaired, ["hangzhou", "beijing"])
    assert do_at_once(predict_edit(edit)).rolling == ("hangzhou",)
    edit = make_edit(yurt_app_set(), broken, None, ["hangzhou", "beijing"])
    assert do_at_once(predict_edit(edit)).rolling == ()


def test_a_container_named_after_its_pool_is_no_change() -> None:
    """Only the plan after the edit belongs to a single pool, because an entry names a container that pools rename."""
    rename = patch("replace", "/spec/template/spec/containers/0/name", "m-{{nodepool-name}}")
    subject = yurt_app_set_v1beta1(pools=["hangzhou"], tweaks=[tweak("hangzhou", patches=[rename])])
    new = overrider(entry("*", items=[image("m-a", "nginx:2")]))
    effects = do_at_once(predict_edit(make_edit(subject, None, new, ["hangzhou"])))
    assert effects.totals.effects == {"metadata": 1}


def test_many_changed_values_are_compared_in_short_slices() -> None:
    """Values that are the same in each node pool are compared once, and others count by their number."""
    names = POOLS[:200]
    subject = yurt_app_set(pools=[pool(name) for name in names])

    def note(value: str) -> Document:
        notes = {f"note-{number}": value for number in range(400)}
        return overrider(entry("*", patches=[patch("add", "/spec/template/metadata/annotations", notes)]))

    equal, effects = count_slices(make_edit(subject, note("a"), note("b"), names))
    assert effects.totals.effects == {"rolls": 200}
    varied, effects = count_slices(make_edit(subject, note("{{nodepool}}-a"), note("{{nodepool}}-b"), names))
    assert effects.totals.effects == {"rolls": 200}
    assert varied - equal > 90


def test_a_large_plan_is_hashed_for_few_pools_in_a_slice() -> None:
    names = POOLS[:80]
    template = {**pod_template(), "metadata": {"annotations": {"note": "x" * 400_000}}}
    subject = yurt_app_set(pools=[pool(name) for name in names], template=template)
    old, new = (overrider(entry("*", items=[image("nginx", f"nginx:{tag}")])) for tag in (1, 2))
    slices, effects = count_slices(make_edit(subject, old, new, names))
    assert effects.rolls == 80
    assert slices > 40


def test_a_text_that_equals_the_name_of_a_pool_is_no_change_in_that_pool() -> None:
    names = ["hangzhou", "beijing"]
    note = entry("*", patches=[patch("add", "/metadata/annotations/note", "a")])
    old = overrider(entry("*", items=[image("nginx", "{{nodepool}}:1")]))
    new = overrider(entry("*", items=[image("nginx", "beijing:1")]), note)
    effects = do_at_once(predict_edit(make_edit(yurt_app_set(), old, new, names)))
    assert effects.rolling == ("hangzhou",)
    assert effects.totals.effects == {"rolls": 1, "metadata": 1}


def test_a_field_that_only_a_creation_sets_is_no_change_of_the_spec() -> None:
    subject = yurt_app_set(kind="StatefulSet")
    new = overrider(entry("*", patches=[patch("add", "/spec/podManagementPolicy", "Parallel")]))
    effects = do_at_once(predict_edit(make_edit(subject, None, new, ["hangzhou", "beijing"])))
    assert effects.totals.effects == {"metadata": 2}
