import asyncio
from typing import Any

from fleethook.cluster.api_errors import APIError, UnreachableError
from fleethook.console.lease_watch import KEPT_SECONDS, LeaseState, LeaseWatch

LEASE = {"spec": {"holderIdentity": "a"}}


class Apiserver:
    """Answers with a Lease, or fails."""

    def __init__(self) -> None:
        self.answer: Any = LEASE
        self.asked: list[tuple[str, str]] = []
        self.open = asyncio.Event()
        self.open.set()
        self.now = 0.0

    async def get(self, method: str, path: str, *, timeout: float) -> Any:  # noqa: ASYNC109
        assert timeout > 0
        self.asked.append((method, path))
        await self.open.wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def watch(self) -> LeaseWatch:
        return LeaseWatch(self.get, "/leases/fleethook", namespace="n", clock=lambda: self.now)


async def test_an_answer_is_used_for_some_seconds() -> None:
    apiserver = Apiserver()
    watch = apiserver.watch()
    assert await watch.find() == LeaseState(LEASE, is_read=True)
    apiserver.now = KEPT_SECONDS - 1
    await watch.find()
    assert apiserver.asked == [("GET", "/leases/fleethook")]
    apiserver.now = KEPT_SECONDS
    apiserver.answer = {"spec": {}}
    assert (await watch.find()).lease == {"spec": {}}
    assert len(apiserver.asked) == 2


async def test_a_missing_lease_is_an_answer() -> None:
    apiserver = Apiserver()
    apiserver.answer = APIError(404, "NotFound", "leases fleethook not found")
    assert await apiserver.watch().find() == LeaseState(None, is_read=True)


async def test_a_failure_is_named_and_keeps_the_last_answer() -> None:
    apiserver = Apiserver()
    watch = apiserver.watch()
    await watch.find()
    for number, failure in enumerate((APIError(403, "Forbidden", "cannot get"), UnreachableError("refused")), 1):
        apiserver.now = number * KEPT_SECONDS
        apiserver.answer = failure
        state = await watch.find()
        assert (state.lease, state.is_read) == (LEASE, True)
        assert state.problem in ("cannot get", "refused")
    apiserver.now *= 2
    apiserver.answer = LEASE
    assert (await watch.find()).problem == ""


async def test_a_page_does_not_wait_for_a_slow_apiserver() -> None:
    apiserver = Apiserver()
    apiserver.open.clear()
    watch = apiserver.watch()
    assert await watch.find() == LeaseState()
    apiserver.now = 2 * KEPT_SECONDS
    await watch.find()
    assert len(apiserver.asked) == 1
    apiserver.open.set()
    assert watch._reading is not None
    await watch._reading
    assert (await watch.find()).is_read
