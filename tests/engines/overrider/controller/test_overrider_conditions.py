from pathlib import Path
from typing import Any

from fleethook.engines.overrider.controller.overrider_conditions import ORPHANS_COMMAND, Gaps, bound, rendered
from fleethook.engines.overrider.controller.workload_decision import Action, Decision, Result
from fleethook.engines.overrider.subject.workload_owner import Binding
from fleethook.model.openyurt import YURT_APP_SET
from tests.builders import entry, overrider

SUBJECT = Binding("", YURT_APP_SET, "default", "demo")


RULE = overrider(entry("*"), generation=3)


def result(pool: str, hash_: str = "abc", error: str = "") -> Result:
    return Result(pool, "Deployment", f"demo-{pool}-x", hash_, 2, Decision(problem=error))


def with_decision(one: Result, **facts: Any) -> Result:
    return one._replace(decision=one.decision._replace(**facts))


def test_the_condition_bound_has_a_reason() -> None:
    assert bound(RULE, SUBJECT, RULE, subject=True)[1:3] == ("True", "SubjectFound")
    assert bound(RULE, SUBJECT, RULE, subject=False)[1:3] == ("False", "SubjectNotFound")
    older = overrider(entry("*"), name="older")
    assert bound(RULE, SUBJECT, older, subject=True) == (
        "Bound", "False", "Superseded", "YurtAppOverrider older is older and in effect for YurtAppSet demo",
    )  # fmt: skip


def test_rendered_counts_what_entries_select_and_names_the_first_failures() -> None:
    assert rendered([]).reason == "NoWorkloads"
    assert rendered([result("a"), result("b"), result("c", "")]).message == "2 of 2 workloads"
    failed = [result(str(number), error="no") for number in range(5)]
    assert rendered([result("a"), *failed]).message == (
        "1 of 6 workloads; demo-0-x in 0: no; demo-1-x in 1: no; demo-2-x in 2: no; and 2 more"
    )


def test_waiting_workloads_make_rendered_unknown_and_are_named_last() -> None:
    waiting = [with_decision(result(f"w{number}", error="waiting"), action=Action.WAIT) for number in range(3)]
    assert rendered([result("a"), *waiting])[1:] == (
        "Unknown", "WaitingForOwner", "1 of 4 workloads; demo-w0-x in w0: waiting; demo-w1-x in w1: waiting; demo-w2-x in w2: waiting",
    )  # fmt: skip
    assert rendered([*waiting, result("a", error="no")])[1:] == (
        "False", "NotRendered",
        "0 of 4 workloads; demo-a-x in a: no; demo-w0-x in w0: waiting; demo-w1-x in w1: waiting; and 1 more",
    )  # fmt: skip


DEMO = "YurtAppSet demo"


RIGHT = Result("c", "Deployment", "demo-c-x", "abc", 2, Decision())


ORPHANS = tuple(f"Deployment demo-p{number}-x in p{number}" for number in range(7))


def test_orphans_make_the_condition_false_although_all_other_workloads_are_rendered() -> None:
    found = rendered([RIGHT], Gaps(orphans=ORPHANS))
    assert found[1:3] == ("False", "OrphanedWorkloads")
    assert found.message == (
        "1 of 1 workloads; 7 rendered workloads have no owner any more and keep their overrides: "
        + ", ".join(ORPHANS[:5])
        + f" and 2 more; delete them when their replacements run ('{ORPHANS_COMMAND}' lists all workloads; orphans have no owner)"
    )


def test_the_worst_gap_is_the_reason_and_all_are_named() -> None:
    every = Gaps(
        missing=("a",), overdue=True, other_version=("b",), subject=DEMO, no_controller="nobody", orphans=ORPHANS[:1]
    )
    found = rendered([RIGHT], every)
    assert found[1:3] == ("False", "OwnedByOtherVersion")
    for part in ("1 of 3 workloads", "no workload in node pool a: nobody", "in node pool b have", ORPHANS[0]):
        assert part in found.message
    assert rendered([RIGHT._replace(decision=Decision(problem="no"))], every).reason == "NotRendered"


def test_every_reason_is_documented() -> None:
    documented = (Path(__file__).parents[4] / "docs" / "overriders.md").read_text()
    reasons = {reason for _, _, reason in Gaps().verdicts()}
    assert len(reasons) == 5
    assert [
        reason for reason in reasons if f"False `{reason}`" not in documented and reason != "WorkloadsMissing"
    ] == []
    assert "Unknown or False `WorkloadsMissing`" in documented
