from datetime import UTC, datetime
from typing import Any

from app.control.conditions import Condition
from app.crds.controller.status import status_patch

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
READY = Condition("Ready", "True", "Completed", "done")
PREPARED = Condition("CRDsPrepared", "True", "Cached", "sha256:ab")


def condition(finding: Condition, *, since: str = "2026-11-21T12:00:00Z", generation: int = 1) -> dict[str, Any]:
    return {**finding._asdict(), "lastTransitionTime": since, "observedGeneration": generation}


def patch(status: Any, *findings: Condition, whole: bool = True, generation: int = 1) -> Any:
    return status_patch({"status": status}, findings, generation=generation, whole=whole, now=NOW)


def test_a_first_condition_is_written() -> None:
    wanted = {"conditions": [condition(READY), condition(PREPARED)], "observedGeneration": 1}
    assert patch(None, READY, PREPARED) == {"status": wanted}


def test_unchanged_conditions_are_not_written() -> None:
    said = {"conditions": [condition(READY), condition(PREPARED)], "observedGeneration": 1, "secretRef": {"name": "x"}}
    assert patch(said, READY, PREPARED) is None


def test_a_time_of_transition_changes_with_the_status_only() -> None:
    old = "2020-01-01T00:00:00Z"
    said = {"conditions": [condition(READY._replace(reason="Other"), since=old)], "observedGeneration": 1}
    assert patch(said, READY)["status"]["conditions"] == [condition(READY, since=old)]
    said = {"conditions": [condition(READY._replace(status="False"), since=old)], "observedGeneration": 1}
    assert patch(said, READY)["status"]["conditions"] == [condition(READY)]


def test_conditions_of_others_stay_where_they_are() -> None:
    theirs = {"type": "Theirs", "status": "Unknown"}
    said = {"conditions": [theirs, condition(PREPARED._replace(reason="Downloaded"))]}
    assert patch(said, READY, PREPARED)["status"]["conditions"] == [theirs, condition(PREPARED), condition(READY)]


def test_beside_the_operator_nothing_but_the_condition_is_written() -> None:
    theirs = {"type": "Ready", "status": "True"}
    said = {"conditions": [theirs], "observedGeneration": 7}
    assert patch(said, PREPARED, whole=False) == {"status": {"conditions": [theirs, condition(PREPARED)]}}


def test_another_generation_is_written() -> None:
    said = {"conditions": [condition(READY)], "observedGeneration": 1}
    change = patch(said, READY, generation=2)
    assert change["status"] == {"conditions": [condition(READY, generation=2)], "observedGeneration": 2}


def test_malformed_statuses_are_replaced() -> None:
    for odd in (7, [], {"conditions": "odd"}, {"conditions": 3}):
        assert patch(odd, READY)["status"]["conditions"] == [condition(READY)]
    assert patch({"conditions": [None, 3]}, READY)["status"]["conditions"] == [None, 3, condition(READY)]
