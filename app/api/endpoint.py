"""What all routes that take a review have in common: method, client, headers, body, and what goes wrong with those."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Final, TypeVar

from starlette.types import ASGIApp, Receive, Scope, Send

from app.api.bodies import BodyBudget, BodyCharge, client_of
from app.api.body import ClientGoneError, RequestError, check_headers, read_body
from app.api.codec import encode_error
from app.api.metrics import Metrics
from app.api.numbers import check_numbers
from app.api.sending import send_body
from app.control.turns import Executor
from app.control.worker import Worker

MAX_ON_LOOP: Final = 32 * 1024
"""Bytes of a review that is answered on the event loop. To render a hostile Deployment takes 0.5 µs for a byte, so
16 ms; an ordinary UPDATE has 26 KB, and takes 0.1 ms."""

_T = TypeVar("_T")
_JSON: Final = (b"content-type", b"application/json")
# RFC 9110 section 11.6.1 wants a challenge with each 401.
_CHALLENGE: Final = (b"www-authenticate", b"Bearer")


class Endpoint(ABC):
    """A plain ASGI endpoint that answers a POSTed JSON body with another."""

    def __init__(
        self,
        path: str,
        *,
        metrics: Metrics,
        body_limit: int,
        known_clients_only: bool,
        worker: Executor | None = None,
        bodies: BodyBudget | None = None,
    ) -> None:
        """Prepare.

        Args:
            path: Of the route.
            metrics: Counts the requests in flight.
            body_limit: Bytes of the largest body that is read.
            known_clients_only: Whether callers need a client certificate.
            worker: Runs the work on large reviews; None for one of its own.
            bodies: The memory that all bodies share; None to read them without charging it.
        """
        self._path: Final = path
        self._metrics: Final = metrics
        self._body_limit: Final = body_limit
        self._known_clients_only: Final = known_clients_only
        self._worker: Final = worker or Worker()
        self._bodies: Final = bodies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request."""
        if scope["method"] != "POST":
            body = encode_error(405, "MethodNotAllowed", f"{self._path} takes POST, not {scope['method']}")
            await respond(send, 405, body, (b"allow", b"POST"))
            return
        self._metrics.in_flight += 1
        try:
            if self._bodies is None:
                await self._exchange(scope, receive, send, charge=None)
            else:
                with BodyCharge(self._bodies, client_of(scope.get("client"))) as charge:
                    await self._exchange(scope, receive, send, charge=charge)
        except ClientGoneError:
            return
        finally:
            self._metrics.in_flight -= 1

    async def _exchange(self, scope: Scope, receive: Receive, send: Send, *, charge: BodyCharge | None) -> None:
        """Read a body and send its answer; raises ClientGoneError."""
        headers: tuple[tuple[bytes, bytes], ...] = ()
        try:
            self._check_caller(scope)
            request_id = check_headers(scope["headers"], limit=self._body_limit)
            body = await read_body(receive, limit=self._body_limit, charge=charge)
            if len(body) > MAX_ON_LOOP:
                await self._off_loop(check_numbers, body)
            status, answer = await self._answer(body, request_id, scope)
        except RequestError as error:
            status, answer = error.code, encode_error(error.code, error.reason, str(error))
            if error.retry_after is not None:
                headers = ((b"retry-after", b"%d" % error.retry_after),)
        if status == 401:
            headers = (_CHALLENGE,)
        await respond(send, status, answer, *headers)

    def _check_caller(self, scope: Scope) -> None:
        """Refuse a caller before its body is read; raises RequestError."""
        if self._known_clients_only and not _has_certificate(scope):
            raise RequestError(403, "Forbidden", "a client certificate is needed to ask here")

    async def _off_loop(self, function: Callable[..., _T], *arguments: Any) -> _T:
        """Return the result of a function that takes long for a large review; it runs in a thread."""
        return await self._worker.run(self._path, function, *arguments)

    @abstractmethod
    async def _answer(self, body: bytes, request_id: str, scope: Scope) -> tuple[int, bytes]:
        """Return the HTTP status and the body of the answer; raises RequestError."""


def _has_certificate(scope: Scope) -> bool:
    """Return whether the client showed a certificate (ASGI's TLS extension); its subject may be empty."""
    name: str | None = (scope.get("extensions") or {}).get("tls", {}).get("client_cert_name")
    return name is not None


async def respond(send: Send, status: int, body: bytes, *headers: tuple[bytes, bytes]) -> None:
    """Send an answer of JSON."""
    length = (b"content-length", b"%d" % len(body))
    await send({"type": "http.response.start", "status": status, "headers": [_JSON, length, *headers]})
    await send_body(send, body)


class Gate:
    """Refuses requests until the objects that an endpoint answers from were read.

    The refusal is an HTTP error and no verdict, so that the webhook's failurePolicy decides. It has no Retry-After:
    with one, an apiserver's client asks again until its timeout, and the write hangs that long (client-go v0.36,
    rest/with_retry.go).
    """

    def __init__(self, endpoint: ASGIApp, missing: Callable[[], str]) -> None:
        """Guard an endpoint.

        Args:
            endpoint: What answers.
            missing: Returns which objects were not read yet and why, ``""`` once all were.
        """
        self._endpoint: Final = endpoint
        self._missing: Final = missing
        self._open = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request."""
        problem = "" if self._open else self._missing()
        if problem:
            await respond(send, 503, encode_error(503, "ServiceUnavailable", problem))
            return
        self._open = True
        await self._endpoint(scope, receive, send)
