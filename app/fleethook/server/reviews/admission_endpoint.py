"""Admission reviews that a handler of this server answers.

`fleethook.engines.dispatch.review.dispatch_endpoint` has those that webhooks answer.
"""

from collections.abc import Awaitable, Callable, Generator
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

import msgspec
from starlette.types import Scope

from fleethook.cluster.store.store import StaleError
from fleethook.model.admission import AdmissionRequest, AdmissionReview, Response, cluster_conflict, errored
from fleethook.model.gvk import GroupKind
from fleethook.server.logs import LogSink, ReviewLine, find_cluster, make_admission_line
from fleethook.server.metrics.metrics import Metrics
from fleethook.server.protocol.body_memory import BodyBudget, RequestError
from fleethook.server.reviews.codec import Decoded, decode_review, encode_response
from fleethook.server.reviews.endpoint import MAX_ON_LOOP, Endpoint
from fleethook.server.reviews.recording import RecordReview
from fleethook.server.reviews.review_endpoint import Problem, Received, ReviewEndpoint, explain_failure
from fleethook.tracing.spans import StartTrace
from fleethook.work.fair_turns import Executor
from fleethook.work.immediate_steps import Steps
from fleethook.work.slice_runner import Slices, run_off_loop
from fleethook.work.slices import Sliced

ReviewHandler = Callable[[AdmissionRequest], Response | Sliced[Response] | Awaitable[Response]]
"""Answers a review: at once, in slices, or when something has been waited for."""
Prepare = Callable[[AdmissionRequest], Awaitable[None] | None]
"""Returns an awaitable that the handler's call has to wait for, None for no wait; raises StaleError, at once or when
awaited, if the review cannot be answered from current objects."""
Conclude = Callable[[AdmissionRequest, Response], Awaitable[Response | None]]
"""Returns the work that has to be done between the decision and the answer, and another answer if it finds one."""


class AdmissionEndpoint(ReviewEndpoint[Decoded, AdmissionRequest, None, Response]):
    """One admission route with its handler."""

    def __init__(
        self,
        path: str,
        handler: ReviewHandler,
        *,
        prepare: Prepare | None = None,
        conclude: Conclude | None = None,
        slices: Slices | None = None,
        pure: bool = False,
        hint: str = "",
        **rest: Any,
    ) -> None:
        """Prepare.

        Args:
            path: Of the route.
            handler: Answers reviews.
            prepare: Awaited before the handler is asked.
            conclude: Awaited between the decision and the answer.
            slices: The turns that the slices of a handler take; None for turns of their own.
            pure: Whether the handler reads nothing but the review, so that it may run in a thread.
            hint: The end of the message of each refusal, ``""`` for none.
            rest: As in `ReviewEndpoint`.
        """
        super().__init__(path, **rest)
        self._handler: Final = handler
        self._hint: Final = f"; {hint}" if hint else ""
        self._pure: Final = pure
        # Checks take up to 4 µs for a byte, eight times as long as rendering. People write the objects that are
        # checked, so none of them notices the time of a hop to a thread.
        self.max_at_once = self.max_on_loop = MAX_ON_LOOP // 4 if pure or slices is not None else MAX_ON_LOOP
        self._prepare: Final = prepare
        self._conclude: Final = conclude
        self._slices: Final = slices or Slices()

    def _inspect(self, scope: Scope) -> None:
        del scope

    def _decode(self, body: bytes) -> Decoded:
        return decode_review(body)

    def _decide(self, received: Received[Decoded, None], request: AdmissionRequest) -> Steps[tuple[Response, bytes]]:
        review, is_large = received.review, received.is_large
        try:
            if self._prepare is not None and (waiting := self._prepare(request)) is not None:
                yield waiting
        except StaleError as error:
            # No verdict, so that the caller asks again, as clients of an apiserver do after a failed call.
            raise RequestError(503, "ServiceUnavailable", f"{error}{self._hint}") from error
        decided = self._finish_large(request) if is_large else self._handle(request)
        response = decided if isinstance(decided, Response) else (yield self._finish(decided, request))
        if self._conclude is not None:
            response = (yield self._conclude(request, response)) or response
        if not response.allowed:
            response = msgspec.structs.replace(response, message=f"{response.message}{self._hint}")
        if is_large:
            encode = partial(encode_response, response, uid=review.uid, api_version=review.api_version)
            return response, (yield self._off_loop(encode, turn=self._name_turn(request)))
        return response, encode_response(response, uid=review.uid, api_version=review.api_version)

    def _handle(self, request: AdmissionRequest) -> Response | Sliced[Response] | Awaitable[Response]:
        """Ask the handler."""
        try:
            if conflict := cluster_conflict(request):
                return errored(conflict)
            return self._handler(request)
        except Exception as error:  # noqa: BLE001 - every failure needs an answer with the uid
            return self._fail(error, request.uid)

    async def _finish(self, work: Sliced[Response] | Awaitable[Response], request: AdmissionRequest) -> Response:
        try:
            return await (self._slices.run(work, lane=request.namespace) if isinstance(work, Generator) else work)
        except Exception as error:  # noqa: BLE001 - every failure needs an answer with the uid
            return self._fail(error, request.uid)

    async def _finish_large(self, request: AdmissionRequest) -> Response:
        """Return the answer that `_handle` and `_finish` return, with the work in threads."""
        turn = self._name_turn(request)
        if conflict := await self._off_loop(cluster_conflict, request, turn=turn):
            return errored(conflict)
        decided = await self._off_loop(self._handler, request, turn=turn) if self._pure else self._handler(request)
        if isinstance(decided, Generator):
            return await run_off_loop(decided, worker=self._worker, turn=turn)
        return decided if isinstance(decided, Response) else await decided

    def _name_turn(self, request: AdmissionRequest) -> str:
        """Return the lane of a request in the thread: its namespace."""
        return f"{self._path} {request.namespace}"

    def _fail(self, error: Exception, uid: str) -> Response:
        return to_response(explain_failure(error, route=self._path, uid=uid))

    def _refuse(self, received: Received[Decoded, None], problem: Problem) -> tuple[Response, bytes]:
        response, review = to_response(problem), received.review
        return response, encode_response(response, uid=review.uid, api_version=review.api_version)

    def _classify(self, review: Decoded, verdict: Response) -> tuple[str, str]:
        return classify(review, verdict)

    def _name_cluster(self, received: Received[Decoded, None]) -> str:
        return find_cluster(received.review.request)

    def _describe(self, received: Received[Decoded, None], verdict: Response, *, seconds: float) -> ReviewLine:
        return make_admission_line(
            self._path, received.review, verdict, seconds=seconds, request_id=received.request_id
        )


def to_response(problem: Problem) -> Response:
    """Return the response of a review that cannot be answered."""
    return errored(problem.message, code=problem.code, reason=problem.reason)


def classify(review: Decoded, response: Response) -> tuple[str, str]:
    """Return the operation and the outcome under which a review counts.

    A review is ``denied`` if a rule or a webhook refuses its object, and ``errored`` if it cannot be answered.
    """
    operation = review.request.operation if review.request else ""
    return operation, find_outcome(response)


def find_outcome(response: Response) -> str:
    """Return the outcome of a response: ``allowed``, ``patched``, ``denied`` or ``errored``."""
    if response.allowed:
        return "patched" if response.patch else "allowed"
    # A status comes from a webhook or from an apiserver's rules, which may give any code and reason.
    is_denial = response.code < 500 if response.status is not None else response.reason in ("Forbidden", "Invalid")
    return "denied" if is_denial else "errored"


class Make(Protocol):
    """Makes the endpoint of a route."""

    def __call__(  # noqa: PLR0913 - one parameter for each part of the server that endpoints share
        self,
        path: str,
        *,
        metrics: Metrics,
        body_limit: int,
        log: LogSink | None,
        known_clients_only: bool,
        worker: Executor,
        bodies: BodyBudget | None,
        record: RecordReview | None,
        trace: StartTrace | None,
    ) -> Endpoint:
        """Return the endpoint."""


class ReviewRoute(NamedTuple):
    """A route that takes reviews, for the server and for OpenAPI."""

    path: str
    summary: str
    make: Make
    review: type[Any] = AdmissionReview
    needs: tuple[GroupKind, ...] = ()
    """Kinds that every answer depends on. If the kinds depend on the review, the handler checks them itself."""
    authorizes: bool = False
    """Whether callers need the right to ask about a logical cluster."""
    answer: type[Any] | None = None
    """The type of the answer; None for that of the review."""


def make_admission_route(
    path: str, summary: str, handler: ReviewHandler, *, needs: tuple[GroupKind, ...] = (), **rest: Any
) -> ReviewRoute:
    """Return a route; ``rest`` is for `AdmissionEndpoint`."""
    return ReviewRoute(path, summary, partial(_make_admission_endpoint, handler=handler, **rest), needs=needs)


def _make_admission_endpoint(path: str, *, handler: ReviewHandler, **rest: Any) -> Endpoint:
    return AdmissionEndpoint(path, handler, **rest)
