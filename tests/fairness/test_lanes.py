"""Items that wait in lanes."""

from fleethook.fairness.lanes import Lanes


def lanes_of(*items: str) -> Lanes[str]:
    """Return items in the lanes of their first letters."""
    made = Lanes[str]()
    for item in items:
        made.add(item[0], item)
    return made


def take_all(lanes: Lanes[str], eligible: str = "abc") -> list[str | None]:
    taken = [lanes.take(lambda lane: lane in tuple(eligible))]
    while taken[-1] is not None:
        taken.append(lanes.take(lambda lane: lane in tuple(eligible)))
    return taken[:-1]


def test_lanes_take_turns_and_keep_the_order_of_arrival() -> None:
    assert take_all(lanes_of("a1", "a2", "a3", "b1", "c1", "b2")) == ["a1", "b1", "c1", "a2", "b2", "a3"]


def test_a_lane_that_comes_back_is_behind_the_others() -> None:
    lanes = lanes_of("a1", "b1")
    assert lanes.take() == "a1"
    lanes.add("a", "a2")
    assert take_all(lanes) == ["b1", "a2"]


def test_a_lane_that_is_not_eligible_keeps_its_items() -> None:
    lanes = lanes_of("a1", "b1", "a2")
    assert take_all(lanes, "b") == ["b1"]
    assert (len(lanes), list(lanes), "b" in lanes) == (2, ["a"], False)
    assert (lanes.has("a", "a1"), lanes.has("b", "b1"), lanes.has("a", "b1")) == (True, False, False)
    assert take_all(lanes) == ["a1", "a2"]
    assert len(lanes) == 0


def test_a_discarded_item_is_not_taken() -> None:
    lanes = lanes_of("a1", "a2", "b1")
    assert lanes.discard("a", "a1")
    assert not lanes.discard("a", "a1")
    assert not lanes.discard("c", "c9")
    assert len(lanes) == 2
    assert take_all(lanes) == ["a2", "b1"]
