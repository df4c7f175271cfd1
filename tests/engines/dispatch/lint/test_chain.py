"""Webhooks of one cluster and phase are linted together."""

from tests.engines.dispatch.builders import definition, webhook
from tests.engines.dispatch.lint.builders import (
    ALL,
    OWN,
    PODS,
    WIDGET,
    find_issues,
    list_codes,
    mutating,
    slow,
    validating,
)


def test_clusters_are_linted_separately() -> None:
    other = definition("d", "widgets.example.org", "v1")
    assert list_codes(WIDGET, other, mutating(slow("a", 30)), mutating(slow("a", 30), cluster="d")) == []
    assert list_codes(WIDGET, validating(webhook(), cluster="d")) == ["unserved-resource"]


def test_budget_is_reported_once_for_all_resources_of_the_same_webhooks() -> None:
    rules = [{**PODS, "resources": ["pods", "configmaps"]}]
    results = find_issues(mutating(slow("a", 20, rules=rules), slow("b", 20, rules=rules)))
    assert [one[0] for one in results] == ["budget"]
    assert results[0][2].startswith("for configmaps, pods, the mutating webhooks may take 40 s ")


def test_budget_includes_webhooks_for_all_resources() -> None:
    every, other = slow("a", 20, rules=[ALL]), slow("c", 30, rules=[{**PODS, "resources": ["secrets"]}])
    results = find_issues(mutating(every, slow("b", 20, rules=[PODS]), other))
    assert sorted(one[2].partition(",")[0] for one in results) == ["for pods", "for secrets"]


def test_configurations_are_ordered_by_name() -> None:
    selector = {"matchLabels": {"a": "b"}}
    results = find_issues(
        WIDGET, mutating(slow("x", 1, objectSelector=selector), name="b"), mutating(slow("y", 1), name="a")
    )
    assert [(one[0], one[1]) for one in results] == [("order-labels", "x.example.org")]


def test_a_webhook_may_rely_on_the_labels_that_its_own_program_changes() -> None:
    selecting = slow("b", 1, objectSelector={"matchLabels": {"a": "b"}})
    assert list_codes(WIDGET, mutating(slow("a", 1), selecting)) == ["order-labels"]
    same = {**selecting, "clientConfig": slow("a", 1)["clientConfig"]}
    assert "order-labels" not in list_codes(WIDGET, mutating(slow("a", 1), same))


def test_webhooks_without_an_endpoint_do_not_count_in_the_budget() -> None:
    both = [slow(name, 30, clientConfig=OWN) for name in "ab"]
    assert list_codes(WIDGET, mutating(*both)) == ["service-in-logical-cluster"] * 2


def test_three_duplicates_are_reported_twice() -> None:
    three = [webhook(f"{name}.example.org") for name in ("a.a", "b.b", "c.c")]
    assert list_codes(WIDGET, validating(*three)) == ["duplicate-call", "duplicate-call"]
