"""Tests of shares of a limited number of places."""

from app.control.shares import Shares


def test_a_lane_leaves_the_reserved_places_to_other_lanes() -> None:
    shares = Shares(3, reserved=2)
    assert shares.allows("a")
    shares.take("a")
    assert not shares.allows("a")
    for lane in ("b", "c"):
        assert shares.allows(lane)
        shares.take(lane)
    assert shares.exhausted
    assert not shares.allows("d")


def test_without_reserved_places_a_lane_takes_all() -> None:
    shares = Shares(2)
    for _ in range(2):
        assert shares.allows("a")
        shares.take("a")
    assert (shares.held("a"), shares.exhausted) == (2, True)


def test_a_place_that_is_given_back_is_free_again() -> None:
    shares = Shares(2, reserved=1)
    shares.take("a")
    shares.give_back("a")
    assert (shares.held("a"), shares.exhausted) == (0, False)
    assert shares.allows("a")
