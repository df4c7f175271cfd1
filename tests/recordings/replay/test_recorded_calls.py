"""The recorded answers of one review."""

from fleethook.recordings.recording_format import RecordedCall
from fleethook.recordings.replay.recorded_calls import CallName, ReviewCalls

CALL = RecordedCall(kind="webhook", name="w", key="k", configuration="c", cluster="ws1")
NAME = CallName("webhook", "c", "w")


def take(calls: ReviewCalls, name: str = "w", key: str = "k", cluster: str = "ws1") -> RecordedCall | None:
    return calls.take("webhook", name, key, cluster=cluster, configuration="c")


def test_answers_with_one_key_are_taken_in_their_order() -> None:
    second = RecordedCall(kind="webhook", name="w", key="k", configuration="c", cluster="ws1", error="timeout")
    calls = ReviewCalls([CALL, second])
    assert (take(calls), take(calls)) == (CALL, second)
    assert calls.missing == {}


def test_a_call_that_was_recorded_less_often_says_so_and_keeps_the_first_reason() -> None:
    calls = ReviewCalls([CALL])
    take(calls)
    assert take(calls) is None
    calls.note_missing(NAME, "later")
    assert calls.missing == {NAME: "too few recorded answers"}
