"""Answers reviews for a logical cluster: ``/clusters/{cluster}/mutate``, ``validate`` and ``explain``."""

import asyncio
import contextlib
import time
from abc import abstractmethod
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec
from starlette.types import Receive, Scope

from fleethook.cluster.registration.paths import split_cluster_path
from fleethook.cluster.store import StoreView
from fleethook.engines.dispatch.call.recorded_calls import note_refusal
from fleethook.engines.dispatch.dispatcher import Dispatcher, DispatchResult
from fleethook.engines.dispatch.errors_and_deadline import (
    Deadline,
    StatusError,
    find_budget,
    forbidden,
    refusal,
    too_many_requests,
)
from fleethook.engines.dispatch.explanation import explain
from fleethook.engines.dispatch.review.access import ClusterAccess
from fleethook.engines.dispatch.review.dispatch_metrics import DispatchMetrics
from fleethook.engines.dispatch.schema_owner_and_cluster_paths import resolve_cluster
from fleethook.engines.dispatch.webhooks.webhook_defaults_and_compilation import Phase
from fleethook.fair_limits import CallLimit, Limit, LimitError, client_of
from fleethook.model.admission import AdmissionRequest, Response, errored
from fleethook.model.json import JSON
from fleethook.model.kcp import is_cluster
from fleethook.outbound.calls_and_retries import HEADER, was_dispatched
from fleethook.server.log import ReviewLine, make_admission_line
from fleethook.server.protocol.bodies import BodyCharge, ClientGoneError, Reply, RequestError
from fleethook.server.protocol.connections import ClientConnection
from fleethook.server.reviews.http_checks import CHARGE, CONNECTION, EXTENSION
from fleethook.server.reviews.records_and_traces import AskedCall, classify, find_outcome
from fleethook.server.reviews.review_codec import (
    Decoded,
    ReviewProblem,
    decode_review,
    encode_response,
    explain_failure,
    to_response,
)
from fleethook.server.reviews.review_endpoint import MAX_ON_LOOP, Received, ReviewEndpoint
from fleethook.work.threads_and_gc import Work, begin

# kube-apiserver waits as long for webhook configurations (k8s.io/apiserver pkg/admission/handler.go,
# timeToWaitForReady).
_SYNC_SECONDS: Final = 10.0
# RFC 5842, section 7.2.
_LOOP_DETECTED: Final = 508
_RETURNED: Final = (
    f"fleethook dispatched this review before (header {HEADER}), so it would ask the same webhooks again: the webhook "
    "that sent it here passes reviews on to fleethook, or is fleethook itself; remove it from the webhook configuration"
)
_PLACE: Final = "fleethook.place"
"""The member of an ASGI scope that tells whether the request counts to the quota of its cluster already."""
_IDENTIFIED: Final = "fleethook.identified"
"""The member of an ASGI scope with the function to call when the consumer of the request is known."""
_RETURNED_FACTS: Final[Mapping[str, JSON]] = {"returned": True}
READING_SHARE: Final = 8
"""The share of the connections that may send bodies at the same time before they count to their logical cluster."""
_UNAUTHORIZED: Final = {401: "unauthenticated", 403: "forbidden"}


class RequestQuota:
    """Counts requests in flight by consumer. Each may have as many as it leaves free, so half of all if it is alone.

    Attributes:
        in_flight: The number of requests by consumer; consumers without requests take no memory.
    """

    def __init__(self, limit: int) -> None:
        """Prepare; ``limit`` is the maximum number of requests in flight of all consumers together."""
        self._limit: Final = Limit(limit)
        self.in_flight: Final = self._limit.held

    @contextlib.contextmanager
    def hold(self, consumer: str, charge: BodyCharge | None = None, *, size: int = 0) -> Iterator[None]:
        """Count one request while it is being answered.

        Args:
            consumer: The logical cluster of the request.
            charge: The memory of the request. From now on, it counts to the consumer. None to charge nothing.
            size: Bytes of the body.

        Raises:
            LimitError: The consumer has reached its share of the requests or the memory; the text names the setting.
        """
        if not self._limit.allows(consumer):
            raise LimitError(
                f"{self.in_flight.get(consumer, 0)} requests of logical cluster {consumer} are being answered, which "
                "is its share of max_connections"
            )
        if charge is not None and not charge.assign(f"logical cluster {consumer}", size):
            raise LimitError(f"the requests of logical cluster {consumer} hold its share of body_memory")
        self._limit.take(consumer)
        try:
            yield
        finally:
            self._limit.release(consumer)


class DispatchContext(NamedTuple):
    """The objects and services that dispatching answers with."""

    dispatcher: Dispatcher
    store: StoreView
    synced: asyncio.Event
    stale: Callable[[], str]
    """Returns why the objects are out of date, ``""`` if they are not."""
    access: ClusterAccess
    quota: RequestQuota
    metrics: DispatchMetrics
    reading: CallLimit
    """Limits the bodies that are read before a request counts to the quota: its consumer is not known yet, or the quota
    is used up, and the refusal repeats the uid of the body."""


class ClusterCall(NamedTuple):
    """The facts of a request about a logical cluster that its answer depends on.

    Attributes:
        cluster: The logical cluster, by its name; ``""`` until the objects of the review name it.
        caller: The name of the caller, ``""`` if callers need no credentials.
        deadline: The time at which the caller leaves.
        has_returned: Whether dispatching has caused the request.
        has_place: Whether the request counts to the quota of the cluster already.
        identified: Called when the request counts to a cluster.
        charge: The memory of the request, None if none is charged.
        connection: The connection of the request, None if it did not arrive by one.
    """

    cluster: str
    caller: str
    deadline: Deadline
    has_returned: bool
    has_place: bool = False
    identified: Callable[[], None] | None = None
    charge: BodyCharge | None = None
    connection: ClientConnection | None = None


ReceivedReview = Received[Decoded, ClusterCall]
"""A review, and the facts of its request."""


class ClusterEndpoint(ReviewEndpoint[Decoded, AdmissionRequest, ClusterCall, DispatchResult]):
    """A route below ``/clusters/{cluster}``."""

    def __init__(self, path: str, *, context: DispatchContext, **rest: Any) -> None:
        """Prepare.

        Args:
            path: The path of the route.
            context: The objects and services that it answers with.
            rest: As in `ReviewEndpoint`.
        """
        super().__init__(path, **rest)
        self._context: Final = context
        self._verb: Final = path.rpartition("/")[2]

    def _check_caller(self, scope: Scope) -> None:
        self._context.access.check_credentials(scope)

    def _inspect(self, scope: Scope) -> ClusterCall | Coroutine[Any, Any, ClusterCall]:
        return begin(self._authorize_call(scope))

    def _authorize_call(self, scope: Scope) -> Work[ClusterCall]:
        deadline = Deadline(time.monotonic() + find_budget(scope["query_string"]))
        cluster = self._find_cluster(scope)
        caller = yield from self._authorize(scope, cluster, deadline)
        return ClusterCall(
            cluster,
            caller,
            deadline,
            has_returned=was_dispatched(scope["headers"]),
            has_place=scope.get(_PLACE, False),
            identified=scope.get(_IDENTIFIED),
            charge=scope.get(CHARGE),
            connection=_find_connection(scope),
        )

    def _find_consumer(self, scope: Scope) -> str:
        try:
            cluster = self._find_cluster(scope)
        except RequestError:
            return ""
        if not cluster or not self._context.access.is_authorized(scope, cluster=cluster, route=self._verb):
            return ""
        if (connection := _find_connection(scope)) is not None:
            connection.assign(cluster)
        return cluster

    async def _read_and_answer(self, scope: Scope, receive: Receive, charge: BodyCharge) -> Reply:
        """Read a body and answer it; a request counts to the quota while its body is read.

        Beyond the quota, and before the consumer is known, few bodies are read at a time. So one consumer cannot have
        more requests in progress than its share, and the server can close its other connections for new ones.
        """
        context, consumer = self._context, self._find_consumer(scope)
        with contextlib.ExitStack() as held:
            # Copies of the scope, because the next request of the connection may get the same one.
            has_place = False
            if consumer:
                with contextlib.suppress(LimitError):
                    held.enter_context(context.quota.hold(consumer))
                    scope, has_place = {**scope, _PLACE: True}, True
            else:
                scope = {**scope, _IDENTIFIED: held.close}
            if not has_place:
                reader = consumer or client_of(scope.get("client"))
                await _wait_to_read(context.reading, reader, _find_connection(scope))
                held.callback(context.reading.release, reader)
            return await super()._read_and_answer(scope, receive, charge)

    def _find_turn(self, call: ClusterCall) -> str:
        return call.cluster

    def _find_cluster(self, scope: Scope) -> str:
        """Return the logical cluster that the path of a request names; raises RequestError."""
        cluster = split_cluster_path(scope["path"])[1]
        if not is_cluster(cluster):
            raise RequestError(404, "NotFound", f"{cluster!r} is not the name or the path of a logical cluster")
        return resolve_cluster(self._context.store, cluster)

    def _authorize(self, scope: Scope, cluster: str, deadline: Deadline) -> Work[str]:
        access, started = self._context.access, time.perf_counter()
        try:
            return (yield from access.authorize(scope, cluster=cluster, route=self._verb, seconds=deadline.remaining))
        except RequestError as error:
            self._count(_UNAUTHORIZED.get(error.code, "errored"), started=started)
            raise

    def _decode(self, body: bytes) -> Decoded:
        return decode_review(body)

    def _decode_large(self, body: bytes) -> Decoded:
        return decode_review(body).decode_objects()

    def _decide(
        self, received: ReceivedReview, request: AdmissionRequest
    ) -> tuple[DispatchResult, bytes] | Coroutine[Any, Any, tuple[DispatchResult, bytes]]:
        return begin(self._hold_quota(received, request))

    def _hold_quota(self, received: ReceivedReview, request: AdmissionRequest) -> Work[tuple[DispatchResult, bytes]]:
        started, cluster, context = time.perf_counter(), received.call.cluster, self._context
        metrics, is_known = context.metrics, context.store.knows(cluster)
        if (connection := received.call.connection) is not None:
            connection.assign(cluster)
        if received.call.identified is not None:
            received.call.identified()
        try:
            with (
                contextlib.nullcontext()
                if received.call.has_place
                else context.quota.hold(cluster, received.call.charge, size=request.size)
            ):
                dispatched, answer = yield from self._decide_within_quota(received, request)
        except LimitError as full:
            metrics.count_refused(cluster, is_known=is_known)
            # Under any failurePolicy.
            error = too_many_requests(f"{full}; try again later")
            dispatched, answer = _answer(received, refusal(error))
            dispatched = dispatched._replace(calls=[note_refusal("RequestQuota", str(error))])
        outcome, seconds = find_outcome(dispatched.response), time.perf_counter() - started
        metrics.count_answered(cluster, self._verb, outcome, seconds=seconds, is_known=is_known)
        return dispatched, answer

    @abstractmethod
    def _decide_within_quota(
        self, received: ReceivedReview, request: AdmissionRequest
    ) -> Work[tuple[DispatchResult, bytes]]:
        """Return how a review was answered, and the answer."""

    def _wait_until_ready(self, deadline: Deadline) -> Work[str]:
        """Wait until the objects are read, and return why they cannot be answered from."""
        context = self._context
        if not context.synced.is_set():
            try:
                yield asyncio.wait_for(context.synced.wait(), min(_SYNC_SECONDS, deadline.remaining))
            except TimeoutError:
                return "not yet ready to handle request"
        stale = context.stale()
        return f"not ready to handle request: {stale}" if stale else ""

    def _fail(self, error: Exception, received: ReceivedReview) -> Response:
        return to_response(explain_failure(error, route=self._path, uid=received.review.uid))

    def _refuse(self, received: ReceivedReview, problem: ReviewProblem) -> tuple[DispatchResult, bytes]:
        return _answer(received, to_response(problem))

    def _classify(self, review: Decoded, verdict: DispatchResult) -> tuple[str, str]:
        return classify(review, verdict.response)

    def _name_cluster(self, received: ReceivedReview) -> str:
        return received.call.cluster

    def _list_facts(self, received: ReceivedReview) -> Mapping[str, JSON]:
        return _RETURNED_FACTS if received.call.has_returned else super()._list_facts(received)

    def _list_calls(self, verdict: DispatchResult) -> Sequence[AskedCall]:
        return verdict.calls

    def _describe(self, received: ReceivedReview, verdict: DispatchResult, *, seconds: float) -> ReviewLine:
        call, response, target = received.call, verdict.response, verdict.target
        line = make_admission_line(
            self._path, received.review, response, seconds=seconds, request_id=received.request_id
        )
        if call.cluster:
            # A route without a cluster in its path gets it from the objects. The log line has it already.
            line.cluster = call.cluster
        if call.caller:
            line.caller = call.caller
        if target is not None:
            line.owner, line.owner_case = target.ownership.cluster, target.ownership.status
            if target.ownership.problem:
                line.owner_problem = target.ownership.problem
            line.hooks = len(target.relevant)
        return line


async def _wait_to_read(reading: CallLimit, reader: str, connection: ClientConnection | None) -> None:
    """Wait until a body may be read, which counts until the caller releases it; raises ClientGoneError."""
    turn = reading.join(reader)
    if turn is None:
        return
    if connection is not None:
        connection.wait_for(turn)
    try:
        await reading.wait(turn, reader)
    except asyncio.CancelledError:
        if connection is not None and connection.is_gone:
            # Otherwise the bytes of closed connections would stay in memory until their turn.
            raise ClientGoneError from None
        raise


def _find_connection(scope: Scope) -> ClientConnection | None:
    """Return the connection of a request, None if it did not arrive by one."""
    connection: ClientConnection | None = (scope.get("extensions") or {}).get(EXTENSION, {}).get(CONNECTION)
    return connection


def _answer(received: ReceivedReview, response: Response) -> tuple[DispatchResult, bytes]:
    review = received.review
    return DispatchResult(response, None), encode_response(response, uid=review.uid, api_version=review.api_version)


class DispatchEndpoint(ClusterEndpoint):
    """Asks the webhooks of one phase."""

    max_at_once = MAX_ON_LOOP

    def __init__(self, path: str, *, phase: Phase, cluster_exists: bool = False, **rest: Any) -> None:
        """Prepare.

        Args:
            path: The path of the route.
            phase: The admission phase.
            cluster_exists: As in `fleethook.engines.dispatch.schema_owner_and_cluster_paths.find_owner`.
            rest: As in `ClusterEndpoint`.
        """
        super().__init__(path, **rest)
        self._phase: Final = phase
        self._cluster_exists: Final = cluster_exists

    def _decide_within_quota(
        self, received: ReceivedReview, request: AdmissionRequest
    ) -> Work[tuple[DispatchResult, bytes]]:
        review, call = received.review, received.call
        problem = "" if call.has_returned else (yield from self._wait_until_ready(call.deadline))
        dispatched: DispatchResult
        try:
            if call.has_returned:
                dispatched = DispatchResult(errored(_RETURNED, code=_LOOP_DETECTED, reason="LoopDetected"), None)
            elif problem:
                group, resource = request.resource.group, request.resource.resource
                error = forbidden(f"{resource}.{group}" if group else resource, request.name, problem)
                dispatched = DispatchResult(refusal(error), None, [note_refusal("Readiness", problem)])
            else:
                dispatcher = self._context.dispatcher
                dispatched = yield from dispatcher.dispatch(
                    request,
                    cluster=call.cluster,
                    phase=self._phase,
                    deadline=call.deadline,
                    cluster_exists=self._cluster_exists,
                )
        except Exception as error:  # noqa: BLE001 - every failure needs an answer with the uid
            dispatched = DispatchResult(self._fail(error, received), None)
        encode = partial(encode_response, dispatched.response, uid=review.uid, api_version=review.api_version)
        answer: bytes = encode() if request.size <= MAX_ON_LOOP else (yield self._off_loop(encode, turn=call.cluster))
        return dispatched, answer


class ExplainEndpoint(ClusterEndpoint):
    """Explains for each webhook whether it would be asked, and if not, why."""

    def _decide_within_quota(
        self, received: ReceivedReview, request: AdmissionRequest
    ) -> Work[tuple[DispatchResult, bytes]]:
        call = received.call
        problem = yield from self._wait_until_ready(call.deadline)
        try:
            if problem:
                raise RequestError(503, "ServiceUnavailable", problem)
            explained = yield explain(self._context.dispatcher, request, cluster=call.cluster, deadline=call.deadline)
            return DispatchResult(Response(allowed=True), None), msgspec.json.encode(explained)
        except StatusError as error:
            raise RequestError(error.status.code, error.status.reason, str(error)) from error
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            text = explain_failure(error, route=self._path, uid=received.review.uid).message
            raise RequestError(400, "BadRequest", text) from error
