"""The route of a rule, and its calls: plain functions in threads, coroutines in an event loop, inline ones at once."""

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Final, NoReturn, TypeVar

from fleethook.admission.mismatch_and_pod_templates import find_rule_mismatch
from fleethook.admission.rule_call import Decided, ServedRule, run_now
from fleethook.admission.store_parameter import Lookup
from fleethook.cluster.partial_and_stale_objects import StaleError
from fleethook.cluster.registration.paths import UNKNOWN_RULE
from fleethook.cluster.registration.rule_webhooks_and_outage import PROBE_ANNOTATION, PROBE_ANSWER
from fleethook.engines.rules.consumer_workspaces import Consumers, list_stable, make_consumer_route
from fleethook.fair_limits import CallLimit
from fleethook.model.admission import AdmissionRequest, Response, allowed, denied, errored
from fleethook.model.json import as_object
from fleethook.server.engine_server import ServerContext
from fleethook.server.reviews.admission_endpoint import ReviewRoute, make_admission_route
from fleethook.server.reviews.review_endpoint import MAX_ON_LOOP
from fleethook.work.threads_and_gc import DaemonThreads

T = TypeVar("T")

THREADS: Final = 4
"""Calls of one rule that run at the same time. An event loop runs all calls of a coroutine."""
MAX_WAITING: Final = 200
"""Calls of one rule that run or wait. More would only wait until kube-apiserver has given up."""

MAX_OF_WORKSPACE: Final = MAX_WAITING // 4
"""Those of one workspace of kcp."""


def make_rule_route(
    path: str, runners: Mapping[str, "RuleRunner"], context: ServerContext, consumers: Consumers | None
) -> ReviewRoute:
    """Return the route of a rule, which the newest runner of its path answers.

    A rule that the files lack decides until its webhook is removed: a renamed rule would have a gap otherwise, because
    the webhook of its new name is registered later.
    """
    rule, cluster = runners[path].rule, context.cluster
    local = Lookup(lambda kind, where: list_stable(context.store, where, kind))

    def answer(request: AdmissionRequest, caller: str = "") -> Response | Awaitable[Response]:
        runner = runners[path]
        # A rule that sees no objects could decide wrongly.
        missing = "" if cluster is None else cluster.source.missing(runner.rule.followed)
        lookup = local if consumers is None else consumers.make_lookup(caller, request)
        return runner.answer(request, lookup, missing)

    summary = f"{'Change' if rule.declaration.mutates else 'Validate'} objects by the rule {rule.name}"
    if consumers is not None:
        return make_consumer_route(path, summary, consumers=consumers, answer=answer)
    return make_admission_route(path, summary, answer, restored=True)


def make_unknown_route() -> ReviewRoute:
    """Return the route for the reviews of rules that this replica does not have.

    While replicas start or reload their files, kube-apiserver may send reviews for rules of another replica. This
    replica cannot decide about them, so its answer is an error, and the failure policy decides.
    """
    summary = "Leave objects for which this replica has no rule to the failure policy"
    return make_admission_route(UNKNOWN_RULE, summary, _refuse_unknown, prepare=_refuse_unknown)


def _refuse_unknown(request: AdmissionRequest) -> NoReturn:
    """Raise StaleError: a response with a verdict would decide in place of the failure policy."""
    raise StaleError(
        f"this replica has no such rule for {request.kind.kind}: its files are older or newer than those of the "
        "replica that registered the webhook"
    )


class RuleRunner:
    """Runs the calls of one version of a rule, so that calls that hang delay neither other rules nor the server.

    Attributes:
        rule: The rule.
        problem: Why a newer version of its file is not served; ``""`` if this is the newest.
    """

    def __init__(self, rule: ServedRule, settings: Mapping[str, Any]) -> None:
        """Prepare; the first call starts a thread. ``settings`` are the values of the parameter of this name."""
        self.rule: Final = rule
        self.problem = ""
        self._settings: Final = settings
        self._threads: Final = DaemonThreads(THREADS, f"rule-{rule.name}")
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting = 0
        self._shares: Final = CallLimit(MAX_WAITING if rule.is_async else THREADS)

    def answer(self, request: AdmissionRequest, lookup: Lookup, missing: str = "") -> Response | Awaitable[Response]:
        """Return the answer of the rule, at once if it is inline; after its timeout, the answer of a failed one.

        Args:
            request: The request.
            lookup: Finds other objects.
            missing: Why other objects cannot be found; ``""`` if they can.
        """
        rule = self.rule
        if request.dry_run and (asked := _read_probe(request)):
            text = f"{PROBE_ANSWER}{f': {self.problem}' if self.problem else ''}"
            return denied(text) if asked == rule.name else allowed()
        if reason := find_rule_mismatch(rule.declaration, request):
            # The registered webhook is older or newer than the rule, so the failure policy decides.
            problem = f"the rule {rule.name} does not decide about this request: {reason}"
            return rule.fail(problem) if rule.declaration.failure_policy == "Ignore" else errored(problem)
        is_inline = rule.declaration.inline and request.size <= MAX_ON_LOOP
        if problem := missing or ("" if is_inline else self._describe_overload(lookup.cluster)):
            return rule.fail(f"{rule.place}: {problem}")
        decided = run_now(rule.ask, request, lookup, self._settings) if is_inline else None
        if decided and (not rule.is_judged(request, decided) or self._describe_overload(lookup.cluster)):
            return decided[0]
        return self._wait(request, lookup, decided)

    def _describe_overload(self, cluster: str) -> str:
        if self._waiting >= MAX_WAITING:
            return f"{MAX_WAITING} calls of the rule run or wait already"
        if self._shares.count(cluster) >= MAX_OF_WORKSPACE:
            return f"{MAX_OF_WORKSPACE} calls of the rule for this workspace run or wait already"
        return ""

    def _start(self, ask: Callable[..., Coroutine[Any, Any, T]], *arguments: Any) -> asyncio.Future[T]:
        if self.rule.is_async:
            return asyncio.wrap_future(asyncio.run_coroutine_threadsafe(ask(*arguments), self._find_loop()))
        return self._threads.run(run_now, ask, *arguments)

    async def _wait(self, request: AdmissionRequest, lookup: Lookup, decided: Decided | None) -> Response:
        """Ask the rule, unless it has decided, and judge its refusal; the refusal stands if there is no time for that.

        At the end of the time, a coroutine ends, a call that waits is dropped, a function ends by itself, and no
        further question is asked.
        """
        over, rule = threading.Event(), self.rule
        self._waiting += 1
        try:
            async with asyncio.timeout(rule.declaration.timeout), self._hold_share(lookup.cluster):
                if decided is None:
                    decided = await self._start(rule.ask, request, lookup, self._settings)
                if not rule.is_judged(request, decided):
                    return decided[0]
                return await self._start(rule.judge, request, decided[0], lookup, self._settings, over.is_set)
        except TimeoutError:
            return decided[0] if decided else rule.fail(f"{rule.place}: no answer after {rule.declaration.timeout} s")
        finally:
            over.set()
            self._waiting -= 1

    def _hold_share(self, cluster: str) -> contextlib.AbstractAsyncContextManager[object]:
        """Return the context in which a workspace of kcp uses a thread, and leaves others to other workspaces."""
        return self._shares.hold(cluster) if cluster else contextlib.nullcontext()

    def _find_loop(self) -> asyncio.AbstractEventLoop:
        """Return the event loop of the rule: a coroutine that blocks it delays only itself."""
        if self._loop is None or self._loop.is_closed():  # The rule may have stopped its loop.
            self._loop = asyncio.new_event_loop()
            self._threads.run(_run_forever, self._loop)
        return self._loop

    def close(self, *, after: float = 0) -> None:
        """End the event loop after some seconds. The threads end with this object, functions by themselves."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # The loop is closed already.
                self._loop.call_soon_threadsafe(self._loop.call_later, after, self._loop.stop)


def _read_probe(request: AdmissionRequest) -> str:
    """Return the rule that `fleethook doctor` asks for, ``""`` for another request."""
    if PROBE_ANNOTATION.encode() not in bytes(request.object_raw):
        return ""
    annotations = as_object(as_object(as_object(request.object).get("metadata")).get("annotations"))
    return str(annotations.get(PROBE_ANNOTATION) or "")


def _run_forever(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        for task in asyncio.all_tasks(loop):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                loop.run_until_complete(task)
        loop.close()
