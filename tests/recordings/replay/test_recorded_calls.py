"""The recorded answers of one review."""

import pytest

from fleethook.recordings.recording_format import Call
from fleethook.recordings.replay.recorded_calls import CallName, ReviewCalls, current_calls, find_current

CALL = Call(kind="webhook", name="w", key="k", configuration="c", cluster="ws1")
NAME = CallName("webhook", "c", "w")


def take(calls: ReviewCalls, name: str = "w", key: str = "k", cluster: str = "ws1") -> Call | None:
    return calls.take("webhook", name, key, cluster=cluster, configuration="c")


def test_answers_with_one_key_are_taken_in_their_order() -> None:
    second = Call(kind="webhook", name="w", key="k", configuration="c", cluster="ws1", error="timeout")
    calls = ReviewCalls([CALL, second])
    assert (take(calls), take(calls)) == (CALL, second)
    assert calls.missing == {}


@pytest.mark.parametrize("differing", [{"name": "other"}, {"key": "other"}, {"cluster": "ws2"}])
def test_a_call_with_another_name_key_or_cluster_has_no_answer(differing: dict[str, str]) -> None:
    calls = ReviewCalls([CALL])
    assert take(calls, **differing) is None
    assert list(calls.missing.values()) == ["no recorded answer"]
    assert take(calls) is CALL


def test_a_call_that_was_recorded_less_often_says_so_and_keeps_the_first_reason() -> None:
    calls = ReviewCalls([CALL])
    take(calls)
    assert take(calls) is None
    calls.note_missing(NAME, "later")
    assert calls.missing == {NAME: "too few recorded answers"}


def test_webhooks_that_are_not_asked_are_listed_and_reads_are_not() -> None:
    read = Call(kind="read", name="Namespace", key="n")
    other = Call(kind="webhook", name="a", key="k2", configuration="c")
    calls = ReviewCalls([CALL, read, other, other])
    take(calls, name="unknown")
    assert calls.list_unasked() == [CallName("webhook", "c", "a"), NAME]
    take(calls)
    calls.note_asked(CallName("webhook", "c", "a"))
    assert calls.list_unasked() == []


def test_a_missing_read_is_named_by_its_key_and_shortened() -> None:
    calls = ReviewCalls()
    calls.take("read", "Namespace", "prod", cluster="")
    calls.take("read", "SubjectAccessReview", "q" * 500, cluster="")
    short, long = map(str, calls.missing)
    assert short == "read Namespace prod"
    assert long.startswith("read SubjectAccessReview qqq")
    assert long.endswith("(320 characters left out)")
    assert list(calls.asked) == []


def test_a_name_for_people_has_the_configuration_if_there_is_one() -> None:
    assert (str(NAME), str(CallName("script", "", "s"))) == ("webhook c/w", "script s")


def test_without_a_replayed_review_no_call_has_an_answer() -> None:
    assert take(find_current()) is None
    calls = ReviewCalls([CALL])
    token = current_calls.set(calls)
    try:
        assert find_current() is calls
    finally:
        current_calls.reset(token)
