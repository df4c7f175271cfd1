"""The recorder rests while the event loop is busy."""

import threading

import pytest

from fleethook.recordings.record.throttle import Throttle, time_thread


class Core:
    """A core on which the recorder and the event loop work."""

    def __init__(self) -> None:
        self.now = self.event_loop = self.recorder = 0.0
        self.throttle = Throttle(lambda: self.event_loop, recorder=lambda: self.recorder, clock=lambda: self.now)

    def serve(self, seconds: float, *, idle: float = 0.0) -> None:
        """Have the event loop work, and then wait."""
        self.event_loop += seconds
        self.now += seconds + idle

    def record(self, seconds: float = 0.01) -> float:
        """Have the recorder work, and return the seconds to rest."""
        self.throttle.begin()
        self.recorder += seconds
        self.now += seconds
        return self.throttle.end()


@pytest.mark.parametrize(("idle", "rest"), [(1.0, 0.0), (0.5, 0.0), (0.1, 0.6567), (0.0, 0.6567)])
def test_the_recorder_rests_while_the_event_loop_is_busy(idle: float, rest: float) -> None:
    core = Core()
    for _ in range(3):
        core.serve(1.0, idle=idle)
        assert core.record() == pytest.approx(rest, abs=1e-4)


def test_the_recorder_does_not_rest_once_the_event_loop_is_idle() -> None:
    core = Core()
    core.serve(1.0)
    assert core.record() > 0.0
    core.serve(0.0, idle=1.0)
    assert core.record() == 0.0


def test_a_short_time_changes_no_verdict() -> None:
    core = Core()
    core.serve(1.0)
    assert core.record() > 0.0
    core.serve(0.0, idle=0.01)
    assert core.record() > 0.0


def test_a_rest_is_bounded() -> None:
    core = Core()
    core.serve(1.0)
    assert core.record(5.0) == 1.0


def test_the_time_of_another_thread_grows_with_its_work() -> None:
    """The thread works until it has taken processor time, which needs no certain duration."""
    found: list[float] = []
    ready, go_on = threading.Event(), threading.Event()

    def work() -> None:
        ready.set()
        while not go_on.is_set():
            pass

    worker = threading.Thread(target=work)
    worker.start()
    ready.wait()
    assert worker.ident is not None
    spent = time_thread(worker.ident)
    found.append(spent())
    while spent() <= found[0]:
        pass
    go_on.set()
    worker.join()
