"""Compiling an overrider: names, digests, refusals and limits. tests/e2e/test_policies.py compares the results."""

from typing import Any

import pytest

from fleethook.engines.overrider.plan.subject_plans import SubjectPlans
from fleethook.engines.overrider.policies.cel_expressions import MAX_LENGTH
from fleethook.engines.overrider.policies.compiler import build_probes, compile_all, compile_overrider, compile_stored
from fleethook.engines.overrider.policies.documents import longest_expression, most_variables
from fleethook.engines.overrider.policies.mode import Compilation, is_probe
from fleethook.model.openyurt import YURT_APP_SET
from tests.builders import (
    container,
    entry,
    image,
    is_unchanged,
    node_pool,
    overrider,
    patch,
    pod_template,
    pool,
    review,
    store_of,
    yurt_app_daemon,
    yurt_app_set,
    yurt_app_set_v1beta1,
)
from tests.engines.overrider.policies.compiling import compiled, expression_of

POOLS = ("beijing", "hangzhou")
SUBJECT = yurt_app_set(pools=[pool(one) for one in POOLS])
SUBJECT["metadata"] |= {"uid": "u-1", "namespace": "default"}
RULE_OF_PROBE = overrider(entry("hangzhou", items=[image("nginx", "nginx:2.0")]), uid="u-2")


def test_a_probe_is_a_workload_of_a_selected_pool_with_the_hash_of_its_plan() -> None:
    pools = dict.fromkeys(POOLS)
    found = compile_overrider(YURT_APP_SET, SUBJECT, RULE_OF_PROBE, pools=pools)
    (probe,) = build_probes(
        found.objects, group_kind=YURT_APP_SET, subject=SUBJECT, overrider=RULE_OF_PROBE, pools=pools
    )
    assert probe.plural == "deployments"
    assert probe.workload["metadata"]["labels"] == {"app": "demo", "apps.openyurt.io/pool-name": "hangzhou"}
    assert probe.workload["metadata"]["ownerReferences"][0]["uid"] == "u-1"
    assert (
        probe.digest == SubjectPlans(YURT_APP_SET, SUBJECT, RULE_OF_PROBE).plan("Deployment", "hangzhou", None).digest
    )
    assert is_probe(probe.workload["metadata"])


def test_a_probe_of_v1beta1_has_the_label_of_its_subject() -> None:
    subject = yurt_app_set_v1beta1("demo", POOLS)
    subject["metadata"] |= {"uid": "u-1", "namespace": "default"}
    rule = overrider(entry("*", items=[image("nginx", "nginx:2.0")]))
    pools = {name: node_pool(name) for name in POOLS}
    found = compile_overrider(YURT_APP_SET, subject, rule, pools=pools)
    (probe,) = build_probes(found.objects, group_kind=YURT_APP_SET, subject=subject, overrider=rule, pools=pools)
    assert probe.workload["metadata"]["labels"]["apps.openyurt.io/ref-yurtappset"] == "demo"


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [({}, False), (None, False), ({"fleethook.io/rendered": "other"}, False)]
    + [({"fleethook.io/rendered": f"h{suffix}"}, True) for suffix in ("", "-partial")],
)
def test_a_policy_acts_if_it_sets_its_hash(annotations: dict[str, str] | None, expected: bool) -> None:
    pools = dict.fromkeys(POOLS)
    found = compile_overrider(YURT_APP_SET, SUBJECT, RULE_OF_PROBE, pools=pools)
    (probe,) = build_probes(
        found.objects, group_kind=YURT_APP_SET, subject=SUBJECT, overrider=RULE_OF_PROBE, pools=pools
    )
    probe = probe._replace(digest="h")
    assert probe.is_rendered({"metadata": {"annotations": annotations}}) is expected


def test_the_webhook_leaves_a_probe_alone_only_in_a_dry_run() -> None:
    pools = dict.fromkeys(POOLS)
    found = compile_overrider(YURT_APP_SET, SUBJECT, RULE_OF_PROBE, pools=pools)
    (probe,) = build_probes(
        found.objects, group_kind=YURT_APP_SET, subject=SUBJECT, overrider=RULE_OF_PROBE, pools=pools
    )
    assert is_unchanged(review(probe.workload, SUBJECT, RULE_OF_PROBE, dryRun=True))
    assert not is_unchanged(review(probe.workload, SUBJECT, RULE_OF_PROBE))


IMAGE = image("nginx", "nginx:2")
SPEC = "/spec/template/spec"


def test_an_overrider_has_a_policy_and_a_binding() -> None:
    compilation = compiled(entry("*", items=[IMAGE]))
    policy, binding = compilation.objects
    assert compilation.compiles
    assert (policy["kind"], binding["kind"]) == ("MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding")
    assert binding["spec"]["policyName"] == policy["metadata"]["name"]
    for document in compilation.objects:
        assert document["metadata"]["annotations"]["fleethook.io/policy-digest"] == compilation.digest


def test_the_result_is_the_same_each_time() -> None:
    assert compiled(entry("*", items=[IMAGE])) == compiled(entry("*", items=[IMAGE]))


def test_an_edit_changes_the_digest_and_the_name_of_the_policy_but_not_of_the_binding() -> None:
    before, after = compiled(entry("*", items=[IMAGE])), compiled(entry("*", items=[image("nginx", "nginx:3")]))
    assert before.digest != after.digest
    assert before.objects[0]["metadata"]["name"] != after.objects[0]["metadata"]["name"]
    assert before.objects[1]["metadata"]["name"] == after.objects[1]["metadata"]["name"]


def test_an_overrider_without_a_pool_has_no_policy() -> None:
    compilation = compiled(entry("-*", items=[IMAGE]))
    assert (compilation.objects, compilation.digest, compilation.compiles) == ((), "", True)


def test_an_entry_that_does_not_fit_is_refused_with_its_path() -> None:
    (refusal,) = compiled(entry("*", items=[IMAGE], patches=[patch("remove", f"{SPEC}/volumes/3")])).refusals
    assert refusal.entry == "entries[0].patches[0]"
    assert "node pool beijing" in refusal.reason


def test_the_default_pull_policy_is_refused_with_its_entry() -> None:
    rule = entry("*", items=[IMAGE], patches=[patch("add", f"{SPEC}/containers/0/imagePullPolicy", "Always")])
    (refusal,) = compiled(rule).refusals
    assert refusal.entry == "entries[0].patches[0]"
    assert refusal.pointer == f"{SPEC}/containers/*/imagePullPolicy"
    assert "derives the default" in refusal.reason


def test_a_template_with_a_repeated_name_is_refused() -> None:
    env = [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]
    subject = yurt_app_set(template=pod_template(containers=[container(env=env)]))
    assert "same name" in compiled(entry("*", items=[IMAGE]), subject=subject).refusals[0].reason


def test_an_expression_above_the_limit_is_refused() -> None:
    compilation = compiled(entry("*", patches=[patch("add", f"{SPEC}/containers/0/args", ["x" * 100_000])]))
    assert "100000 at most" in compilation.refusals[0].reason
    assert not compilation.objects


def pod_with(count: int) -> list[dict[str, Any]]:
    """Return containers with lists of each kind."""
    return [
        container(
            f"c{number}",
            env=[{"name": f"E{at}", "value": str(at)} for at in range(6)],
            ports=[{"containerPort": 80 + at} for at in range(3)],
            volumeMounts=[{"name": f"v{at}", "mountPath": f"/m{at}"} for at in range(3)],
        )
        for number in range(count)
    ]


def compile_large(count: int) -> Compilation:
    patches = [
        change
        for number in range(count)
        for change in (
            patch("add", f"{SPEC}/containers/{number}/env/-", {"name": "NEW", "value": "{{nodepool}}"}),
            patch("replace", f"{SPEC}/containers/{number}/env/2/value", "x"),
            patch("remove", f"{SPEC}/containers/{number}/env/4"),
            patch("add", f"{SPEC}/containers/{number}/resources", {"limits": {"cpu": "1"}}),
        )
    ]
    subject = yurt_app_set_v1beta1(template=pod_template(containers=pod_with(count)))
    images = [image(f"c{number}", "registry.example.org/{{nodepool}}:2") for number in range(count)]
    return compiled(entry("*", items=images, patches=patches), subject=subject)


@pytest.mark.parametrize("count", [1, 5, 10])
def test_no_expression_grows_with_the_number_of_containers(count: int) -> None:
    """The time in which kube-apiserver compiles an expression grows with the square of its length."""
    objects = compile_large(count).objects
    assert longest_expression(objects) <= 1.1 * MAX_LENGTH
    assert most_variables(objects) <= 10 + 13 * count
    characters = sum(len(one["expression"]) for one in objects[0]["spec"]["variables"])
    assert characters <= 10_000 * (1 + count)


def test_a_policy_with_too_many_variables_is_refused() -> None:
    (refusal,) = compile_large(20).refusals
    assert "more than 200 take kube-apiserver too much" in refusal.reason


def test_too_many_different_changes_are_refused() -> None:
    names = [f"p{number}" for number in range(21)]
    subject = yurt_app_set(pools=[pool(name) for name in names])
    rules = [entry(name, patches=[patch("add", f"{SPEC}/nodeSelector", {name: "x"})]) for name in names]
    from fleethook.engines.overrider.policies.compiler import compile_overrider  # noqa: PLC0415
    from fleethook.model.openyurt import YURT_APP_SET  # noqa: PLC0415 - only here
    from tests.builders import overrider  # noqa: PLC0415

    compilation = compile_overrider(YURT_APP_SET, subject, overrider(*rules), pools=dict.fromkeys(names))
    assert "more than 20 different sets" in compilation.refusals[0].reason


def test_the_hash_of_each_pool_is_in_the_policy() -> None:
    text = expression_of(compiled(entry("*", items=[IMAGE])))
    assert '"beijing": ["0", "' in text
    assert '"hangzhou": ["0", "' in text


def selecting_labels(*entries: dict[str, Any], **given: Any) -> Any:
    return compiled(*entries, **given).objects[0]["spec"]["matchConstraints"]["objectSelector"].get("matchLabels", {})


def test_labels_keep_a_policy_away_from_other_subjects() -> None:
    assert selecting_labels(entry("*", items=[IMAGE])) == {"app": "demo"}
    subject = yurt_app_set_v1beta1("demo", ("hangzhou", "beijing"))
    assert selecting_labels(entry("*", items=[IMAGE]), subject=subject) == {"apps.openyurt.io/ref-yurtappset": "demo"}


@pytest.mark.parametrize(
    "change", [patch("replace", "/metadata/labels/app", "other"), patch("remove", "/metadata/labels/app")]
)
def test_a_label_that_the_overrider_changes_selects_no_workloads(change: dict[str, Any]) -> None:
    assert selecting_labels(entry("*", items=[IMAGE], patches=[change])) == {}


def test_a_name_that_is_too_long_for_a_label_selects_no_workloads() -> None:
    subject = yurt_app_set_v1beta1("d" * 64, ("hangzhou", "beijing"))
    assert selecting_labels(entry("*", items=[IMAGE]), subject=subject) == {}


RULE = overrider(entry("*", items=[image("nginx", "nginx:2")]))


def test_the_subject_and_its_pools_come_from_the_store() -> None:
    compilation = compile_stored(RULE, store=store_of(RULE, yurt_app_set()))
    assert '"beijing"' in compilation.objects[0]["spec"]["variables"][0]["expression"]


def test_the_pools_of_a_daemon_are_node_pools() -> None:
    rule = overrider(entry("*", items=[image("nginx", "nginx:2")]), subject={"kind": "YurtAppDaemon", "name": "agent"})
    store = store_of(rule, yurt_app_daemon(), node_pool("shanghai", {"region": "east"}))
    assert '"shanghai"' in compile_stored(rule, store=store).objects[0]["spec"]["variables"][0]["expression"]


def test_an_overrider_without_a_subject_is_refused() -> None:
    (refusal,) = compile_stored(RULE, store=store_of(RULE)).refusals
    assert (refusal.entry, "not known" in refusal.reason) == ("subject", True)


def test_only_the_overrider_in_effect_compiles() -> None:
    second = overrider(RULE["entries"][0], name="demo2")
    found = [*compile_all(store_of(second, RULE, yurt_app_set()), [""])]
    assert [(one.key.name, one.compilation.compiles) for one in found] == [("demo1", True), ("demo2", False)]
    assert "demo1" in found[1].compilation.refusals[0].reason
