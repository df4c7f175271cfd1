import threading

import pytest

from fleethook.work.daemon_thread import call_in_daemon_thread


def test_the_future_has_the_result_of_the_thread() -> None:
    thread = call_in_daemon_thread(threading.current_thread, name="lookup").result(60)
    assert (thread.daemon, thread.name) == (True, "lookup")


def test_the_future_raises_the_exception_of_the_thread() -> None:
    def fail() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        call_in_daemon_thread(fail, name="fails").result(60)


def test_the_future_cannot_be_cancelled() -> None:
    go = threading.Event()
    result = call_in_daemon_thread(lambda: go.wait(60), name="waits")
    assert not result.cancel()
    go.set()
    assert result.result(60)
