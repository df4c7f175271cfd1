"""Several worker processes on one listening socket."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Final

LISTENER_VARIABLE: Final = "FLEETHOOK_LISTEN_FD"
_METRICS_VARIABLE: Final = "PROMETHEUS_MULTIPROC_DIR"
LOCK_VARIABLE: Final = "FLEETHOOK_LOG_LOCK_FILE"
"""Environment variable with the path of a file that workers lock while they write log lines."""


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket that child processes can inherit; raises OSError if the address is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((host, port))
    listener.listen(2048)
    listener.set_inheritable(True)
    return listener


def inherit_listeners() -> list[socket.socket] | None:
    """Return the listening socket that a worker process inherits, None in a process without parent.

    `socket.socket` detects the family of the descriptor. uvicorn would assume a Unix socket, and the event loop would
    not disable Nagle's algorithm for its connections. Every answer would then wait 40 ms for an acknowledgement.
    """
    descriptor = os.environ.get(LISTENER_VARIABLE)
    return None if descriptor is None else [socket.socket(fileno=int(descriptor))]


class Workers:
    """Child processes that serve on the same socket. Dead workers are replaced, and signals are forwarded to all."""

    def __init__(self, listener: socket.socket, arguments: Sequence[str], *, count: int) -> None:
        self._listener: Final = listener
        self._arguments: Final = list(arguments)
        self._count: Final = count
        self._children: Final[dict[int, subprocess.Popen[bytes]]] = {}
        self._is_stopping = False
        self._signals: Final = set[int]()

    def run(self) -> int:
        """Serve until a signal arrives; return the exit code: 0, or that of a worker that could not start."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._forward)
        with tempfile.TemporaryDirectory(prefix="fleethook-metrics-") as metrics:
            for _ in range(self._count):
                self._start(metrics)
            while self._children:
                pid, status = os.wait()
                child = self._children.pop(pid, None)
                code = os.waitstatus_to_exitcode(status)
                if child is None or self._is_stopping:
                    continue
                if code > 0:
                    # The worker has printed its error. Another start would fail in the same way.
                    self._forward(signal.SIGTERM, None)
                    return code
                self._start(metrics)
        return 0

    def _start(self, metrics: str) -> None:
        if self._is_stopping:
            return
        environment = {
            **os.environ,
            LISTENER_VARIABLE: str(self._listener.fileno()),
            _METRICS_VARIABLE: metrics,
            LOCK_VARIABLE: str(Path(metrics) / "log.lock"),
        }
        child = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            [sys.executable, "-m", "fleethook", *self._arguments], env=environment, pass_fds=[self._listener.fileno()]
        )
        self._children[child.pid] = child
        self._forward_missed(child)

    def _forward_missed(self, child: "subprocess.Popen[bytes]") -> None:
        """Forward a signal that arrived during the start of the worker, and so did not reach it."""
        if self._is_stopping:
            child.send_signal(signal.SIGTERM)

    def _forward(self, number: int, _frame: FrameType | None) -> None:
        """Stop the workers; the same signal again ends their requests.

        They get SIGTERM, because a terminal sends SIGINT to each process itself.
        """
        if self._is_stopping and number not in self._signals:
            return
        self._signals.add(number)
        self._is_stopping = True
        # The workers share the socket. The system refuses connections after the last of them closes it.
        self._listener.close()
        for child in self._children.values():
            child.send_signal(signal.SIGTERM)
