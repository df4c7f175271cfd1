"""An apiserver in memory that reviews the tokens and rights of a console's users."""

from typing import Any

from fleethook.server.callers import ACCESS_REVIEWS, TOKEN_REVIEWS
from tests.apiserver_rules import check_review

TOKEN = "an-opaque-token-of-alice"


class Apiserver:
    """Knows alice by her token, and the rights of users; keeps the reviews that it has received."""

    def __init__(self) -> None:
        self.users: dict[str, dict[str, Any]] = {
            TOKEN: {"username": "alice", "uid": "7", "groups": ["devs"], "extra": {"k": ["v"]}}
        }
        self.rights: set[tuple[str, str, str, str]] = set()
        """User, group, resource and namespace."""
        self.failure: Exception | None = None
        self.asked: list[tuple[str, Any]] = []

    async def post(self, method: str, path: str, *, body: Any, timeout: float) -> Any:  # noqa: ASYNC109
        assert method == "POST"
        assert timeout > 0
        self.asked.append((path, body["spec"]))
        check_review(path, body)
        if self.failure is not None:
            raise self.failure
        if path == TOKEN_REVIEWS:
            user = self.users.get(body["spec"]["token"])
            return {"status": {"authenticated": True, "user": user} if user else {"error": "invalid bearer token"}}
        assert path == ACCESS_REVIEWS
        asked = body["spec"]["resourceAttributes"]
        assert (asked["verb"], asked["subresource"], asked["name"]) == ("get", "", "")
        right = (body["spec"]["user"], asked["group"], asked["resource"], asked["namespace"])
        return {"status": {"allowed": right in self.rights}}

    def find_resource(self, group_kind: Any) -> str | None:
        return {"YurtAppSet": "yurtappsets", "NodePool": "nodepools"}.get(group_kind.kind)
