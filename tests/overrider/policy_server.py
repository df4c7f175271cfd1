"""An apiserver in memory that stores the objects of policies and answers dry runs."""

from collections.abc import Callable
from typing import Any

import msgspec

from app.kube.errors import APIError

API = "/apis/admissionregistration.k8s.io/v1"
SERVED = ("mutatingadmissionpolicies", "mutatingadmissionpolicybindings")


class PolicyServer:
    """Stores objects by path. ``acts`` is whether dry runs are rendered, ``failures`` are raised first, ``written`` runs at each write."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.single: dict[str, dict[str, Any]] = {}
        self.requests: list[tuple[str, str]] = []
        self.failures: list[Exception] = []
        self.refuses: Exception | None = None
        self.served: tuple[str, ...] = SERVED
        self.acts = True
        self.digest = ""
        self.written: list[Callable[[], None]] = []

    async def json(self, method: str, path: str, *, query: Any = None, body: Any = None) -> Any:
        return msgspec.json.decode(await self.request(method, path, query=query, body=body))

    async def request(self, method: str, path: str, *, query: Any = None, body: Any = None, **_: Any) -> bytes:
        self.requests.append((method, path))
        if method == "PATCH" and self.refuses is not None:
            raise self.refuses
        if self.failures:
            raise self.failures.pop(0)
        return msgspec.json.encode(self._answer(method, path, query or {}, body))

    def _answer(self, method: str, path: str, query: dict[str, str], body: Any) -> Any:
        if path == API:
            return {"resources": [{"name": one} for one in self.served]}
        if method == "PATCH":
            self.objects[path] = body
            for call in self.written:
                call()
        elif method == "DELETE" and self.objects.pop(path, None) is None:
            raise APIError(404, "NotFound", "not found")
        elif method == "POST":
            assert query == {"dryRun": "All"}
            annotations = {"fleethook.io/rendered": self.digest} if self.acts else {}
            return {**body, "metadata": {**body["metadata"], "annotations": annotations}}
        elif path in self.single:
            return self.single[path]
        elif method == "GET" and "clusterroles" in path:
            raise APIError(404, "NotFound", "no such role")
        elif method == "GET":
            if path.startswith(API) and path.rpartition("/")[2] not in self.served:
                raise APIError(404, "NotFound", "not served")
            return {"items": [one for place, one in self.objects.items() if self._is_listed(place, one, path, query)]}
        return {}

    def _is_listed(self, place: str, document: Any, path: str, query: dict[str, str]) -> bool:
        name, _, value = query["labelSelector"].partition("=")
        labels = document["metadata"].get("labels", {})
        return place.rpartition("/")[0] == path and name in labels and value in ("", labels[name])
