"""The recorder rests if it takes the core of the event loop."""

import os

import pytest

from app.records.throttle import Throttle, read_wait


class Core:
    """A core that the recorder and the event loop may share."""

    def __init__(self, *, is_shared: bool) -> None:
        self.is_shared = is_shared
        self.worked = 0.0
        self.waited = 0.0

    def work(self, seconds: float) -> None:
        self.worked += seconds
        self.waited += seconds if self.is_shared else 0.0


@pytest.mark.parametrize(("is_shared", "rest"), [(False, 0.0), (True, 0.39)])
def test_the_recorder_rests_if_the_event_loop_waits_for_its_core(*, is_shared: bool, rest: float) -> None:
    core = Core(is_shared=is_shared)
    throttle = Throttle(1, read_wait=lambda _: core.waited, clock=lambda: core.worked)
    for _ in range(3):
        throttle.begin()
        core.work(0.01)
        assert throttle.end() == pytest.approx(rest)


def test_a_rest_is_bounded() -> None:
    core = Core(is_shared=True)
    throttle = Throttle(1, read_wait=lambda _: core.waited, clock=lambda: core.worked)
    throttle.begin()
    core.work(5.0)
    assert throttle.end() == 1.0


def test_the_wait_of_a_thread_grows_and_a_missing_thread_has_none() -> None:
    assert 0.0 <= read_wait(os.getpid()) <= read_wait(os.getpid())
    assert read_wait(-1) == 0.0
