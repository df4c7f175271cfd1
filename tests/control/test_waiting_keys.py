"""Tests of keys that wait in lanes."""

from app.control.waiting_keys import WaitingKeys


def waiting(*keys: str) -> WaitingKeys[str]:
    """Return keys in the lanes of their first letters."""
    made = WaitingKeys[str](lambda key: key[0])
    for key in keys:
        made.add(key)
    return made


def take_all(keys: WaitingKeys[str], lanes: str = "abc") -> list[str | None]:
    taken = [keys.take(lambda lane: lane in tuple(lanes))]
    while taken[-1] is not None:
        taken.append(keys.take(lambda lane: lane in tuple(lanes)))
    return taken[:-1]


def test_lanes_take_turns_and_keep_the_order_of_arrival() -> None:
    assert take_all(waiting("a1", "a2", "a3", "b1", "c1", "b2")) == ["a1", "b1", "c1", "a2", "b2", "a3"]


def test_a_lane_that_is_not_eligible_keeps_its_keys() -> None:
    keys = waiting("a1", "b1", "a2")
    assert take_all(keys, "b") == ["b1"]
    assert (len(keys), "a1" in keys, "b1" in keys) == (2, True, False)
    assert take_all(keys) == ["a1", "a2"]
    assert len(keys) == 0


def test_a_discarded_key_is_not_taken() -> None:
    keys = waiting("a1", "a2", "b1")
    keys.discard("a1")
    keys.discard("c9")
    assert len(keys) == 2
    assert take_all(keys) == ["a2", "b1"]
