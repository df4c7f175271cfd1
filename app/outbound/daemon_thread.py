"""Blocking calls that nothing can end, in threads that the end of the process does not wait for.

The threads of an executor are joined at the end of the process: a name server that does not answer would hold it up.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def call_in_daemon_thread(function: Callable[[], T], *, name: str) -> "Future[T]":
    """Start a thread that calls ``function``, and return its result to come; it cannot be cancelled."""
    result: Future[T] = Future()
    # A running future refuses to be cancelled, and so can always be given its result.
    result.set_running_or_notify_cancel()

    def run() -> None:
        try:
            result.set_result(function())
        except BaseException as error:  # noqa: BLE001 - the caller raises it again
            result.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return result
