"""The objects of policies."""

from typing import Any

import pytest

from fleethook.engines.overrider.policies.documents import (
    Target,
    build_objects,
    count_places,
    longest_expression,
    seal,
    split_rows,
)
from fleethook.engines.overrider.policies.form import Form
from tests.builders import UID, entry, overrider, yurt_app_set

NAMESPACE = {"matchLabels": {"kubernetes.io/metadata.name": "default"}}
READS = frozenset({("spec", "template")})
FORMS = [Form([], "first", READS), Form([], "second", frozenset({("spec", "replicas")}))]
ROWS = {"hangzhou": ["0", "d1", "hangzhou", "2"], "beijing": ["1", "d2", "beijing", "2"]}


def target(**metadata: Any) -> Target:
    return Target(overrider(entry("*"), **metadata), yurt_app_set(), "Deployment", {"app": "demo"}, {"mark": "m"})


def build(**metadata: Any) -> list[dict[str, Any]]:
    return build_objects(target(**metadata), FORMS, ROWS)


def test_a_policy_selects_the_workloads_of_its_namespace_subject_and_pools() -> None:
    spec = build()[0]["spec"]
    constraints = spec["matchConstraints"]
    assert "namespaceSelector" not in constraints
    for binding in build()[1:]:
        assert binding["spec"]["matchResources"] == {"namespaceSelector": NAMESPACE}
    assert constraints["objectSelector"] == {"matchLabels": {"app": "demo", "mark": "m"}}
    assert constraints["resourceRules"][0]["resources"] == ["deployments"]
    (condition,) = (one["expression"] for one in spec["matchConditions"])
    pool, alive, done = condition.split(" && ", 2)
    done, _, owner = done.partition(") && ")
    assert pool.endswith('in ["hangzhou", "beijing"]')
    assert alive == "!has(object.metadata.deletionTimestamp)"
    assert done.startswith("!(oldObject != null && ")
    assert f'r.uid == "{UID}"' in owner


def test_an_update_that_changes_no_member_of_the_plans_is_left_alone() -> None:
    (condition,) = build()[0]["spec"]["matchConditions"]
    done = condition["expression"].partition("!(")[2].partition(") && ")[0].split(" && ")
    assert '{"hangzhou": "d1", "beijing": "d2"}[?' in done[1]
    assert done[2:] == [
        f"object.{name} == oldObject.{name}"
        for name in (
            "metadata.?annotations",
            "metadata.?labels",
            "metadata.?ownerReferences",
            "spec.?replicas",
            "spec.?template",
        )
    ]


def test_without_labels_a_policy_selects_the_workloads_of_all_pools() -> None:
    unlabelled = target()._replace(labels={}, marks={})
    policy, binding = build_objects(unlabelled, FORMS, ROWS)
    assert policy["spec"]["matchConstraints"]["namespaceSelector"] == NAMESPACE
    assert "matchResources" not in binding["spec"]
    (expression,) = policy["spec"]["matchConstraints"]["objectSelector"]["matchExpressions"]
    assert expression == {"key": "apps.openyurt.io/pool-name", "operator": "Exists"}


def test_a_policy_restores_the_labels_that_select_its_workloads() -> None:
    (mutation,) = build()[0]["spec"]["mutations"]
    restored, _, _ = mutation["jsonPatch"]["expression"].partition(" + ")
    assert restored.startswith('[(object.metadata.labels.?app == optional.of("demo") ? [] :')
    assert '"path": dyn("/metadata/labels/app"), "value": dyn("demo")' in restored
    assert "/metadata/labels/mark" not in mutation["jsonPatch"]["expression"]


def test_a_run_without_operations_ends_in_a_test_that_fails() -> None:
    # kube-apiserver would decode the result of an empty patch (k8s.io/apiserver, jsonPatcher.Patch).
    expression = build()[0]["spec"]["mutations"][0]["jsonPatch"]["expression"]
    failing = '{"op": dyn("test"), "path": dyn("/kind"), "value": dyn("")}'
    assert f".map(m, m.size() > 0 ? m : [{failing}])[0].map(o, JSONPatch{{" in expression


def test_a_failing_policy_admits_the_workload_by_default() -> None:
    assert build()[0]["spec"]["failurePolicy"] == "Ignore"


def test_the_form_of_a_pool_selects_the_operations() -> None:
    spec = build()[0]["spec"]
    (mutation,) = spec["mutations"]
    assert ' + (variables.row[0] == "0" ? variables.form0 : variables.form1)]' in mutation["jsonPatch"]["expression"]
    assert spec["variables"][-2:] == [
        {"name": "form0", "expression": "first"}, {"name": "form1", "expression": "second"},
    ]  # fmt: skip


def test_one_form_is_a_part_of_the_mutation() -> None:
    rows = {"hangzhou": ROWS["hangzhou"]}
    spec = build_objects(target(), FORMS[:1], rows)[0]["spec"]
    assert "(first)" in spec["mutations"][0]["jsonPatch"]["expression"]
    assert [one["name"] for one in spec["variables"]] == ["row", "old"]


@pytest.mark.parametrize(("variables", "places"), [(17, "1"), (18, "2"), (57, "3"), (58, "4")])
def test_a_policy_with_many_variables_takes_several_places(variables: int, places: str) -> None:
    form = Form([{"name": f"f0v{number}", "expression": "1"} for number in range(variables)], "[]", READS)
    rows = {"hangzhou": ROWS["hangzhou"]}
    policy = build_objects(target(), [form], rows)[0]
    assert policy["metadata"]["annotations"]["fleethook.io/policy-places"] == places
    assert count_places(policy["metadata"]) == int(places)


@pytest.mark.parametrize("metadata", [{}, {"annotations": None}, {"annotations": {"fleethook.io/policy-places": "-3"}}])
def test_a_policy_without_a_number_takes_one_place(metadata: dict[str, Any]) -> None:
    assert count_places(metadata) == 1


def test_objects_name_their_overrider() -> None:
    for document in build(uid="u-7"):
        assert document["metadata"]["labels"]["fleethook.io/overrider-uid"] == "u-7"
        assert document["metadata"]["annotations"]["fleethook.io/overrider"] == "default/demo1"


def test_overriders_of_other_names_and_namespaces_have_other_objects() -> None:
    names = {one["metadata"]["name"] for one in (*build(), *build(name="b"), *build(namespace="n"))}
    assert len(names) == 6


def test_many_pools_are_divided_and_a_new_pool_moves_no_other() -> None:
    rows = {f"p{number}": ["0", "0123456789abcdef", f"p{number}", "2", "x" * 40] for number in range(5_000)}
    before = split_rows(rows)
    assert len(before) == 8
    assert sum(map(len, before)) == 5_000
    after = split_rows({**rows, "new": ["0", "d", "new", "2", "x"]})
    assert all(old.items() <= new.items() for old, new in zip(before, after, strict=True))


def test_one_row_that_is_too_long_ends_the_division() -> None:
    assert split_rows({"a": ["x" * 200_000], "b": ["1"]})[0].keys() <= {"a", "b"}


def test_the_longest_expression_counts_variables_conditions_and_mutations() -> None:
    objects = build()
    assert longest_expression(objects) == max(len(one["expression"]) for one in objects[0]["spec"]["matchConditions"])
    objects[0]["spec"]["mutations"][0]["jsonPatch"]["expression"] = "x" * 5_000
    assert longest_expression(objects) == 5_000


@pytest.mark.parametrize("change", [{"name": "other"}, {"uid": "u-8"}])
def test_the_digest_depends_on_all_objects(change: dict[str, str]) -> None:
    sealed, digest = seal(build())
    assert all(one["metadata"]["annotations"]["fleethook.io/policy-digest"] == digest for one in sealed)
    assert seal(build(**change))[1] != digest
