"""A client of the apiserver with keep-alive connections, for tests with thousands of requests."""

import contextlib
import http.client
import threading
from collections.abc import Iterator
from typing import Any

from tests.e2e.cluster import Api, decode


class KeepAliveApi(Api):
    """Like `Api`, with one connection for each thread instead of each call."""

    def __init__(self, api: Api) -> None:
        super().__init__(api._address, api._context, api._token)
        self._mine = threading.local()
        self._all: list[http.client.HTTPSConnection] = []

    def call(
        self, method: str, path: str, body: Any = None, *, content_type: str = "application/json", **query: str
    ) -> tuple[int, Any, list[str]]:
        """Return status, decoded body and warnings."""
        connection = getattr(self._mine, "connection", None)
        if connection is None:
            connection = self._mine.connection = self.connect()
            self._all.append(connection)
        try:
            try:
                response = self.send(connection, method, path, body, content_type=content_type, **query)
            except http.client.RemoteDisconnected:
                # An apiserver closes a connection that was idle for long. It has not read the request.
                connection.close()
                response = self.send(connection, method, path, body, content_type=content_type, **query)
            return decode(response)
        except (OSError, http.client.HTTPException):
            connection.close()  # Opened again at the next call.
            raise

    def close(self) -> None:
        for connection in self._all:
            connection.close()


@contextlib.contextmanager
def keep_alive(api: Api) -> Iterator[KeepAliveApi]:
    """Provide a client with the access of ``api``, and close its connections afterwards."""
    made = KeepAliveApi(api)
    try:
        yield made
    finally:
        made.close()
