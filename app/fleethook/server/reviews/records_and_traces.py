"""The records, traces and counts of answered reviews: the base class of endpoints that report them."""

import time
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Literal, NamedTuple

from starlette.types import Scope

from fleethook.model.admission import Response
from fleethook.model.json import JSON
from fleethook.server.log import LogSink
from fleethook.server.protocol.bodies import Reply, RequestError
from fleethook.server.reviews.http_checks import Answered, Endpoint
from fleethook.server.reviews.review_codec import Decoded
from fleethook.tracing.spans_and_otel_variables import CURRENT, Attributes, StartTrace, begin_in_span

CallKind = Literal["webhook", "script", "read"]


class AskedCall(NamedTuple):
    """The answer of a webhook or a script, or a live read, on which a decision depended.

    Attributes:
        kind: The kind of the source.
        name: The name of the webhook or the script, or the kind of the object or question that was read.
        key: Identifies a call of the review. Calls of one kind with equal keys are in their order.
        configuration: The configuration or customization of the webhook or script.
        cluster: The logical cluster of the configuration, or of the object that was read.
        digest: The SHA-256 digest of a script.
        answer: The answer, as a value that `msgspec.json.encode` accepts; None if the call failed.
        error: The reason why there is no answer, ``""`` if there is one.
        failure: The facts about an error that decide how it is handled.
    """

    kind: CallKind
    name: str
    key: str
    configuration: str = ""
    cluster: str = ""
    digest: str = ""
    answer: Any = None
    error: str = ""
    failure: Mapping[str, JSON] | None = None


class AnsweredReview(NamedTuple):
    """A review and its answer.

    Attributes:
        time: The time of the answer, in seconds since the epoch.
        route: The route's template.
        path: The path as requested, percent-encoded.
        query: The query as requested, ``b""`` without one.
        cluster: The logical cluster in which the review was decided, ``""`` for a plain cluster.
        seconds: From the review to its answer.
        status: The HTTP status.
        caller: Facts about the HTTP request that the answer depends on.
        uid: The uid of the review, ``""`` if it has none.
        body: The body as received.
        answer: The body as sent.
        calls: The answers of webhooks and scripts, and the live reads, that the answer depended on.
    """

    time: float
    route: str
    path: bytes
    query: bytes
    cluster: str
    seconds: float
    status: int
    caller: Mapping[str, JSON]
    uid: str
    body: bytes
    answer: bytes
    calls: Sequence[AskedCall]


RecordReview = Callable[[AnsweredReview], None]
"""Takes answered reviews. It returns at once and raises nothing: it is called on the event loop."""


class RecordSettingError(ValueError):
    """A setting of the recorder cannot be used."""


_NO_FACTS: Final[Mapping[str, JSON]] = {}


class ReportingEndpoint(Endpoint):
    """An endpoint that counts, logs, traces and records its answers."""

    def __init__(
        self,
        path: str,
        *,
        log: LogSink | None,
        record: RecordReview | None = None,
        trace: StartTrace | None = None,
        **rest: Any,
    ) -> None:
        """Prepare.

        Args:
            path: The path of the route.
            log: Takes a line for each review; None to log nothing.
            record: Takes each review that was answered, or refused because of its content; None to record nothing.
            trace: Starts the span of a review; None to trace nothing.
            rest: As in `Endpoint`.
        """
        super().__init__(path, **rest)
        self._log: Final = log
        self._record: Final = record
        self._trace: Final = trace
        self._span_name: Final = f"POST {path}"

    @abstractmethod
    def _begin(self, scope: Scope, body: bytes) -> Answered:
        """Decode a review and have it answered; both this function and the coroutine raise RequestError."""

    def _begin_traced(self, scope: Scope, body: bytes, trace: StartTrace) -> Answered:
        """Begin the work on a review in a span of its own."""
        span = trace(self._span_name, scope["headers"])
        return begin_in_span(span, partial(self._begin, scope, body), explain=_explain_refusal)

    def _count(self, outcome: str, *, operation: str = "", started: float, trace_id: str = "") -> float:
        """Count a request and return the seconds since ``started``."""
        seconds = time.perf_counter() - started
        self.metrics.count_review(self._path, operation, outcome, seconds=seconds, trace_id=trace_id)
        return seconds

    def _record_answer(
        self,
        scope: Scope,
        body: bytes,
        seconds: float,
        reply: Reply,
        *,
        uid: str = "",
        cluster: str = "",
        facts: Mapping[str, JSON] = _NO_FACTS,
        calls: Sequence[AskedCall] = (),
    ) -> None:
        """Record an answer, if answers are recorded; the arguments are those of `AnsweredReview`."""
        if self._record is not None:
            # By position, because names take 20 % more time.
            self._record(
                AnsweredReview(
                    time.time(), self._path, scope["raw_path"], scope["query_string"], cluster, seconds,
                    reply.status, facts, uid, body, reply.body, calls,
                )
            )  # fmt: skip


def note_answer(route: str, uid: str, operation: str, outcome: str, *, cluster: str) -> None:
    """Add the facts about an answered review to the current span."""
    span = CURRENT.get()
    if span is not None:
        span.note(
            {
                "http.request.method": "POST",
                "http.route": route,
                "http.response.status_code": 200,
                "fleethook.review.uid": uid,
                "fleethook.review.operation": operation,
                "fleethook.review.outcome": outcome,
                "fleethook.cluster": cluster,
            }
        )


def _explain_refusal(error: BaseException) -> Attributes:
    if not isinstance(error, RequestError):
        return {}
    return {"http.request.method": "POST", "http.response.status_code": error.code}


def find_outcome(response: Response) -> str:
    """Return the outcome of a response: ``allowed``, ``patched``, ``denied`` or ``errored``."""
    if response.allowed:
        return "patched" if response.patch else "allowed"
    # A status comes from a webhook or from an apiserver's rules, which may give any code and reason.
    is_denial = response.code < 500 if response.status is not None else response.reason in ("Forbidden", "Invalid")
    return "denied" if is_denial else "errored"


def classify(review: Decoded, response: Response) -> tuple[str, str]:
    """Return the operation and the outcome under which a review counts.

    A review is ``denied`` if a rule or a webhook refuses its object. It is ``errored`` if the server cannot answer it.
    """
    operation = review.request.operation if review.request else ""
    return operation, find_outcome(response)
