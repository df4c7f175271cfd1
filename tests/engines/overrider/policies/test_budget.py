"""Tests of the bound on the number of policies."""

from hypothesis import given
from hypothesis import strategies as st

from fleethook.engines.overrider.policies.budget import Budget
from fleethook.engines.overrider.subject.binding import Binding
from fleethook.model.openyurt import YURT_APP_SET

A, B, C = (Binding("", YURT_APP_SET, "default", name) for name in "abc")


def test_policies_of_others_count() -> None:
    budget = Budget(2)
    assert not budget.take(A, 1, others=2)
    assert budget.take(A, 1, others=1)
    assert not budget.take(B, 1, others=1)


def test_a_subject_with_room_keeps_it_if_others_are_added_meanwhile() -> None:
    budget = Budget(2)
    assert budget.take(A, 2, others=0)
    assert budget.enter(A, others=5)
    assert budget.take(A, 2, others=5)
    assert budget.take(A, 1, others=5)
    assert not budget.take(A, 2, others=5)


def test_the_first_subject_that_fits_is_next() -> None:
    budget = Budget(3)
    assert budget.take(A, 3, others=0)
    assert not budget.take(B, 3, others=0)
    assert not budget.enter(C, others=0)
    assert budget.find_next(others=0) is None
    assert budget.take(A, 2, others=0)
    assert budget.find_next(others=0) == C
    budget.give_back(A)
    assert budget.find_next(others=0) == B
    budget.give_back(B)
    assert budget.find_next(others=0) == C


def test_a_subject_that_gave_back_its_room_neither_holds_any_nor_waits() -> None:
    budget = Budget(1)
    assert budget.take(A, 1, others=0)
    assert not budget.take(B, 1, others=0)
    assert budget.is_full
    budget.give_back(B)
    assert not budget.is_full


@given(
    st.integers(0, 5),
    st.lists(st.tuples(st.sampled_from([A, B, C]), st.integers(0, 4), st.integers(0, 2)), max_size=30),
)
def test_no_order_of_requests_exceeds_the_limit(most: int, requests: list[tuple[Binding, int, int]]) -> None:
    budget, held = Budget(most), dict[Binding, int]()
    for binding, count, others in requests:
        if count == 0:
            budget.give_back(binding)
            held.pop(binding, None)
        elif budget.take(binding, count, others=others):
            grew = count > held.get(binding, 0)
            held[binding] = count
            assert not grew or sum(held.values()) + others <= most
        else:
            held.pop(binding, None)
        # A subject that waits is offered room only if it would get it.
        if waiting := budget.find_next(others=others):
            assert waiting not in held
