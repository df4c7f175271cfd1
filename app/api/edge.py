"""Answering reviews: plain ASGI endpoints, dispatched by exact path in front of FastAPI's router.

A FastAPI route costs more than the whole answer does (its dependency solver and two exit stacks a request), so reviews
do not pass through it; the same app documents them in its OpenAPI page.
"""

import logging
import time
from collections.abc import Awaitable, Callable, Generator
from functools import partial
from typing import Final, NamedTuple

import msgspec
from starlette.types import Scope

from app.api.bodies import BodyBudget
from app.api.body import RequestError
from app.api.codec import Decoded, decode_review, encode_error, encode_response
from app.api.endpoint import MAX_ON_LOOP, Answer, Endpoint
from app.api.logs import LogSink, ReviewLine, encode_line, milliseconds, shortened, stamp
from app.api.metrics import Metrics
from app.control.slices import Sliced, Slices, run_off_loop
from app.control.turns import Executor
from app.model.admission import AdmissionRequest, Response, cluster_conflict, errored
from app.model.envelope import BadReviewError
from app.model.json import as_object
from app.model.kcp import cluster_of
from app.overrider.read_your_writes import StaleError

ReviewHandler = Callable[[AdmissionRequest], Response | Sliced[Response] | Awaitable[Response]]
"""Answers a review, at once, in slices, or when something has been waited for."""
Prepare = Callable[[AdmissionRequest], Awaitable[None] | None]
"""Returns what has to be waited for before a handler is asked, None for nothing; raises StaleError, at once or when
awaited, if it does not come."""
Conclude = Callable[[AdmissionRequest, Response], Awaitable[None]]
"""What has to be done between the decision and the answer."""

_log: Final = logging.getLogger(__name__)
# A member of a log line that is left out.
_UNSET: Final[str | msgspec.UnsetType] = msgspec.UNSET


class _Asked(NamedTuple):
    """A review that is being answered."""

    review: Decoded
    request_id: str
    started: float
    """Seconds of `time.perf_counter`."""


def _stale(error: StaleError) -> RequestError:
    # Not a verdict: the caller is to ask again, which an apiserver's clients do after a failed call.
    return RequestError(503, "ServiceUnavailable", str(error))


class ReviewEndpoint(Endpoint):
    """One review route: reads the body, asks the handler, writes the answer, counts and logs it."""

    def __init__(  # noqa: PLR0913 - all that an endpoint is made of, by name
        self,
        path: str,
        handler: ReviewHandler,
        *,
        metrics: Metrics,
        body_limit: int,
        log: LogSink | None,
        prepare: Prepare | None = None,
        conclude: Conclude | None = None,
        slices: Slices | None = None,
        known_clients_only: bool = False,
        worker: Executor | None = None,
        bodies: BodyBudget | None = None,
        pure: bool = False,
    ) -> None:
        """Prepare; the arguments that `Endpoint` does not have are these.

        Args:
            path: Of the route.
            handler: Answers reviews.
            metrics: Counts requests.
            body_limit: Bytes of the largest body that is read.
            log: Takes a line for each review.
            prepare: Awaited before the handler is asked.
            conclude: Awaited between the decision and the answer.
            slices: Whose turns the slices of a handler take; None for turns of their own.
            known_clients_only: Whether callers need a client certificate.
            worker: Runs the work on large reviews; None for one of its own.
            bodies: The memory that all bodies share; None to read them without charging it.
            pure: Whether the handler reads nothing but the review, so that it may run in a thread.
        """
        super().__init__(
            path,
            metrics=metrics,
            body_limit=body_limit,
            known_clients_only=known_clients_only,
            worker=worker,
            bodies=bodies,
        )
        self._handler: Final = handler
        self._pure: Final = pure
        # Checks take up to 4 µs for a byte, eight times as long as rendering. People write what they check, so a hop to
        # a thread costs nobody anything.
        self.max_at_once = MAX_ON_LOOP // 4 if pure or slices is not None else MAX_ON_LOOP
        self._log: Final = log
        self._prepare: Final = prepare
        self._conclude: Final = conclude
        self._slices: Final = slices or Slices()

    def _begin(self, body: bytes, request_id: str, scope: Scope) -> Answer | Awaitable[Answer]:
        del scope
        started = time.perf_counter()
        if len(body) > self.max_at_once:
            return self._answer_large(body, request_id, started)
        try:
            review = decode_review(body)
        except BadReviewError as error:
            return self._refuse(error, request_id, started)
        asked = _Asked(review, request_id or review.uid, started)
        if self._prepare is not None and review.request is not None:
            try:
                waiting = self._prepare(review.request)
            except StaleError as error:
                raise _stale(error) from error
            if waiting is not None:
                return self._wait(waiting, asked)
        decided = self._decide(review)
        if isinstance(decided, Response) and self._conclude is None:
            return self._encode(decided, asked)
        return self._complete(decided, asked)

    async def _wait(self, waiting: Awaitable[None], asked: "_Asked") -> Answer:
        try:
            await waiting
        except StaleError as error:
            raise _stale(error) from error
        return await self._complete(self._decide(asked.review), asked)

    async def _complete(self, decided: Response | Sliced[Response] | Awaitable[Response], asked: "_Asked") -> Answer:
        response = decided if isinstance(decided, Response) else await self._finish(decided, asked.review)
        if self._conclude is not None and asked.review.request is not None:
            await self._conclude(asked.review.request, response)
        return self._encode(response, asked)

    def _encode(self, response: Response, asked: "_Asked") -> Answer:
        review = asked.review
        answer = encode_response(response, uid=review.uid, api_version=review.api_version)
        self._record(review, response, seconds=time.perf_counter() - asked.started, request_id=asked.request_id)
        return 200, answer

    async def _answer_large(self, body: bytes, request_id: str, started: float) -> Answer:
        """Answer a review that takes long, with the work on its bytes in a thread."""
        try:
            review = await self._off_loop(decode_review, body)
        except BadReviewError as error:
            return self._refuse(error, request_id, started)
        asked = _Asked(review, request_id or review.uid, started)
        request = review.request
        try:
            if self._prepare is not None and request is not None and (waiting := self._prepare(request)) is not None:
                await waiting
        except StaleError as error:
            raise _stale(error) from error
        if request is None:
            return await self._complete(self._decide(review), asked)
        response = await self._decide_off_loop(review, request)
        if self._conclude is not None:
            await self._conclude(request, response)
        encode = partial(encode_response, response, uid=review.uid, api_version=review.api_version)
        answer = await self._off_loop(encode)
        self._record(review, response, seconds=time.perf_counter() - started, request_id=asked.request_id)
        return 200, answer

    def _refuse(self, error: BadReviewError, request_id: str, started: float) -> Answer:
        seconds = time.perf_counter() - started
        self._metrics.reviewed(self._path, "", "malformed", seconds=seconds, request_id=request_id)
        return 400, encode_error(400, "BadRequest", str(error))

    def _decide(self, review: Decoded) -> Response | Sliced[Response] | Awaitable[Response]:
        if review.request is None:
            return errored(f"the review cannot be read: {review.problem}")
        try:
            if conflict := cluster_conflict(review.request):
                return errored(conflict)
            return self._handler(review.request)
        except Exception as error:  # noqa: BLE001 - answered, whatever it is
            return failed(error, route=self._path, uid=review.uid)

    async def _finish(self, work: Sliced[Response] | Awaitable[Response], review: Decoded) -> Response:
        try:
            return await (self._slices.run(work) if isinstance(work, Generator) else work)
        except Exception as error:  # noqa: BLE001 - answered, whatever it is
            return failed(error, route=self._path, uid=review.uid)

    async def _decide_off_loop(self, review: Decoded, request: AdmissionRequest) -> Response:
        """Return what `_decide` and `_finish` return, for a review whose answer may take long."""
        try:
            if conflict := await self._off_loop(cluster_conflict, request):
                return errored(conflict)
            decided = await self._off_loop(self._handler, request) if self._pure else self._handler(request)
            if isinstance(decided, Generator):
                return await run_off_loop(decided, worker=self._worker, turn=f"{self._path} {request.namespace}")
            return decided if isinstance(decided, Response) else await decided
        except Exception as error:  # noqa: BLE001 - answered, whatever it is
            return failed(error, route=self._path, uid=review.uid)

    def _record(self, review: Decoded, response: Response, *, seconds: float, request_id: str) -> None:
        request = review.request
        operation = request.operation if request else ""
        self._metrics.reviewed(self._path, operation, _outcome(response), seconds=seconds, request_id=request_id)
        if self._log is not None:
            self._log(encode_line(log_fields(self._path, review, response, seconds=seconds, request_id=request_id)))


def failed(error: Exception, *, route: str, uid: str) -> Response:
    """Return the answer to a review that a handler failed over.

    Whatever it did not foresee must still be answered with the uid: a dropped connection would leave the caller with a
    timeout and without a reason.
    """
    if isinstance(error, msgspec.DecodeError | UnicodeDecodeError):
        return errored(f"the object under review is not JSON: {error}")
    if isinstance(error, RecursionError):
        return errored("the object under review is nested too deep")
    _log.error("review handler failed", exc_info=error, extra={"fields": {"route": route, "uid": uid}})
    text = f"fleethook failed to answer; its log has the reason under uid {uid}"
    return errored(text, code=500, reason="InternalError")


def _outcome(response: Response) -> str:
    if response.allowed:
        return "patched" if response.patch else "allowed"
    return "denied" if response.reason in ("Forbidden", "Invalid") else "errored"


def log_fields(path: str, review: Decoded, response: Response, *, seconds: float, request_id: str) -> ReviewLine:
    """Return the line of the log about an answered review."""
    cluster = gvk = namespace = name = operation = _UNSET
    if (request := review.request) is not None:
        kind = request.kind
        # Only what the handler decoded is looked into: a log line must not cost another decode.
        decoded = request.__dict__
        document = decoded.get("desired_object") or decoded.get("object") or decoded.get("old_object")
        cluster = shortened(cluster_of(document)) if isinstance(document, dict) else ""
        gvk = shortened(f"{kind.group}/{kind.version}/{kind.kind}")
        namespace = shortened(request.namespace)
        generated = request.name or as_object(as_object(document).get("metadata")).get("generateName", "")
        name = shortened(generated) if isinstance(generated, str) else ""
        operation = request.operation
    message = shortened(response.message) if response.message else _UNSET
    # By position: members that are set one by one take a quarter more time.
    return ReviewLine(
        stamp(), "info", "review", path, shortened(request_id), shortened(review.uid), response.allowed,
        len(response.patch), milliseconds(seconds), cluster, gvk, namespace, name, operation, message,
    )  # fmt: skip
