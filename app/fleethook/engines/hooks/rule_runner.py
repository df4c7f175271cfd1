"""Runs rules beside the event loop: plain functions in threads, coroutines in an event loop of their rule.

Expressions have a limited cost, so those with a low one need no thread. For a function, the event loop waits a moment:
most rules are so short that a message from the thread to the event loop would take longer than they do.
"""

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final

from fleethook.admission.invocation import Invocation, Lookup
from fleethook.admission.rule import Hook
from fleethook.engines.hooks.hooks_settings import HooksSettings
from fleethook.engines.hooks.result_check import adds_no_fault, find_faults, is_harmless
from fleethook.model.admission import AdmissionRequest, Response
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSONObject, as_object
from fleethook.patch import apply
from fleethook.server.reviews.endpoint import MAX_ON_LOOP
from fleethook.work.turns import Worker

MAX_WAITING: Final = 200
"""Maximum calls of one rule that run or wait. More would only wait until kube-apiserver has given up."""
MAX_CHECKED_ON_LOOP: Final = MAX_ON_LOOP // 4
"""Bytes of the largest object with its patch that the loop checks with the schema of Kubernetes: at most 4 µs each."""
PATIENCE: Final = 0.001
"""Seconds for which the event loop waits for a rule. A usual rule takes 0.01 to 0.1 ms. Only the CPU time of an answer
depends on the clock here; the answer is the same."""
CALLS_WITHOUT_PATIENCE: Final = 32
"""Calls of a rule for which the event loop does not wait after it has waited in vain."""


def report_faults(
    rule: Hook, request: AdmissionRequest, answer: Response, find: Callable[[JSONObject], list[str]]
) -> Response:
    """Return the answer, or that of a failed rule if the changes of the answer have faults.

    Args:
        rule: The rule.
        request: Its request.
        answer: Its answer, with a patch.
        find: Returns the faults of an object.
    """
    faults = find(dict(as_object(apply(request.object, answer.patch))))
    # The author of the object may have made mistakes, too.
    present = set(find(dict(as_object(request.object)))) if faults else set()
    added = [one for one in faults if one not in present]
    return rule.fail(f"{rule.place}: its changes are invalid: {'; '.join(added)}") if added else answer


def _accept(request: AdmissionRequest, patch: Sequence[JSONObject], invocation: Invocation) -> bool:
    """Return whether a patch certainly adds no faults to an object."""
    kind = GroupKind(request.kind.group, request.kind.kind)
    if request.sub_resource:
        return True
    if invocation.after is None:  # The object is decoded in part.
        return is_harmless(kind, patch, invocation.document)
    return adds_no_fault(kind, invocation.before, invocation.after, request.old_object or None)


class RuleRunner:
    """Runs rules, so that a slow or hanging one delays neither other rules nor the server."""

    def __init__(self, settings: HooksSettings, *, patience: float = PATIENCE) -> None:
        """Prepare; the first call starts a thread. ``patience`` is in seconds."""
        threads = settings.hook_threads
        self._worker: Final = Worker(threads, share=max(1, threads // 2), name="rules")
        self._settings: Final = settings.hook_settings
        self._loops: Final[dict[str, asyncio.AbstractEventLoop]] = {}
        self._patience: Final = patience
        self._impatient: Final[dict[str, int]] = {}
        self._running: Final[dict[str, int]] = {}
        self._tasks: Final[set[asyncio.Task[Response]]] = set()

    def answer(self, rule: Hook, request: AdmissionRequest, lookup: Lookup) -> Response | Awaitable[Response]:
        """Return the answer of a rule, at once if it is short; after its timeout, the answer of a failed one."""
        size = request.size
        is_large = size > MAX_ON_LOOP
        if size <= (MAX_CHECKED_ON_LOOP if rule.declaration.mutates else MAX_ON_LOOP):
            answer = rule.answer_inline(request, _accept)
            if answer is not None:
                return answer
        if max(self._running.get(rule.lane, 0), self._worker.count(rule.lane)) >= MAX_WAITING:
            return rule.fail(f"{rule.place}: {MAX_WAITING} calls of the rule run or wait already")
        if not rule.is_async:
            patience = 0 if is_large else self._find_patience(rule)
            call = self._worker.start(rule.lane, self._call, rule, request, lookup, patience=patience)
            if call is not None and call.done():
                return call.result()
            if call is not None:
                if patience:
                    self._impatient[rule.lane] = CALLS_WITHOUT_PATIENCE
                return _wait(call, rule)
        return self._wait_for_turn(rule, request, lookup)

    def _find_patience(self, rule: Hook) -> float:
        """Return the seconds for which the event loop waits for a call of a rule."""
        left = self._impatient.get(rule.lane, 0)
        if left:
            self._impatient[rule.lane] = left - 1
        return 0 if left else self._patience

    async def _wait_for_turn(self, rule: Hook, request: AdmissionRequest, lookup: Lookup) -> Response:
        """Return the answer of a coroutine, or of a function whose rule uses all its threads."""
        self._running[rule.lane] = self._running.get(rule.lane, 0) + 1
        task = asyncio.create_task(self._run(rule, request, lookup))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        done, _ = await asyncio.wait({task}, timeout=rule.declaration.timeout)
        if not done:
            # This ends a coroutine, and drops a waiting call. Nothing can end a running function.
            task.cancel()
            return _time_out(rule)
        return task.result()

    async def _run(self, rule: Hook, request: AdmissionRequest, lookup: Lookup) -> Response:
        try:
            if rule.is_async:
                work = rule.answer_async(request, lookup=lookup, settings=self._settings)
                answer = await self._run_in_loop(rule.lane, work)
                return (
                    answer
                    if not answer.patch
                    else await self._worker.run(rule.lane, self._check, rule, request, answer)
                )
            return await self._worker.run(rule.lane, self._call, rule, request, lookup)
        finally:
            self._running[rule.lane] -= 1

    def _call(self, rule: Hook, request: AdmissionRequest, lookup: Lookup) -> Response:
        return self._check(rule, request, rule.answer(request, lookup=lookup, settings=self._settings))

    def _check(self, rule: Hook, request: AdmissionRequest, answer: Response) -> Response:
        """Return the answer, or that of a failed rule if kube-apiserver would refuse or drop a part of the changes."""
        if not answer.patch or request.sub_resource:
            return answer
        before, old = request.object, request.old_object or None
        kind = GroupKind(request.kind.group, request.kind.kind)
        if adds_no_fault(kind, before, apply(before, answer.patch), old):
            return answer
        return report_faults(rule, request, answer, lambda document: find_faults(kind, document, old))

    async def _run_in_loop(self, lane: str, work: Coroutine[Any, Any, Response]) -> Response:
        """Run a coroutine in the event loop of its rule: one that blocks it delays only itself."""
        loop = self._loops.get(lane)
        if loop is None or loop.is_closed():  # The rule may have stopped its loop.
            loop = self._loops[lane] = asyncio.new_event_loop()
            threading.Thread(target=_run_forever, args=(loop,), name=f"rule-{lane}", daemon=True).start()
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))

    def forget(self, rule: Hook) -> None:
        """End the event loop of a rule that another version has replaced, after its last calls."""
        self._impatient.pop(rule.lane, None)
        if loop := self._loops.pop(rule.lane, None):
            with contextlib.suppress(RuntimeError):  # The loop is closed already.
                loop.call_soon_threadsafe(loop.call_later, rule.declaration.timeout, loop.stop)

    def close(self) -> None:
        """End the event loops and the threads; running functions end by themselves."""
        for task in self._tasks:
            task.cancel()
        for loop in self._loops.values():
            with contextlib.suppress(RuntimeError):  # The loop is closed already.
                loop.call_soon_threadsafe(loop.stop)
        self._worker.close()


async def _wait(call: asyncio.Future[Response], rule: Hook) -> Response:
    """Return the answer of a call that runs, as the usual call does: without a task of its own."""
    timer = asyncio.get_running_loop().call_later(rule.declaration.timeout, _give_up, call, rule)
    try:
        return await call
    finally:
        timer.cancel()


def _give_up(call: asyncio.Future[Response], rule: Hook) -> None:
    if not call.done():
        call.set_result(_time_out(rule))


def _time_out(rule: Hook) -> Response:
    return rule.fail(f"{rule.place}: no answer after {rule.declaration.timeout} s")


def _run_forever(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        for task in asyncio.all_tasks(loop):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                loop.run_until_complete(task)
        loop.close()
