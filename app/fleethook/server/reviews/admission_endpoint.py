"""Endpoints of the admission reviews that a handler of this server answers.

`fleethook.engines.dispatch.review.cluster_endpoint` has the endpoints of the reviews that webhooks answer.
"""

from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec
from starlette.types import Scope

from fleethook.cluster.partial_and_stale_objects import StaleError
from fleethook.model.admission import AdmissionRequest, AdmissionReview, Response, cluster_conflict, errored
from fleethook.model.gvk import GroupKind
from fleethook.model.kcp import cluster_of
from fleethook.server.log import ReviewLine, make_admission_line
from fleethook.server.protocol.bodies import RequestError
from fleethook.server.reviews.http_checks import Endpoint
from fleethook.server.reviews.records_and_traces import classify, find_outcome
from fleethook.server.reviews.review_codec import (
    Decoded,
    ReviewProblem,
    decode_review,
    encode_response,
    explain_failure,
    to_response,
)
from fleethook.server.reviews.review_endpoint import MAX_ON_LOOP, Received, ReviewEndpoint

Immediate = Response | Callable[[], Response | None]
"""The response of a handler, or a function that runs in a thread: it returns the response, or None to ask again."""
Decided = Immediate | Awaitable[Response]
ReviewHandler = Callable[[AdmissionRequest], Decided]
Prepare = Callable[[AdmissionRequest], Awaitable[None] | None]
"""Provides the objects for the call of the handler; None if they are current. It raises StaleError if it cannot, and so
does the awaitable."""
Conclude = Callable[[AdmissionRequest, Response], Awaitable[Response | None]]
"""Runs between the decision and the answer, and returns an answer that replaces the handler's, or None."""


class AdmissionEndpoint(ReviewEndpoint[Decoded, AdmissionRequest, str, Response]):
    """One admission route with its handler."""

    def __init__(
        self,
        path: str,
        handler: ReviewHandler,
        *,
        prepare: Prepare | None = None,
        conclude: Conclude | None = None,
        pure: bool = False,
        restored: bool = False,
        hint: str = "",
        **rest: Any,
    ) -> None:
        """Prepare.

        Args:
            path: The path of the route.
            handler: Answers reviews.
            prepare: Provides the objects for the call of the handler.
            conclude: Awaited between the decision and the answer.
            pure: Whether the handler reads nothing but the review, so that it may run in a thread.
            restored: As in `cluster_conflict`.
            hint: The end of the message of each review that cannot be answered, ``""`` for none.
            rest: As in `ReviewEndpoint`.
        """
        super().__init__(path, **rest)
        self._handler: Final = handler
        self._hint: Final = f"; {hint}" if hint else ""
        self._pure: Final = pure
        self._restored: Final = restored
        # Checks take up to 4 µs per byte, and rendering takes 0.5 µs. People write the checked objects, so nobody
        # notices the time of a hop to a thread.
        self.max_at_once = self.max_on_loop = MAX_ON_LOOP // 4 if pure else MAX_ON_LOOP
        self._prepare: Final = prepare
        self._conclude: Final = conclude

    def _inspect(self, scope: Scope) -> str:
        """Return the logical cluster that only the caller can have named, ``""`` if its objects name it."""
        del scope
        return ""

    _decode = staticmethod(decode_review)

    def _decode_large(self, body: bytes) -> Decoded:
        return decode_review(body).decode_objects()

    def _decide(
        self, received: Received[Decoded, str], request: AdmissionRequest
    ) -> tuple[Response, bytes] | Coroutine[Any, Any, tuple[Response, bytes]]:
        try:
            preparing = None if self._prepare is None else self._prepare(request)
        except StaleError as error:
            raise self._refuse_stale(error) from error
        if preparing is not None or self._conclude is not None or received.is_large:
            return self._decide_later(received, request, preparing)
        try:
            decided = self._handle(request, received.call)
        except Exception as error:  # noqa: BLE001 - every failure needs an answer with the uid
            decided = self._explain(error, request)
        if not isinstance(decided, Response):
            return self._decide_later(received, request, None, decided)
        response, review = self._add_hint(decided), received.review
        return response, encode_response(response, uid=review.uid, api_version=review.api_version)

    async def _decide_later(
        self,
        received: Received[Decoded, str],
        request: AdmissionRequest,
        preparing: Awaitable[None] | None,
        decided: Decided | None = None,
    ) -> tuple[Response, bytes]:
        review, is_large = received.review, received.is_large
        off_loop = partial(self._off_loop, turn=f"{self._path} {request.namespace}")
        try:
            if preparing is not None:
                await preparing
        except StaleError as error:
            raise self._refuse_stale(error) from error
        try:
            handle = partial(self._handle, request, received.call)
            if decided is None:
                decided = await off_loop(handle) if is_large and self._pure else handle()
            while not isinstance(decided, Response):
                if callable(decided):
                    found = await off_loop(decided)
                    decided = handle() if found is None else found
                else:
                    decided = await decided
        except Exception as error:  # noqa: BLE001 - every failure needs an answer with the uid
            decided = self._explain(error, request)
        if self._conclude is not None:
            decided = await self._conclude(request, decided) or decided
        response = self._add_hint(decided)
        encode = partial(encode_response, response, uid=review.uid, api_version=review.api_version)
        return response, await off_loop(encode) if is_large else encode()

    def _handle(self, request: AdmissionRequest, cluster: str = "") -> Decided:
        """Return the answer of the handler, or an error for an object of two logical clusters."""
        conflict = cluster_conflict(request, restored=self._restored)
        return errored(conflict) if conflict else self._answer_request(request, cluster)

    def _answer_request(self, request: AdmissionRequest, cluster: str) -> Decided:
        """Return the answer to a request; ``cluster`` as `_inspect` returns it."""
        del cluster
        return self._handler(request)

    def _explain(self, error: Exception, request: AdmissionRequest) -> Response:
        return to_response(explain_failure(error, route=self._path, uid=request.uid))

    def _add_hint(self, response: Response) -> Response:
        if response.allowed or not self._hint or find_outcome(response) != "errored":
            return response
        return msgspec.structs.replace(response, message=f"{response.message}{self._hint}")

    def _refuse_stale(self, error: StaleError) -> RequestError:
        # This is an error and no verdict, because clients of an apiserver repeat a write after a failed call.
        return RequestError(503, "ServiceUnavailable", f"{error}{self._hint}")

    def _refuse(self, received: Received[Decoded, str], problem: ReviewProblem) -> tuple[Response, bytes]:
        response, review = to_response(problem), received.review
        return response, encode_response(response, uid=review.uid, api_version=review.api_version)

    _classify = staticmethod(classify)

    def _name_cluster(self, received: Received[Decoded, str]) -> str:
        return find_cluster(received.review.request)

    def _describe(self, received: Received[Decoded, str], verdict: Response, *, seconds: float) -> ReviewLine:
        return make_admission_line(
            self._path, received.review, verdict, seconds=seconds, request_id=received.request_id
        )


def find_cluster(request: AdmissionRequest | None) -> str:
    """Return the logical cluster in the annotation of the object under review, ``""`` if it names none."""
    return "" if request is None else cluster_of({"metadata": request.known_metadata})


MakeEndpoint = Callable[..., Endpoint]
"""Makes the endpoint of a route from its path and, by name, the parts of the server that endpoints share."""


class ReviewRoute(NamedTuple):
    """A route that takes reviews, for the server and for OpenAPI."""

    path: str
    summary: str
    make: MakeEndpoint
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
    return ReviewRoute(path, summary, partial(AdmissionEndpoint, handler=handler, **rest), needs=needs)
