"""Clients that send requests without pause and count failures, over keep-alive and over new connections."""

import contextlib
import http.client
import ssl
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from tests.serving import MUTATE, REVIEW
from tests.waiting import NET


class Traffic:
    """The answers and failures of the clients."""

    def __init__(self, port: int, context: Callable[[], ssl.SSLContext]) -> None:
        self.port = port
        self._context = context
        self.answered: Counter[str] = Counter()
        self.failures: list[str] = []
        self.serials: set[str] = set()
        self._stop = threading.Event()
        self._body = REVIEW.read_bytes()

    def _ask(self, connection: http.client.HTTPSConnection, kind: str) -> None:
        connection.request("POST", MUTATE, body=self._body, headers={"Content-Type": "application/json"})
        response = connection.getresponse()
        text = response.read()
        if response.status == 200 and b'"allowed":true' in text:
            self.answered[kind] += 1
        else:
            self.failures.append(f"{kind}: {response.status} {text[:200]!r}")

    def _connect(self) -> http.client.HTTPSConnection:
        connection = http.client.HTTPSConnection("localhost", self.port, context=self._context(), timeout=NET)
        connection.connect()
        certificate: Any = connection.sock.getpeercert()
        self.serials.add(str(certificate["serialNumber"]))
        return connection

    def keep_alive(self) -> None:
        """Use one connection for all requests; http.client would silently open another."""
        connection = self._connect()
        socket = connection.sock
        try:
            while not self._stop.is_set():
                self._ask(connection, "kept")
                if connection.sock is not socket:
                    self.failures.append("kept: the server closed the connection")
                    return
        except (OSError, http.client.HTTPException) as error:
            self.failures.append(f"kept: {type(error).__name__}: {error}")
        finally:
            connection.close()

    def reconnect_each_time(self) -> None:
        while not self._stop.is_set():
            try:
                with contextlib.closing(self._connect()) as connection:
                    self._ask(connection, "new")
            except (OSError, http.client.HTTPException) as error:
                self.failures.append(f"new: {type(error).__name__}: {error}")

    def stop(self) -> None:
        self._stop.set()


@contextlib.contextmanager
def send_traffic(port: int, context: Callable[[], ssl.SSLContext], *, kept: int = 8, new: int = 2) -> Iterator[Traffic]:
    """Send requests over ``kept`` connections, and by ``new`` clients over new ones, until the context ends."""
    traffic = Traffic(port, context)
    targets = [traffic.keep_alive] * kept + [traffic.reconnect_each_time] * new
    threads = [threading.Thread(target=target) for target in targets]
    for thread in threads:
        thread.start()
    try:
        yield traffic
    finally:
        traffic.stop()
        for thread in threads:
            thread.join(timeout=NET)
            assert not thread.is_alive()
