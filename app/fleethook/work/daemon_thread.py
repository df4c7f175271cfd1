"""Run blocking calls that cannot be cancelled in threads that do not delay the exit of the process.

Python joins the threads of an executor at exit, so a name server that does not respond would delay it.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def call_in_daemon_thread(function: Callable[[], T], *, name: str) -> "Future[T]":
    """Call ``function`` in a new thread and return a future of its result, which cannot be cancelled."""
    result: Future[T] = Future()
    # A running future cannot be cancelled, so setting its result never fails.
    result.set_running_or_notify_cancel()

    def run() -> None:
        try:
            result.set_result(function())
        except BaseException as error:  # noqa: BLE001 - the future raises it in the caller
            result.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return result
