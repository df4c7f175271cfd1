from datetime import UTC, datetime

from app.model.openyurt import YURT_APP_SET
from app.overrider.assess import Binding
from app.overrider.status import Result, bound, rendered, status_of
from tests.builders import entry, overrider

NOW = datetime(2026, 6, 1, tzinfo=UTC)
SUBJECT = Binding("", YURT_APP_SET, "default", "demo")
RULE = overrider(entry("*"), generation=3)


def result(pool: str, hash_: str = "abc", error: str = "") -> Result:
    return Result(pool, "Deployment", f"demo-{pool}-x", hash_, 2, error)


def test_bound_says_whether_it_is_in_effect_and_why_not() -> None:
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


def test_the_status_lists_failures_first_and_not_more_than_fits() -> None:
    results = [result(f"p{number:04}") for number in range(1_500)] + [result("z", error="no"), result("n", "")]
    status = status_of(RULE, (rendered(results),), results, now=NOW)
    assert (status["observedGeneration"], status["summary"], len(status["pools"])) == (3, "1500/1501", 1_000)
    assert status["pools"][0] == {
        "pool": "z", "kind": "Deployment", "workload": "demo-z-x", "hash": "abc", "observedGeneration": 2, "error": "no",
    }  # fmt: skip
    assert status["pools"][1]["pool"] == "p0000"


def test_a_status_that_says_the_same_is_equal_to_the_stored_one() -> None:
    results = [result("a")]
    stored = status_of(RULE, (rendered(results),), results, now=NOW)
    later = datetime(2027, 1, 1, tzinfo=UTC)
    assert status_of({**RULE, "status": stored}, (rendered(results),), results, now=later) == stored
