"""An apiserver in memory that stores the objects of policies, and answers dry runs of workloads."""

from collections.abc import Callable, Mapping
from typing import Any

from fleethook.cluster.api_errors import APIError
from fleethook.cluster.connection import APPLY_PATCH
from tests.apiserver_rules import parse_path
from tests.cluster.object_server import Document, ObjectServer

API = "/apis/admissionregistration.k8s.io/v1"
SERVED = ("mutatingadmissionpolicies", "mutatingadmissionpolicybindings")


class PolicyServer(ObjectServer):
    """Has the objects of policies. ``requests`` has no first list of a watch.

    Attributes:
        single: Other objects by path.
        denied: Errors for the next requests.
        refuses: An error for all writes of policies, None to store them.
        served: The plurals of the group that are served.
        lists_refused: Whether the first list of a watch is refused.
        acts: Whether dry runs are rendered, with ``digest``.
        written: Functions to call at each write of a policy.
    """

    def __init__(self) -> None:
        super().__init__()
        self.single: dict[str, Document] = {}
        self.denied: list[Exception] = []
        self.refuses: Exception | None = None
        self.served: tuple[str, ...] = SERVED
        self.lists_refused = False
        self.acts = True
        self.digest = ""
        self.written: list[Callable[[], None]] = []
        self.admit = self._render
        self.is_served = lambda path: not path.startswith(f"{API}/") or parse_path(path).plural in self.served

    def serve(self, *plurals: str) -> None:
        """Serve these resources from now on; watches of others end."""
        self.served = plurals
        self.end_watches()

    async def apply(self, path: str, body: Document) -> bytes:
        """Apply an object as another client does."""
        query = {"fieldManager": "other", "force": "true"}
        return await self.request("PATCH", path, query=query, body=body, content_type=APPLY_PATCH)

    def answer(self, method: str, path: str, *, query: Mapping[str, str], body: Any, content_type: str) -> Any:
        if "limit" in query:
            self.requests.pop()
            if self.lists_refused:
                raise APIError(403, "Forbidden", f"{path} is forbidden")
        elif self.denied:
            raise self.denied.pop(0)
        if method == "PATCH" and self.refuses is not None:
            raise self.refuses
        if path == API:
            return {"resources": [{"name": one} for one in self.served]}
        if path in self.single:
            return self.single[path]
        for call in self.written if method == "PATCH" else ():
            call()
        return super().answer(method, path, query=query, body=body, content_type=content_type)

    def _render(self, _: Document | None, written: Document) -> Document:
        if written["kind"] not in ("Deployment", "StatefulSet"):
            return written
        annotations = {"fleethook.io/rendered": self.digest} if self.acts else {}
        return {**written, "metadata": {**written["metadata"], "annotations": annotations}}
