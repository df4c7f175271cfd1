"""A watch on a thread, which delivers every change of a collection in order."""

import contextlib
import http.client
import json
import socket
import threading
from collections.abc import Callable
from typing import Any

from tests.e2e.cluster import Api

OnEvent = Callable[[str, dict[str, Any]], None]


class Watch:
    """Lists a collection and then follows it.

    Attributes:
        problem: The reason for an unexpected end, after which events are missing.
    """

    def __init__(self, api: Api, path: str, on_event: OnEvent) -> None:
        """Start; calls ``on_event`` with the type and object of each event, first with ADDED for every existing object."""
        self.problem = ""
        self._on_event = on_event
        self._ending = False
        listed = api[path]
        members = {"apiVersion": listed["apiVersion"], "kind": listed["kind"].removesuffix("List")}
        for item in listed["items"]:
            on_event("ADDED", {**members, **item})
        self._connection = api.connect(timeout=None)
        version = listed["metadata"]["resourceVersion"]
        self._response = api.send(self._connection, "GET", path, watch="true", resourceVersion=version)
        assert self._response.status == 200, self._response.read()
        # The connection drops its socket when the response ends it, but `stop` needs the socket.
        self._socket = self._connection.sock
        self._thread = threading.Thread(target=self._follow, name=f"watch {path}", daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        try:
            while line := self._response.readline():
                event = json.loads(line)
                if event["type"] == "ERROR":
                    self.problem = str(event["object"])
                    return
                self._on_event(event["type"], event["object"])
            self.problem = "" if self._ending else "the apiserver ended the watch"
        except (OSError, ValueError, http.client.HTTPException) as error:
            self.problem = "" if self._ending else str(error)

    def stop(self) -> None:
        self._ending = True
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(10)
        self._response.close()
        self._connection.close()
