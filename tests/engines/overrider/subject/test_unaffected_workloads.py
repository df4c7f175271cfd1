"""Tests of the condition Rendered for workloads that an overrider should affect and does not."""

from pathlib import Path

import pytest

from fleethook.engines.overrider.controller.status import Result, rendered
from fleethook.engines.overrider.subject.unaffected_workloads import Gaps, describe_orphans

DEMO = "YurtAppSet demo"
RIGHT = Result("c", "Deployment", "demo-c-x", "abc", 2, "")
ORPHANS = tuple(f"Deployment demo-p{number}-x in p{number}" for number in range(7))


@pytest.mark.parametrize(
    ("gaps", "reason", "message"),
    [
        (
            Gaps(no_pools="YurtAppSet demo has no node pool: spec.topology.pools is empty"),
            "NoNodePools",
            "YurtAppSet demo has no node pool: spec.topology.pools is empty",
        ),
        (
            Gaps(missing=("a", "b"), overdue=True, no_controller="nobody reconciles YurtAppSets"),
            "NoController",
            "0 of 2 workloads; no workload in node pool a, b: nobody reconciles YurtAppSets",
        ),
        (
            Gaps(other_version=("a",), subject=DEMO, read_version="apps.openyurt.io/v1beta1"),
            "OwnedByOtherVersion",
            (
                "0 of 1 workloads; the workloads in node pool a have owner references of another API version than "
                "apps.openyurt.io/v1beta1, in which YurtAppSet demo is read, so they are not rendered: install "
                "yurt-manager and its CustomResourceDefinitions in the same version of OpenYurt"
            ),
        ),
        (Gaps(orphans=ORPHANS[:1]), "OrphanedWorkloads", describe_orphans(ORPHANS[:1])),
    ],
)
def test_what_cannot_be_rendered_is_false_and_names_its_cause(gaps: Gaps, reason: str, message: str) -> None:
    assert rendered([], gaps)[1:] == ("False", reason, message)


def test_orphans_make_the_condition_false_although_all_other_workloads_are_rendered() -> None:
    found = rendered([RIGHT], Gaps(orphans=ORPHANS))
    assert found[1:3] == ("False", "OrphanedWorkloads")
    assert found.message == (
        "1 of 1 workloads; 7 rendered workloads have no owner any more and keep their overrides: "
        + ", ".join(ORPHANS[:5])
        + " and 2 more; delete them when their replacements run ('fleethook convert --kubeconfig FILE' lists them)"
    )


def test_a_missing_controller_is_no_verdict_before_its_time_is_over_or_where_nothing_is_missing() -> None:
    lacking = Gaps(missing=("a",), no_controller="nobody reconciles YurtAppSets")
    assert rendered([], lacking)[1:] == ("Unknown", "WorkloadsMissing", "0 of 1 workloads; no workload in node pool a")
    complete = Gaps(no_controller="nobody reconciles YurtAppDaemons")
    assert rendered([RIGHT], complete)[1:] == (
        "True", "AllRendered", "1 of 1 workloads; nobody reconciles YurtAppDaemons",
    )  # fmt: skip


def test_pools_that_are_named_and_do_not_exist_are_named_without_a_verdict() -> None:
    assert rendered([RIGHT], Gaps(subject=DEMO, absent_pools=("x", "y")))[1:] == (
        "True", "AllRendered",
        "1 of 1 workloads; there is no NodePool x, y, which YurtAppSet demo names in spec.pools",
    )  # fmt: skip


def test_the_worst_gap_is_the_reason_and_all_are_named() -> None:
    every = Gaps(
        missing=("a",), overdue=True, other_version=("b",), subject=DEMO, no_controller="nobody", orphans=ORPHANS[:1]
    )
    found = rendered([RIGHT], every)
    assert found[1:3] == ("False", "OwnedByOtherVersion")
    for part in ("1 of 3 workloads", "no workload in node pool a: nobody", "in node pool b have", ORPHANS[0]):
        assert part in found.message
    assert rendered([RIGHT._replace(error="no")], every).reason == "NotRendered"


def test_every_reason_is_documented() -> None:
    documented = (Path(__file__).parents[4] / "docs" / "overriders.md").read_text()
    reasons = {reason for _, _, reason in Gaps().verdicts()}
    assert len(reasons) == 5
    assert [
        reason for reason in reasons if f"False `{reason}`" not in documented and reason != "WorkloadsMissing"
    ] == []
    assert "Unknown or False `WorkloadsMissing`" in documented
