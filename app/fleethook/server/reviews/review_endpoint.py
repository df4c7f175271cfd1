"""The edge of every route that takes reviews: decodes the review, has it answered, counts it and logs it.

`fleethook.server.reviews.admission_endpoint`, `fleethook.engines.dispatch.review.dispatch_endpoint` and
`fleethook.engines.interpret.review.interpret_endpoint` add the decision. The work pauses and waits
(`fleethook.work.threads`), so that the protocol answers a review that needs no waiting at once, and the ASGI
app answers every other review by the same code.
"""

import logging
import time
from abc import abstractmethod
from collections.abc import Awaitable, Coroutine, Generator, Mapping, Sequence
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

import msgspec
from starlette.types import Scope

from fleethook.model.json import JSON
from fleethook.server.log_format import Line, LogSink, encode_line
from fleethook.server.metrics import Metrics
from fleethook.server.protocol.request_body import BodyBudget, RequestError
from fleethook.server.reviews.codec import BadReviewError, encode_error
from fleethook.server.reviews.endpoint import MAX_ON_LOOP, Answer, Endpoint
from fleethook.server.reviews.recording import AnsweredReview, AskedCall, RecordReview
from fleethook.tracing.spans import (
    CURRENT,
    Span,
    StartTrace,
    describe_failure,
    enter_span,
    find_trace_id,
)
from fleethook.work.threads import Done, T, Work, Worker, begin

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
        request_id: The id of the request in log lines and exemplars.
        is_large: Whether work on the bytes of the review has to run in a thread.
    """

    review: ReviewT
    call: CallT
    request_id: str
    is_large: bool


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

    def _begin(self, body: bytes, request_id: str, scope: Scope) -> Answer | Awaitable[Answer]:
        work = self._answer(body, request_id, scope)
        if self._trace is None:
            begun = begin(work)
        else:
            span = self._trace(self._span_name, scope["headers"])
            begun = begin_in_span(span, _note_refusal(span, work))
        return begun.result if isinstance(begun, Done) else begun

    def _answer(self, body: bytes, request_id: str, scope: Scope) -> Work[Answer]:
        started = time.perf_counter()
        inspected = self._inspect(scope)
        call = (yield from inspected) if isinstance(inspected, Generator) else inspected
        is_large = len(body) > self.max_on_loop
        try:
            if is_large:
                review = yield self._off_loop(self._decode_large, body, turn=self._find_turn(call))
            else:
                review = self._decode(body)
        except BadReviewError as error:
            seconds = self._count("malformed", started=started, request_id=request_id)
            refusal = RequestError(400, "BadRequest", str(error))
            self._record_refusal(refusal, body, scope, seconds=seconds)
            raise refusal from error
        received = Received(review, call, request_id or review.uid, is_large)
        request: RequestT | None = review.request
        if request is None:
            problem = ReviewProblem(f"the review cannot be read: {review.problem}")
            verdict, answer = self._refuse(received, problem)
        else:
            try:
                verdict, answer = yield from self._decide(received, request)
            except RequestError as error:
                self._record_refusal(error, body, scope, seconds=time.perf_counter() - started, received=received)
                raise
        operation, outcome = self._classify(received.review, verdict)
        trace_id = "" if self._trace is None else find_trace_id()
        seconds = self._count(
            outcome, operation=operation, started=started, request_id=received.request_id, trace_id=trace_id
        )
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
                    time.time(), self._path, scope["raw_path"], scope["query_string"],
                    self._name_cluster(received), seconds, 200, self._list_facts(received), review.uid,
                    body, answer, self._list_calls(verdict),
                )
            )  # fmt: skip
        return 200, answer

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

    def _record_refusal(
        self,
        error: RequestError,
        body: bytes,
        scope: Scope,
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

    def _count(
        self, outcome: str, *, operation: str = "", started: float, request_id: str, trace_id: str = ""
    ) -> float:
        """Count a request and return the seconds since ``started``."""
        seconds = time.perf_counter() - started
        self._metrics.count_review(
            self._path, operation, outcome, seconds=seconds, request_id=request_id, trace_id=trace_id
        )
        return seconds

    @abstractmethod
    def _inspect(self, scope: Scope) -> CallT | Work[CallT]:
        """Return the facts of a request that its answer depends on, before the review is decoded.

        Most routes do not wait here. They return the facts instead of work, because a generator takes time. Facts are
        never a generator.

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
    def _decide(self, received: Received[ReviewT, CallT], request: RequestT) -> Work[tuple[VerdictT, bytes]]:
        """Return the verdict on a request, and the answer as JSON.

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


def _note_refusal(span: Span, work: Work[Answer]) -> Work[Answer]:
    """Answer a review, and add the status of a refusal to its span."""
    try:
        return (yield from work)
    except RequestError as error:
        span.note({"http.request.method": "POST", "http.response.status_code": error.code})
        raise


def begin_in_span(span: Span, work: Work[T]) -> Done[T] | Coroutine[Any, Any, T]:
    """Go on with work as `begin` does, while a span is the current one, and end the span with the work.

    The first part runs in the context of a connection, which other reviews share. So the span is not the current one
    between the first part and the rest.

    Args:
        span: The span.
        work: The work.

    Returns:
        The result, or a coroutine that goes on with the work and returns the result.

    Raises:
        Exception: The work has failed before it waited for anything.
    """
    token = CURRENT.set(span)
    try:
        begun = begin(work)
    except BaseException as error:
        span.end(describe_failure(error))
        raise
    finally:
        CURRENT.reset(token)
    if isinstance(begun, Done):
        span.end()
        return begun
    return _finish_in_span(span, begun)


async def _finish_in_span(span: Span, begun: Coroutine[Any, Any, T]) -> T:
    with enter_span(span):
        return await begun


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
