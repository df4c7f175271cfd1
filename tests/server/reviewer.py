"""An apiserver that reviews tokens and access, in memory."""

import asyncio
from typing import Any

from fleethook.cluster.api_errors import APIError
from tests.apiserver_rules import check_review

TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


class Reviewer:
    """Knows users by token, and their rights; keeps the reviews that it has received."""

    def __init__(self, *, every_cluster: bool = False) -> None:
        self.users: dict[str, dict[str, Any]] = {}
        self.rights: set[tuple[str, str, str]] = set()
        """User, cluster, and resource with subresource."""
        self.clusters: set[str] = set()
        """The existing logical clusters."""
        self.audiences: set[str] | None = None
        self.failure: Exception | None = None
        self.asked: list[tuple[str, Any]] = []
        self.answering = asyncio.Event()
        self.answering.set()
        self._every_cluster = every_cluster

    def scope(self, cluster: str) -> str:
        return f"/clusters/{cluster}" if self._every_cluster and cluster else ""

    async def read_one(self, *_: Any, **__: Any) -> None:
        raise AssertionError("these tests read no object live")

    async def post(self, method: str, path: str, *, body: Any, **_: Any) -> Any:
        assert method == "POST"
        self.asked.append((path, body))
        await self.answering.wait()
        if self.failure is not None:
            raise self.failure
        _, _, rest = path.partition("/apis/")
        cluster = path.removesuffix(f"/apis/{rest}").removeprefix("/clusters/")
        if self._every_cluster and not cluster:
            raise APIError(500, "InternalError", "cluster path is empty in the request context")
        if cluster and cluster not in self.clusters:
            raise APIError(404, "NotFound", f'workspaces.tenancy.kcp.io "{cluster}" not found')
        check_review(path, body)
        if path.endswith(TOKEN_REVIEWS):
            return self._whose(body["spec"])
        return self._may(body["spec"])

    def _whose(self, spec: Any) -> Any:
        user = self.users.get(spec["token"])
        if user is None:
            return {"status": {"error": "invalid bearer token"}}
        status = {"authenticated": True, "user": user}
        if self.audiences is not None:
            found = sorted(self.audiences & set(spec.get("audiences", ())))
            return {"status": {**status, "audiences": found} if found else {"error": "another audience"}}
        return {"status": status}

    def _may(self, spec: Any) -> Any:
        asked = spec["resourceAttributes"]
        assert (asked["group"], asked["verb"]) == ("fleethook.io", "create")
        resource = f"{asked['resource']}/{asked['subresource']}"
        return {"status": {"allowed": (spec["user"], asked["name"], resource) in self.rights}}

    def count(self, reviews: str) -> int:
        return sum(path.endswith(reviews) for path, _ in self.asked)
