"""Resolves names within a time limit, so that a slow DNS server does not block a download.

``getaddrinfo`` cannot be cancelled. It runs on a daemon thread that is abandoned after the time limit. The number of
these threads is limited; another lookup waits until one ends.
"""

import ipaddress
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from socket import getaddrinfo
from typing import Any, Final

from urllib3.exceptions import LocationParseError
from urllib3.util.connection import allowed_gai_family

from fleethook.engines.crds.download.cancellation import Deadline
from fleethook.engines.crds.download.download_errors import SlowLookupError
from fleethook.engines.crds.download.retry import CONNECT_SECONDS
from fleethook.work.daemon_thread import call_in_daemon_thread

Info = tuple[int, int, int, str, tuple[Any, ...]]
"""A result of ``socket.getaddrinfo``."""

MAX_LOOKUPS: Final = 16


class Lookups:
    """Runs at most ``limit`` lookups at a time, abandoned ones included."""

    def __init__(self, limit: int = MAX_LOOKUPS) -> None:
        self._limit = limit
        self._running = 0
        self._changed = threading.Condition()

    def find(self, name: str, port: int, deadline: Deadline) -> list[Info]:
        """Return the addresses of a name in the order to dial them.

        Raises:
            SlowLookupError: There was no answer in time, or the deadline passed.
            socket.gaierror: The name does not exist, or no DNS server can be reached.
            LocationParseError: The name is invalid.
        """
        if _is_number(name):
            return _look_up(name, port)
        until = time.monotonic() + CONNECT_SECONDS
        with deadline.on_cancel(self._wake), self._changed:
            if self._wait(lambda: self._running < self._limit, deadline, until):
                answer = call_in_daemon_thread(partial(_look_up, name, port), name="lookup")
                self._running += 1
                answer.add_done_callback(self._end)
                if self._wait(answer.done, deadline, until):
                    return answer.result()
        raise SlowLookupError(name)

    def _wait(self, is_ready: Callable[[], bool], deadline: Deadline, until: float) -> bool:
        self._changed.wait_for(lambda: deadline.cancelled or is_ready(), until - time.monotonic())
        return is_ready() and not deadline.cancelled

    def _end(self, _: "Future[list[Info]]") -> None:
        with self._changed:
            self._running -= 1
            self._changed.notify_all()

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()


LOOKUPS: Final = Lookups()
"""The lookups of this process."""


def _look_up(name: str, port: int) -> list[Info]:
    try:
        return [*getaddrinfo(name, port, allowed_gai_family(), socket.SOCK_STREAM)]
    except UnicodeError:
        raise LocationParseError(name) from None


def _is_number(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
