from datetime import UTC, datetime

from fleethook.cluster.conditions import Condition, build_conditions, read_condition

FIRST = datetime(2026, 6, 1, tzinfo=UTC)
LATER = datetime(2026, 6, 2, tzinfo=UTC)


def test_the_transition_time_changes_only_with_the_status() -> None:
    bad = Condition("Rendered", "False", "NotRendered", "1 of 2 workloads")
    first = build_conditions([bad], former=None, generation=1, now=FIRST)
    assert first == [
        {
            "type": "Rendered", "status": "False", "reason": "NotRendered", "message": "1 of 2 workloads",
            "lastTransitionTime": "2026-06-01T00:00:00Z", "observedGeneration": 1,
        }
    ]  # fmt: skip
    worse = build_conditions([bad._replace(message="0 of 2 workloads")], former=first, generation=2, now=LATER)
    assert (worse[0]["lastTransitionTime"], worse[0]["message"]) == ("2026-06-01T00:00:00Z", "0 of 2 workloads")
    good = build_conditions([bad._replace(status="True", reason="AllRendered")], former=worse, generation=2, now=LATER)
    assert good[0]["lastTransitionTime"] == "2026-06-02T00:00:00Z"


def test_stored_conditions_of_any_shape_are_read() -> None:
    for former in (None, "x", [], ["x"], [{}], [{"type": 7}]):
        assert read_condition(former, "Rendered") == (None, None, None)
        assert build_conditions([Condition("Rendered", "True", "R", "m")], former=former, generation=1, now=FIRST)


def test_control_characters_of_messages_are_escaped() -> None:
    finding = Condition("Rendered", "False", "R", "entry \x1b[2Ja\u202eb\nReady: True")
    (made,) = build_conditions([finding], former=None, generation=1, now=FIRST)
    assert made["message"] == "entry \\x1b[2Ja\\u202eb\\nReady: True"
