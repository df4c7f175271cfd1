"""What addresses a name has, within a time: a resolver that hangs does not hold who asks it.

``getaddrinfo`` cannot be ended from outside. It runs in a thread that is left behind if it takes too long; how many of
those there may be has a bound, and who comes when all are in use waits for one as for an answer.
"""

import ipaddress
import socket
import threading
import time
from collections.abc import Callable
from socket import getaddrinfo
from typing import Any, Final

from urllib3.exceptions import LocationParseError
from urllib3.util.connection import allowed_gai_family

from app.crds.download.cutoff import Cutoff
from app.crds.download.reasons import SlowLookupError
from app.crds.download.timing import CONNECT_SECONDS

Info = tuple[int, int, int, str, tuple[Any, ...]]
"""As of ``socket.getaddrinfo``."""
Answer = list[Info] | OSError | UnicodeError

_MOST: Final = 16


class Lookups:
    """Lookups of a process, ``most`` at a time, with those that were left behind."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._running = 0
        self._changed = threading.Condition()

    def of(self, name: str, port: int, cutoff: Cutoff) -> list[Info]:
        """Return a name's addresses in the order in which they are to be dialled.

        Raises:
            SlowLookupError: There was no answer in time, or the cutoff fired.
            socket.gaierror: There is no such name, or none can be asked.
            LocationParseError: It is no name.
        """
        answers: list[Answer] = []
        if _is_number(name):
            answers.append(_answer(name, port))
        else:
            self._ask(name, port, cutoff, answers)
        match answers:
            case [list(found)]:
                return found
            case [UnicodeError()]:
                raise LocationParseError(name)
            case [OSError() as error]:
                raise error
        raise SlowLookupError(name)

    def _ask(self, name: str, port: int, cutoff: Cutoff, answers: list[Answer]) -> None:
        until = time.monotonic() + CONNECT_SECONDS
        with cutoff.telling(self._wake), self._changed:
            if not self._waited(lambda: self._running < self._most, cutoff, until):
                return
            thread = threading.Thread(target=self._run, args=(name, port, answers), name="lookup", daemon=True)
            thread.start()
            self._running += 1
            self._waited(lambda: bool(answers), cutoff, until)

    def _waited(self, ready: Callable[[], bool], cutoff: Cutoff, until: float) -> bool:
        self._changed.wait_for(lambda: cutoff.fired or ready(), until - time.monotonic())
        return ready() and not cutoff.fired

    def _run(self, name: str, port: int, answers: list[Answer]) -> None:
        answer: Answer = socket.gaierror(socket.EAI_FAIL, "no answer")
        try:
            answer = _answer(name, port)
        finally:
            with self._changed:
                answers.append(answer)
                self._running -= 1
                self._changed.notify_all()

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()


LOOKUPS: Final = Lookups()
"""Those of this process."""


def _answer(name: str, port: int) -> Answer:
    try:
        return [*getaddrinfo(name, port, allowed_gai_family(), socket.SOCK_STREAM)]
    except (OSError, UnicodeError) as error:
        return error


def _is_number(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
