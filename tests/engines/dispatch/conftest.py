import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from fleethook.cluster.store import Store
from fleethook.engines.dispatch.dispatch_server import build_dispatcher
from fleethook.engines.dispatch.dispatcher import Dispatcher, DispatchResult
from fleethook.engines.dispatch.errors_and_deadline import Deadline
from fleethook.engines.dispatch.webhooks.webhook_defaults_and_compilation import Phase
from fleethook.outbound.calls_and_retries import HookClient
from fleethook.work.threads_and_gc import run_work
from tests.engines.dispatch.builders import request_of
from tests.engines.dispatch.webhook_server import Webhooks, webhooks
from tests.waiting import NET


class Front:
    """A dispatcher over a store, as the HTTP edge uses it."""

    def __init__(self, client: HookClient) -> None:
        self.client = client
        self.observed: list[tuple[str, str]] = []

    def dispatcher(self, store: Store, **rest: Any) -> Dispatcher:
        def observe(hook: Any, *, outcome: str, code: int, seconds: float) -> None:
            self.observed.append((hook.uid, outcome))

        return build_dispatcher(store, self.client, observe=observe, **rest)

    async def dispatch(
        self,
        store: Store,
        review: dict[str, Any],
        *,
        cluster: str,
        phase: Phase = "validating",
        seconds: float = NET,
        clock: Callable[[], float] = time.monotonic,
        **rest: Any,
    ) -> DispatchResult:
        dispatcher = self.dispatcher(store, **rest)
        deadline = Deadline(clock() + seconds, clock)
        return await run_work(dispatcher.dispatch(request_of(review), cluster=cluster, phase=phase, deadline=deadline))


@pytest.fixture
async def front() -> AsyncIterator[Front]:
    async with HookClient(allow_private=True) as client:
        yield Front(client)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Webhooks]:
    async with webhooks(tmp_path) as made:
        yield made
