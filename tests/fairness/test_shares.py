"""Shares of an amount: one with much of it leaves room for the others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleethook.fairness.shares import Shares


@pytest.mark.parametrize(("multiple", "alone"), [(1, 50), (3, 75), (9, 90)])
def test_one_consumer_leaves_room_for_the_next(multiple: int, alone: int) -> None:
    shares = Shares(100, multiple=multiple)
    while shares.take("greedy", 1):
        pass
    assert shares.total == alone
    assert shares.take("modest", (100 - alone) // 2)
    shares.give_back("greedy", alone)
    assert shares.take("greedy", 1)


STEPS = st.lists(st.tuples(st.sampled_from(["take", "give_back", "move"]), st.sampled_from("abc"), st.integers(1, 20)))


@given(STEPS)
def test_the_total_is_the_sum_of_what_consumers_hold(steps: list[tuple[str, str, int]]) -> None:
    shares, held = Shares(60, multiple=2), {"a": 0, "b": 0, "c": 0}
    for step, who, size in steps:
        other = "b" if who == "a" else "a"
        if step == "take" and shares.take(who, size):
            held[who] += size
        elif step != "take" and held[who] >= size:
            if step == "give_back":
                shares.give_back(who, size)
            elif shares.move(size, source=who, target=other):
                held[other] += size
            else:
                continue
            held[who] -= size
        assert shares.total == sum(held.values()) <= 60
    shares.clear()
    assert shares.allows("d", 60)
