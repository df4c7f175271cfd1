"""The edge of every route that takes reviews: decodes the review, has it answered, counts it and logs it.

`fleethook.server.reviews.admission_endpoint`, `fleethook.engines.dispatch.review.cluster_endpoint` and
`fleethook.engines.interpret.review.interpret_endpoint` add the decision. A review that needs no waiting is answered by
plain calls. The first part that has to wait returns a coroutine, and another one goes on with its result.
"""

import time
from abc import abstractmethod
from collections.abc import Coroutine, Mapping, Sequence
from types import CoroutineType
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec
from starlette.types import Scope

from fleethook.model.json import JSON
from fleethook.server.log import Line, encode_line
from fleethook.server.protocol.bodies import Reply, RequestError
from fleethook.server.reviews.http_checks import REQUEST_ID, Answered, check_numbers, refuse
from fleethook.server.reviews.records_and_traces import AskedCall, ReportingEndpoint, note_answer
from fleethook.server.reviews.review_codec import BadReviewError, ReviewProblem
from fleethook.tracing.spans_and_otel_variables import find_trace_id
from fleethook.work.threads_and_gc import finish

MAX_ON_LOOP: Final = 32 * 1024
"""Bytes of the largest review that is answered on the event loop. Rendering a hostile Deployment takes 0.5 µs per byte,
so 16 ms; an ordinary UPDATE has 26 KB and takes 0.1 ms."""


class DecodedReview(Protocol):
    """A review with a uid to answer to."""

    @property
    def uid(self) -> str:
        """The uid of the request, which the answer repeats."""

    @property
    def request(self) -> Any:
        """The request; None if only the uid could be read."""

    @property
    def problem(self) -> str:
        """The reason why the request could not be read, ``""`` if it was."""


ReviewT = TypeVar("ReviewT", bound=DecodedReview)
RequestT = TypeVar("RequestT")
CallT = TypeVar("CallT")
VerdictT = TypeVar("VerdictT")


class Received(msgspec.Struct, Generic[ReviewT, CallT], frozen=True):
    """A review that is being answered.

    Attributes:
        review: The review.
        call: The facts of the HTTP request that its answer depends on.
        request_id: The id of the request in log lines.
        is_large: Whether work on the bytes of the review has to run in a thread.
        scope: The HTTP request.
        body: Its body.
        started: The time at which the work on it began, by `time.perf_counter`.
    """

    review: ReviewT
    call: CallT
    request_id: str
    is_large: bool
    scope: Scope
    body: bytes
    started: float


class ReviewEndpoint(ReportingEndpoint, Generic[ReviewT, RequestT, CallT, VerdictT]):
    """Answers the reviews of one route.

    A body without a uid to answer to is refused with HTTP 400 and counts as ``malformed``. Every other review gets an
    answer with its uid, one count and one log line; if its request cannot be read, it counts as ``errored``.
    """

    max_on_loop: int = MAX_ON_LOOP
    """Bytes of the largest review on which all work runs on the event loop."""

    def answer(self, scope: Scope, body: bytes) -> Answered:
        """Answer a review, at once if that needs no waiting; arguments as of `Endpoint.answer`."""
        try:
            answered = self._begin(scope, body) if self._trace is None else self._begin_traced(scope, body, self._trace)
        except RequestError as error:
            return refuse(error)
        return answered if isinstance(answered, Reply) else _refuse_later(answered)

    def _begin(self, scope: Scope, body: bytes) -> Answered:
        started, request_id = time.perf_counter(), scope.get(REQUEST_ID, "")
        call: Any = self._inspect(scope)
        if len(body) > self.max_on_loop or isinstance(call, CoroutineType):
            return self._begin_later(scope, body, request_id, started=started, inspected=call)
        try:
            review = self._decode(body)
        except BadReviewError as error:
            raise self._refuse_malformed(error, scope, body, started=started) from error
        request_id = request_id or review.uid
        return self._go_on(Received(review, call, request_id, False, scope, body, started))

    async def _begin_later(
        self,
        scope: Scope,
        body: bytes,
        request_id: str,
        *,
        started: float,
        inspected: CallT | Coroutine[Any, Any, CallT],
    ) -> Reply:
        call, is_large = await finish(inspected), len(body) > self.max_on_loop
        try:
            if is_large:
                review = await self._off_loop(self._check_and_decode, body, turn=self._find_turn(call))
            else:
                review = self._decode(body)
        except BadReviewError as error:
            raise self._refuse_malformed(error, scope, body, started=started) from error
        return await finish(
            self._go_on(Received(review, call, request_id or review.uid, is_large, scope, body, started))
        )

    def _check_and_decode(self, body: bytes) -> ReviewT:
        if len(body) > MAX_ON_LOOP:
            check_numbers(body)
        return self._decode_large(body)

    def _refuse_malformed(self, problem: BadReviewError, scope: Scope, body: bytes, *, started: float) -> RequestError:
        seconds = self._count("malformed", started=started)
        error = RequestError(400, "BadRequest", str(problem))
        self._record_answer(scope, body, seconds, refuse(error))
        return error

    def _go_on(self, received: Received[ReviewT, CallT]) -> Answered:
        """Decide about a review that has been decoded."""
        review = received.review
        if review.request is None:
            problem = ReviewProblem(f"the review cannot be read: {review.problem}")
            return self._reply(received, self._refuse(received, problem))
        try:
            decided = self._decide(received, review.request)
        except RequestError as error:
            self._record_refused(error, received)
            raise
        return self._reply(received, decided) if isinstance(decided, tuple) else self._finish(received, decided)

    async def _finish(
        self, received: Received[ReviewT, CallT], deciding: Coroutine[Any, Any, tuple[VerdictT, bytes]]
    ) -> Reply:
        try:
            decided = await deciding
        except RequestError as error:
            self._record_refused(error, received)
            raise
        return self._reply(received, decided)

    def _reply(self, received: Received[ReviewT, CallT], decided: tuple[VerdictT, bytes]) -> Reply:
        """Count and log an answered review, and return its answer."""
        review, (verdict, answer) = received.review, decided
        reply = Reply(200, answer)
        operation, outcome = self._classify(review, verdict)
        trace_id = "" if self._trace is None else find_trace_id()
        seconds = self._count(outcome, operation=operation, started=received.started, trace_id=trace_id)
        if trace_id:
            note_answer(self._path, review.uid, operation, outcome, cluster=self._name_cluster(received))
        if self._log is not None:
            line = self._describe(received, verdict, seconds=seconds)
            if trace_id:
                line.trace_id = trace_id
            self._log(encode_line(line))
        if self._record is not None:
            self._record_received(received, seconds, reply, self._list_calls(verdict))
        return reply

    def _record_refused(self, error: RequestError, received: Received[ReviewT, CallT]) -> None:
        self._record_received(received, time.perf_counter() - received.started, refuse(error))

    def _record_received(
        self, received: Received[ReviewT, CallT], seconds: float, reply: Reply, calls: Sequence[AskedCall] = ()
    ) -> None:
        uid, cluster, facts = received.review.uid, self._name_cluster(received), self._list_facts(received)
        self._record_answer(
            received.scope, received.body, seconds, reply, uid=uid, cluster=cluster, facts=facts, calls=calls
        )

    def _name_cluster(self, received: Received[ReviewT, CallT]) -> str:
        """Return the logical cluster of a review, for a recording."""
        del received
        return ""

    def _list_facts(self, received: Received[ReviewT, CallT]) -> Mapping[str, JSON]:
        """Return the facts about an HTTP request that its answer depends on, beside its path."""
        del received
        return {}

    def _list_calls(self, verdict: VerdictT) -> Sequence[AskedCall]:
        """Return the calls that a verdict depended on."""
        del verdict
        return ()

    @abstractmethod
    def _inspect(self, scope: Scope) -> CallT | Coroutine[Any, Any, CallT]:
        """Return the facts of a request that its answer depends on, before the review is decoded.

        Most routes do not wait here, and return the facts, which are never a coroutine.

        Raises:
            RequestError: The caller may not ask.
        """

    @abstractmethod
    def _decode(self, body: bytes) -> ReviewT:
        """Return the review in a body; raises BadReviewError."""

    def _find_turn(self, call: CallT) -> str:
        """Return the consumer whose turns the work on a large review uses, ``""`` for those of the route."""
        del call
        return ""

    def _decode_large(self, body: bytes) -> ReviewT:
        """Return the review in a large body; runs in a thread. Raises BadReviewError."""
        return self._decode(body)

    @abstractmethod
    def _decide(
        self, received: Received[ReviewT, CallT], request: RequestT
    ) -> tuple[VerdictT, bytes] | Coroutine[Any, Any, tuple[VerdictT, bytes]]:
        """Return the verdict on a request, and the answer as JSON, or a coroutine that returns them.

        Raises:
            RequestError: The caller gets an HTTP error instead of a verdict.
        """

    @abstractmethod
    def _refuse(self, received: Received[ReviewT, CallT], problem: ReviewProblem) -> tuple[VerdictT, bytes]:
        """Return the verdict on a review that cannot be answered, and the answer as JSON."""

    @abstractmethod
    def _classify(self, review: ReviewT, verdict: VerdictT, /) -> tuple[str, str]:
        """Return the operation and the outcome under which a review counts."""

    @abstractmethod
    def _describe(self, received: Received[ReviewT, CallT], verdict: VerdictT, *, seconds: float) -> Line:
        """Return the log line of an answered review."""


async def _refuse_later(answering: Coroutine[Any, Any, Reply]) -> Reply:
    try:
        return await answering
    except RequestError as error:
        return refuse(error)
