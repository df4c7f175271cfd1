"""The status to report, and the aggregation of many."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleethook.engines.interpret.conventions.aggregate import aggregate_status, reflect_status
from fleethook.engines.interpret.conventions.health import HealthRule

READY = HealthRule(must_be_true=("Ready",))
TEMPLATE: dict[str, Any] = {"metadata": {"name": "x", "generation": 4}, "spec": {}}


def condition(kind: str, status: str, message: str = "", **members: Any) -> dict[str, Any]:
    return {"type": kind, "status": status, "reason": f"Is{status}", "message": message, **members}


def aggregate(*statuses: Any, template: dict[str, Any] = TEMPLATE, rule: HealthRule = READY) -> Any:
    """Return the aggregated status of the clusters a, b, c…; None stands for a cluster without a status."""
    items = [
        {"clusterName": name} if status is None else {"clusterName": name, "status": status}
        for name, status in zip("abcdef", statuses, strict=False)
    ]
    answer = aggregate_status(template, items, rule)
    assert {name: value for name, value in answer.items() if name != "status"} == {
        name: value for name, value in template.items() if name != "status"
    }
    return answer.get("status")


@pytest.mark.parametrize(
    ("document", "status"),
    [
        ({}, None),
        ({"status": None}, None),
        ({"status": "text"}, None),
        ({"status": {"phase": "Up"}, "metadata": {"generation": 2}}, {"phase": "Up"}),
        (
            {"status": {"observedGeneration": 1}, "metadata": {"generation": 2}},
            {"observedGeneration": 1, "generation": 2},
        ),
        (
            {
                "status": {"observedGeneration": 1},
                "metadata": {"generation": 2, "annotations": {"resourcetemplate.karmada.io/generation": "7"}},
            },
            {"observedGeneration": 1, "generation": 2, "resourceTemplateGeneration": 7},
        ),
        (
            {
                "status": {"observedGeneration": 1},
                "metadata": {"annotations": {"resourcetemplate.karmada.io/generation": "x"}},
            },
            {"observedGeneration": 1},
        ),
    ],
)
def test_the_reported_status_is_complete_and_has_the_generations(document: Any, status: Any) -> None:
    assert reflect_status(document) == status


@pytest.mark.parametrize("statuses", [(), (None,), ({}, None), ("text",)])
def test_without_a_status_the_known_one_stays(statuses: tuple[Any, ...]) -> None:
    known = TEMPLATE | {"status": {"phase": "Up"}}
    assert aggregate(*statuses, template=known) == {"phase": "Up"}


def test_counters_are_sums_and_other_members_those_of_an_unhealthy_cluster() -> None:
    up = {"phase": "Up", "readyReplicas": 2, "revision": 7, "nodes": ["a"], "conditions": [condition("Ready", "True")]}
    down = {
        "phase": "Down",
        "revision": 3,
        "jobs": {"failed": 1, "name": "j"},
        "conditions": [condition("Ready", "False")],
    }
    found = aggregate(up, down, up)
    del found["conditions"]
    assert found == {"phase": "Down", "revision": 3, "jobs": {"failed": 1, "name": "j"}, "readyReplicas": 4}
    assert aggregate(up, up)["phase"] == "Up"


def test_counters_are_only_integers_and_may_be_named() -> None:
    assert aggregate({"ready": True, "count": 1, "total": "1"}, {"ready": False, "count": 2, "total": "2"}) == {
        "ready": True, "count": 3, "total": "1",
    }  # fmt: skip
    items = [{"clusterName": name, "status": {"backups": 2, "port": 80}} for name in "ab"]
    found = aggregate_status(TEMPLATE, items, READY, frozenset({"backups"}))
    assert found["status"] == {"backups": 4, "port": 80}


@pytest.mark.parametrize(
    ("statuses", "known", "observed"),
    [
        ([(2, 2, 4), (9, 9, 4)], None, 4),
        ([(2, 2, 4), (8, 9, 4)], 3, 3),
        ([(2, 2, 4), (9, 9, 3)], None, None),
        ([(2, 2, 4), None], 3, 3),
        ([(2, 2, 5)], None, 4),
    ],
)
def test_the_generation_is_observed_once_every_cluster_has_observed_it(
    statuses: list[Any], known: Any, observed: int | None
) -> None:
    names = ("observedGeneration", "generation", "resourceTemplateGeneration")
    template = TEMPLATE | ({} if known is None else {"status": {"observedGeneration": known}})
    reported = [None if one is None else dict(zip(names, one, strict=True)) for one in statuses]
    expected = None if observed is None else {"observedGeneration": observed}
    assert aggregate(*reported, template=template) == expected


def test_a_condition_is_the_worst_of_all_clusters_and_its_message_names_them() -> None:
    good, unknown = condition("Ready", "True", "up", observedGeneration=3), condition("Ready", "Unknown", "starting")
    bad = condition("Ready", "False", "no Secret", lastTransitionTime="2026-08-01T00:00:00Z")
    found = aggregate(*({"conditions": [one]} for one in (good, unknown, bad)))
    assert found["conditions"] == [bad | {"message": "b: starting; c: no Secret"}]
    assert aggregate({"conditions": [good]}, {"conditions": [good]})["conditions"] == [condition("Ready", "True", "up")]


def test_a_condition_that_a_cluster_does_not_report_is_unknown_unless_it_is_a_bad_one() -> None:
    statuses = [{"conditions": [condition("Ready", "True"), condition("Stalled", "False")]}, None]
    ready, stalled = aggregate(*statuses)["conditions"]
    assert (ready["status"], ready["reason"], ready["message"]) == (
        "Unknown",
        "NotReported",
        "1 of 2 clusters report it",
    )
    assert stalled["status"] == "False"


@pytest.mark.parametrize("kind", ["Stalled", "Failed", "Reconciling", "DiskPressure", "SyncFailed", "NotReady", "Odd"])
def test_the_bad_state_of_some_conditions_is_true(kind: str) -> None:
    rule = HealthRule(must_be_true=("Ready",), must_not_be_true=("Odd",))
    statuses = [{"conditions": [condition(kind, "False")]}, {"conditions": [condition(kind, "True", "why")]}]
    (found,) = aggregate(*statuses, rule=rule)["conditions"]
    assert (found["status"], found["message"]) == ("True", "b: why")


def test_a_message_has_at_most_the_characters_that_schemas_allow() -> None:
    statuses = [{"conditions": [condition("Ready", "False", "x" * 20_000)]}] * 2
    assert len(aggregate(*statuses)["conditions"][0]["message"]) == 32_768


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["conditions", "readyReplicas", "phase", "type", "status"]), inner, max_size=3
        )
    ),
    max_leaves=8,
)


@given(st.lists(st.dictionaries(st.sampled_from(["clusterName", "status", "health"]), _VALUES), max_size=4))
def test_any_items_are_aggregated_and_a_second_time_changes_nothing(items: list[dict[str, Any]]) -> None:
    once = aggregate_status(TEMPLATE, items)
    assert aggregate_status(once, items) == once
