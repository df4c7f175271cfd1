"""The edge of every route that takes reviews: decodes the review, has it answered, counts it and logs it.

`fleethook.server.reviews.admission_endpoint`, `fleethook.engines.dispatch.review.dispatch_endpoint` and
`fleethook.engines.interpret.review.interpret_endpoint` add the decision. A review that needs no waiting is answered by
plain calls. The first part that has to wait returns a coroutine, and another one goes on with its result.
"""

import logging
import time
from abc import abstractmethod
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from types import CoroutineType
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar, cast

import msgspec
from starlette.types import Scope

from fleethook.model.json import JSON
from fleethook.server.log import Line, LogSink, encode_line
from fleethook.server.metrics import Metrics
from fleethook.server.protocol.bodies import BodyBudget, Reply, RequestError
from fleethook.server.reviews.codec import BadReviewError, encode_error
from fleethook.server.reviews.endpoint import MAX_ON_LOOP, Answered, Endpoint, check_numbers
from fleethook.server.reviews.recording import AnsweredReview, AskedCall, RecordReview
from fleethook.tracing.spans import (
    CURRENT,
    Span,
    StartTrace,
    describe_failure,
    enter_span,
    find_trace_id,
)
from fleethook.work.threads import T, Worker, finish

_log: Final = logging.getLogger(__name__)
_NO_FACTS: Final[Mapping[str, JSON]] = {}


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


class Received(NamedTuple, Generic[ReviewT, CallT]):
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


class ReviewProblem(NamedTuple):
    """The reason why a review cannot be answered.

    Attributes:
        message: The text for the caller.
        code: The HTTP status that the answer carries.
        reason: The reason of a ``metav1.Status``.
    """

    message: str
    code: int = 400
    reason: str = "BadRequest"


class ReviewEndpoint(Endpoint, Generic[ReviewT, RequestT, CallT, VerdictT]):
    """Answers the reviews of one route.

    A body without a uid to answer to is refused with HTTP 400 and counts as ``malformed``. Every other review gets an
    answer with its uid, one count and one log line; if its request cannot be read, it counts as ``errored``.
    """

    max_on_loop: int = MAX_ON_LOOP
    """Bytes of the largest review on which all work runs on the event loop."""

    def __init__(  # noqa: PLR0913 - as `Make` in admission_endpoint.py
        self,
        path: str,
        *,
        metrics: Metrics,
        body_limit: int,
        log: LogSink | None,
        known_clients_only: bool = False,
        worker: Worker | None = None,
        bodies: BodyBudget | None = None,
        record: RecordReview | None = None,
        trace: StartTrace | None = None,
    ) -> None:
        """Prepare; arguments as in `Endpoint`, and three more.

        ``log`` takes a line for each review; None to log nothing. ``record`` takes each review that was answered, or
        refused because of its content; None to record nothing. ``trace`` starts the span of a review; None to trace
        nothing.
        """
        super().__init__(
            path,
            metrics=metrics,
            body_limit=body_limit,
            known_clients_only=known_clients_only,
            worker=worker,
            bodies=bodies,
        )
        self._log: Final = log
        self._record: Final = record
        self._trace: Final = trace
        self._span_name: Final = f"POST {path}"

    def _answer(self, scope: Scope, body: bytes, request_id: str) -> Answered:
        if self._trace is None:
            return self._begin(scope, body, request_id)
        span = self._trace(self._span_name, scope["headers"])
        return begin_in_span(span, partial(self._begin, scope, body, request_id))

    def _begin(self, scope: Scope, body: bytes, request_id: str) -> Answered:
        started = time.perf_counter()
        call = self._inspect(scope)
        if len(body) > self.max_on_loop or isinstance(call, CoroutineType):
            return self._begin_later(scope, body, request_id, started=started, inspected=call)
        try:
            review = self._decode(body)
        except BadReviewError as error:
            raise self._refuse_malformed(error, scope, body, started=started) from error
        request_id = request_id or review.uid
        return self._go_on(Received(review, cast("CallT", call), request_id, False, scope, body, started))

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
        self._record_refusal(error, scope, body, seconds=seconds)
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
        operation, outcome = self._classify(review, verdict)
        trace_id = "" if self._trace is None else find_trace_id()
        seconds = self._count(outcome, operation=operation, started=received.started, trace_id=trace_id)
        if trace_id:
            self._note_answer(received, operation, outcome)
        if self._log is not None:
            line = self._describe(received, verdict, seconds=seconds)
            if trace_id:
                line.trace_id = trace_id
            self._log(encode_line(line))
        if self._record is not None:
            # By position, because names take 20 % more time.
            self._record(
                AnsweredReview(
                    time.time(), self._path, received.scope["raw_path"], received.scope["query_string"],
                    self._name_cluster(received), seconds, 200, self._list_facts(received), review.uid,
                    received.body, answer, self._list_calls(verdict),
                )
            )  # fmt: skip
        return Reply(200, answer)

    def _note_answer(self, received: Received[ReviewT, CallT], operation: str, outcome: str) -> None:
        """Add the facts about an answered review to its exported span."""
        span = CURRENT.get()
        if span is not None:
            span.note(
                {
                    "http.request.method": "POST",
                    "http.route": self._path,
                    "http.response.status_code": 200,
                    "fleethook.review.uid": received.review.uid,
                    "fleethook.review.operation": operation,
                    "fleethook.review.outcome": outcome,
                    "fleethook.cluster": self._name_cluster(received),
                }
            )

    def _record_refused(self, error: RequestError, received: Received[ReviewT, CallT]) -> None:
        seconds = time.perf_counter() - received.started
        self._record_refusal(error, received.scope, received.body, seconds=seconds, received=received)

    def _record_refusal(
        self,
        error: RequestError,
        scope: Scope,
        body: bytes,
        *,
        seconds: float,
        received: Received[ReviewT, CallT] | None = None,
    ) -> None:
        """Record a review that gets an HTTP error; ``received`` is None if it could not be decoded."""
        if self._record is None:
            return
        answer = encode_error(error.code, error.reason, str(error))
        uid = "" if received is None else received.review.uid
        review = AnsweredReview(
            time=time.time(),
            route=self._path,
            path=scope["raw_path"],
            query=scope["query_string"],
            cluster="" if received is None else self._name_cluster(received),
            seconds=seconds,
            status=error.code,
            caller={} if received is None else self._list_facts(received),
            uid=uid,
            body=body,
            answer=answer,
            calls=(),
        )
        self._record(review)

    def _name_cluster(self, received: Received[ReviewT, CallT]) -> str:
        """Return the logical cluster of a review, for a recording."""
        del received
        return ""

    def _list_facts(self, received: Received[ReviewT, CallT]) -> Mapping[str, JSON]:
        """Return the facts about an HTTP request that its answer depends on, beside its path."""
        del received
        return _NO_FACTS

    def _list_calls(self, verdict: VerdictT) -> Sequence[AskedCall]:
        """Return the calls that a verdict depended on."""
        del verdict
        return ()

    def _count(self, outcome: str, *, operation: str = "", started: float, trace_id: str = "") -> float:
        """Count a request and return the seconds since ``started``."""
        seconds = time.perf_counter() - started
        self.metrics.count_review(self._path, operation, outcome, seconds=seconds, trace_id=trace_id)
        return seconds

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
    def _classify(self, review: ReviewT, verdict: VerdictT) -> tuple[str, str]:
        """Return the operation and the outcome under which a review counts."""

    @abstractmethod
    def _describe(self, received: Received[ReviewT, CallT], verdict: VerdictT, *, seconds: float) -> Line:
        """Return the log line of an answered review."""


def begin_in_span(span: Span, begin: Callable[[], T | Coroutine[Any, Any, T]]) -> T | Coroutine[Any, Any, T]:
    """Begin work while a span is the current one, and end the span with the work.

    The first part runs in the context of a connection, which other reviews share. So the span is not the current one
    between the first part and the rest.

    Args:
        span: The span.
        begin: Returns the result, or a coroutine that goes on with the work and returns the result.

    Raises:
        Exception: The work has failed before it waited for anything.
    """
    token = CURRENT.set(span)
    try:
        begun = begin()
    except BaseException as error:
        _end_failed(span, error)
        raise
    finally:
        CURRENT.reset(token)
    if isinstance(begun, CoroutineType):
        return _finish_in_span(span, begun)
    span.end()
    return begun


async def _finish_in_span(span: Span, begun: Coroutine[Any, Any, T]) -> T:
    with enter_span(span):
        try:
            return await begun
        except RequestError as error:
            _note_refusal(span, error)
            raise


def _end_failed(span: Span, error: BaseException) -> None:
    if isinstance(error, RequestError):
        _note_refusal(span, error)
    span.end(describe_failure(error))


def _note_refusal(span: Span, error: RequestError) -> None:
    span.note({"http.request.method": "POST", "http.response.status_code": error.code})


def explain_failure(error: Exception, *, route: str, uid: str) -> ReviewProblem:
    """Return the problem of a review on which its handler failed; a defect is logged.

    Every failure needs an answer with the uid: a dropped connection would leave the caller with a timeout and without
    a reason.
    """
    if isinstance(error, msgspec.DecodeError | UnicodeDecodeError):
        return ReviewProblem(f"the object under review is not JSON: {error}")
    if isinstance(error, RecursionError):
        return ReviewProblem("the object under review is nested too deep")
    _log.error("review handler failed", exc_info=error, extra={"fields": {"route": route, "uid": uid}})
    return ReviewProblem(f"fleethook failed to answer; its log has the reason under uid {uid}", 500, "InternalError")
