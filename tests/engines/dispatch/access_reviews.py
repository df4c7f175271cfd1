"""An apiserver that answers SubjectAccessReviews, and webhooks whose conditions ask it."""

import asyncio
from typing import Any

from tests.apiserver_rules import check_review
from tests.engines.dispatch.webhook_server import Webhooks, hook


def authorizer_hook(server: Webhooks, number: int, questions: int, policy: str) -> Any:
    conditions = [
        {"name": f"c{one}", "expression": f"authorizer.path('/{number}/{one}').check('get').allowed()"}
        for one in range(questions)
    ]
    return hook(server, "/w", f"w{number}.example.org", failurePolicy=policy, matchConditions=conditions)


class Apiserver:
    """Answers SubjectAccessReviews, and counts them."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.most = 0
        self.open = 0
        self.answering = asyncio.Event()
        self.answering.set()

    async def post(self, method: str, path: str, *, body: Any, **_: Any) -> Any:
        assert method == "POST"
        check_review(path, body)
        self.asked.append(path)
        self.open += 1
        self.most = max(self.most, self.open)
        await self.answering.wait()
        await asyncio.sleep(0)
        self.open -= 1
        return {"status": {"allowed": True}}

    def scope(self, cluster: str) -> str:
        return f"/clusters/{cluster}"

    async def read_one(self, *_: Any, **__: Any) -> None:
        return
