"""Matching one request among many hooks, without the calls."""

import statistics
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from benchmarks.engines.dispatch_worlds import CONSUMER, HOOKS, RESOURCES, SIZES, Case, cases
from fleethook.engines.dispatch.call.webhook_call_and_audit import Audit
from fleethook.engines.dispatch.dispatcher import Dispatcher
from fleethook.engines.dispatch.errors_and_deadline import Deadline
from fleethook.engines.dispatch.match.selectors_and_decision import CallDecider
from fleethook.work.threads_and_gc import run_work, settle_garbage_collector
from tests.engines.dispatch.builders import request_of

Found = dict[tuple[str, str, int], list[float]]
"""Microseconds by case, way and number of hooks; a value for each round."""

CHANGED = "the first after one configuration changed"
MATCH, LOOK_UP = "all up to the calls", "owner and rules only"


async def _match(dispatcher: Dispatcher, request: Any) -> int:
    """Do all work before the calls; return the number of calls."""
    target = await run_work(dispatcher.find_target(request, cluster=CONSUMER, phase="mutating"))
    context = await dispatcher.build_context(target, Deadline(time.monotonic() + 30), Audit(), [])
    decider = CallDecider(context)
    versioned = [
        await decider.build_versioned(one, target.attributes)
        for one in target.relevant
        if await decider.should_call(one, target.attributes)
    ]
    return len(versioned)


async def _look_up(dispatcher: Dispatcher, request: Any) -> int:
    """Find the hooks whose rules match, without selectors and conditions."""
    return len((await run_work(dispatcher.find_target(request, cluster=CONSUMER, phase="mutating"))).relevant)


async def _cpu(dispatcher: Dispatcher, reviews: Sequence[Any], measured: "Step" = _match) -> float:
    """Return microseconds for each review, including the decoding of objects but not of envelopes."""
    requests = [request_of(one) for one in reviews]
    started = time.process_time()
    for request in requests:
        assert await measured(dispatcher, request) == HOOKS
    return (time.process_time() - started) / len(requests) * 1e6


Step = Callable[[Dispatcher, Any], Coroutine[Any, Any, int]]


_WAYS: dict[str, Step] = {MATCH: _match, LOOK_UP: _look_up}


class Matching:
    """The worlds, with the position of each in its requests."""

    def __init__(self, requests: int) -> None:
        self._requests = requests
        self.cases = cases()
        self._taken = dict.fromkeys((case.title for case in self.cases), 0)
        self.found: Found = {}
        settle_garbage_collector()

    async def warm(self) -> None:
        """Fill the caches: schemas and conditions."""
        for case in self.cases:
            for world in case.worlds:
                await _cpu(world.dispatcher, case.reviews[-RESOURCES:])

    async def round(self) -> None:
        """Measure every variant in every world."""
        for case in self.cases:
            for title, step in _WAYS.items():
                reviews = self._next(case)
                for world in case.worlds:
                    self._note(case.title, title, world.count, await _cpu(world.dispatcher, reviews, step))
        first = self.cases[0]
        for world in first.worlds:
            world.change()
            self._note(first.title, CHANGED, world.count, await _cpu(world.dispatcher, first.reviews))

    def _note(self, title: str, way: str, count: int, value: float) -> None:
        self.found.setdefault((title, way, count), []).append(value)

    def _next(self, case: Case) -> list[Any]:
        # Each variant continues with the requests after the former variant's.
        first = self._taken[case.title]
        self._taken[case.title] += self._requests
        return [case.reviews[(first + number) % len(case.reviews)] for number in range(self._requests)]

    def changed_per_hook(self) -> dict[int, float]:
        """Return how many microseconds each hook costs after a change, by the number of hooks."""
        title = self.cases[0].title
        warm = statistics.median(self.found[title, MATCH, SIZES[0]])
        return {count: (statistics.median(self.found[title, CHANGED, count]) - warm) / count for count in SIZES}
