"""Dials a host: resolves and checks its addresses, and connects to the first that accepts, within the deadline.

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

from urllib3.connection import HTTPConnection
from urllib3.exceptions import ConnectTimeoutError, LocationParseError
from urllib3.util.connection import allowed_gai_family

from fleethook.engines.crds.download.attempt_errors import CONNECT_SECONDS, SlowLookupError
from fleethook.engines.crds.download.cancellation import Deadline, shut_down
from fleethook.outbound.addresses import PrivateAddressError, is_private, refuse_private_number
from fleethook.work.worker import call_in_daemon_thread

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


def dial_host(host: str, port: int, deadline: Deadline, *, allow_private: bool) -> socket.socket:
    """Return a connection to the first address of a host that accepts one.

    Raises:
        PrivateAddressError: An address is private, and private addresses are not allowed.
        ConnectTimeoutError: The last address did not answer in time.
        OSError: The host has no address, or the last one refuses.
    """
    last: OSError = ConnectionAbortedError()
    for info in resolve_addresses(host, port, deadline, allow_private=allow_private):
        if deadline.cancelled:
            break
        try:
            return _connect(info, deadline)
        except OSError as error:
            last = error
    if isinstance(last, TimeoutError):
        raise ConnectTimeoutError from last
    raise last


def resolve_addresses(host: str, port: int, deadline: Deadline, *, allow_private: bool) -> list[Info]:
    """Return the addresses of a host in the order of attempts.

    The caller dials the addresses that are checked here, so DNS rebinding has no effect.

    Raises:
        PrivateAddressError: An address is private, and private addresses are not allowed.
        OSError: The host has no address.
    """
    found = LOOKUPS.find(host.strip("[]"), port, deadline)
    private = [str(info[4][0]) for info in found if is_private(str(info[4][0]))]
    if private and not allow_private:
        raise PrivateAddressError(private[0])
    return found


def _connect(info: Info, deadline: Deadline) -> socket.socket:
    family, kind, protocol, _, address = info
    made = socket.socket(family, kind, protocol)
    try:
        for option in HTTPConnection.default_socket_options:
            made.setsockopt(*option)
        made.settimeout(CONNECT_SECONDS)
        # `watch` starts after the connect: its duplicate would keep a failed socket open.
        with deadline.on_cancel(partial(shut_down, made)):
            made.connect(address)
        deadline.watch(made)
    except BaseException:
        made.close()
        raise
    return made


def refuse_private_literal(host: str) -> None:
    """Refuse a host that is private by its text alone. For requests through a proxy, which resolves the name.

    Raises:
        PrivateAddressError: The host is private.
    """
    refuse_private_number(host)
    if host == "localhost" or host.endswith(".localhost") or (":" in host and is_private(host)):
        raise PrivateAddressError(host)
