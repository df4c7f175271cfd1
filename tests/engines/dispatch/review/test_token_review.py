from typing import Any

import pytest

from fleethook.engines.dispatch.review.token_review import build_token_review, is_allowed, read_reviewed_user

ALICE = {"username": "alice", "uid": "7", "groups": ["devs"], "extra": {"b": ["2"], "a": ["1"]}}


def test_a_review_has_the_audiences_only_if_there_are_some() -> None:
    assert build_token_review("t", ())["spec"] == {"token": "t"}
    assert build_token_review("t", ["x"])["spec"] == {"token": "t", "audiences": ["x"]}


def test_the_user_has_all_that_the_apiserver_says_about_it() -> None:
    user = read_reviewed_user({"status": {"authenticated": True, "user": ALICE}}, ())
    assert user == ("alice", "7", ("devs",), (("a", ("1",)), ("b", ("2",))))


@pytest.mark.parametrize(
    "status", [{}, {"user": ALICE}, {"authenticated": "true", "user": ALICE}, {"authenticated": True, "user": {}}]
)
def test_an_answer_without_an_authenticated_user_accepts_no_token(status: Any) -> None:
    assert read_reviewed_user({"status": status}, ()) is None


def test_a_token_for_another_audience_is_not_accepted() -> None:
    answer: Any = {"status": {"authenticated": True, "user": ALICE, "audiences": ["other"]}}
    assert read_reviewed_user(answer, ["wanted"]) is None
    assert read_reviewed_user(answer, ["other"]) is not None


def test_a_right_needs_an_answer_that_allows_and_does_not_deny() -> None:
    assert is_allowed({"status": {"allowed": True}})
    for status in [{}, {"allowed": "true"}, {"allowed": True, "denied": True}, {"allowed": False}]:
        assert not is_allowed({"status": status})
