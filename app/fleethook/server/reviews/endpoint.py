"""The HTTP side of all review routes: checks of method, client, headers and body, and the answers that refuse them."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, Final, TypeVar

from starlette.types import ASGIApp, Receive, Scope, Send

from fleethook.server.metrics import Metrics
from fleethook.server.protocol.request_body import (
    BodyBudget,
    BodyCharge,
    ClientGoneError,
    PartialBody,
    RequestError,
    check_headers,
    client_of,
    name_account,
    read_body,
)
from fleethook.server.protocol.sending import PIECE_BYTES, Reply, send_reply
from fleethook.server.reviews.codec import encode_error
from fleethook.work.threads import Worker

MAX_DIGITS: Final = 309
"""The maximum digits of a number. The largest number in the JSON of Kubernetes, a double (1.8e308), has so many."""

_DIGIT_OR_NOT: Final = bytes(ord("0") if chr(code) in "0123456789" else ord(" ") for code in range(256))
_TOO_LONG: Final = b"0" * (MAX_DIGITS + 1)


def check_numbers(body: bytes) -> None:
    """Refuse a body with a number of more than `MAX_DIGITS` digits in a row; raises RequestError.

    The limit does not apply to digits in strings. A body without such a row of digits takes a single search.
    """
    rows = body.translate(_DIGIT_OR_NOT)
    start = rows.find(_TOO_LONG)
    if start < 0:
        return
    # A text of the same length without escaped quotation marks: an odd number of marks before a place means a string.
    plain = body.replace(b"\\\\", b"__").replace(b'\\"', b"__")
    seen, quotes = 0, 0
    while start >= 0:
        quotes += plain.count(b'"', seen, start)
        if quotes % 2 == 0:
            text = f"the body has a number of more than {MAX_DIGITS} digits: use a string"
            raise RequestError(400, "BadRequest", text)
        seen = start
        end = rows.find(b" ", start)
        start = rows.find(_TOO_LONG, end) if end >= 0 else -1


MAX_ON_LOOP: Final = 32 * 1024
"""Bytes of the largest review that is answered on the event loop. Rendering a hostile Deployment takes 0.5 µs per byte,
so 16 ms; an ordinary UPDATE has 26 KB and takes 0.1 ms."""

SWITCH_OFF_HINT: Final = "to switch fleethook off, run fleethook uninstall"
"""The end of messages about reviews that the server cannot answer, so that it stops writes to a cluster."""
CHARGE: Final = "fleethook.charge"
"""The member of an ASGI scope with the memory of the request, a `BodyCharge`; missing or None if none is charged."""

_REQUEST_ID: Final = "fleethook.request_id"
"""The member of a scope with the request id of headers that were checked. Requests with an equal head begin with such a
scope (`fleethook.server.protocol.repeated_head`)."""

_T = TypeVar("_T")
# RFC 9110 section 11.6.1 requires a challenge with each 401.
_CHALLENGE: Final = (b"www-authenticate", b"Bearer")

Answer = tuple[int, bytes]
"""An HTTP status and a body."""


class Endpoint(ABC):
    """An endpoint that answers a POSTed JSON body with JSON: as a plain ASGI app, or at once in the protocol."""

    max_at_once: int = 0
    """Maximum bytes of a body for which `_begin` may return the answer itself; 0 if it always returns an awaitable."""

    def __init__(
        self,
        path: str,
        *,
        metrics: Metrics,
        body_limit: int,
        known_clients_only: bool,
        worker: Worker | None = None,
        bodies: BodyBudget | None = None,
    ) -> None:
        """Prepare.

        Args:
            path: The path of the route.
            metrics: Counts the requests in flight.
            body_limit: Bytes of the largest body that is read.
            known_clients_only: Whether callers need a client certificate.
            worker: Runs the work on large reviews; None for a worker of the endpoint's own.
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
                await send_reply(send, await self._read_and_answer(scope, receive, charge=None))
            else:
                with BodyCharge(self._bodies, self._find_account(scope, client_of(scope.get("client")))) as charge:
                    scope[CHARGE] = charge
                    await send_reply(send, await self._read_and_answer(scope, receive, charge=charge))
        except ClientGoneError:
            return
        finally:
            self._metrics.in_flight -= 1

    def collect(self, scope: Scope, *, client: str) -> PartialBody | None:
        """Begin to collect the body of a POST, if `begin` may answer it once it is complete.

        Args:
            scope: The request.
            client: The client, as `fleethook.server.protocol.request_body.client_of` returns it.

        Returns:
            The body, still empty; its owner calls `PartialBody.end`. None if the request is refused before its body
            is read, if it has no Content-Length, or if it is too long.
        """
        length = next((int(value) for name, value in scope["headers"] if name == b"content-length"), None)
        if length is None or length > self.max_at_once:
            return None
        try:
            self._check_caller(scope)
            check_headers(scope["headers"], limit=self._body_limit)
        except RequestError:
            return None
        if self._bodies is None:
            return PartialBody(self._metrics, None)
        return PartialBody(self._metrics, BodyCharge(self._bodies, self._find_account(scope, client)))

    def begin(self, scope: Scope, body: bytes, *, client: str) -> Reply | ASGIApp | None:
        """Answer a complete POST, at once if that needs no waiting.

        Args:
            scope: The request.
            body: Its body, as long as the Content-Length says.
            client: The client, as `fleethook.server.protocol.request_body.client_of` returns it.

        Returns:
            The answer, if it is short enough to be sent in one piece. An ASGI app that continues without reading the
            body, if the answer needs a wait, for example until a client has read a long answer. None if the body is
            large or does not fit into the body memory; then this method has done nothing.
        """
        if len(body) > self.max_at_once:
            return None
        # Without any body, there is room for each.
        if self._bodies is not None and self._bodies.total and not self._bodies.has_room(client, len(body)):
            return None
        charge = scope[CHARGE] = None if self._bodies is None else BodyCharge(self._bodies, client)
        try:
            self._check_caller(scope)
            request_id = scope.get(_REQUEST_ID)
            if request_id is None:
                request_id = scope[_REQUEST_ID] = check_headers(scope["headers"], limit=self._body_limit)
            begun = self._begin(body, request_id, scope)
        except RequestError as error:
            return _refuse(error)
        if isinstance(begun, tuple) and len(begun[1]) <= PIECE_BYTES:
            return _reply(*begun)
        if charge is not None:
            charge.take_decoded(len(body))
        return partial(self._go_on, begun, charge)

    def answer(self, scope: Scope, body: bytes) -> Reply | Coroutine[Any, Any, Reply]:
        """Answer a body that did not arrive by HTTP, at once if that needs no waiting.

        Neither the caller nor the headers are checked, and no memory is charged.

        Args:
            scope: The request; the answer may depend on its members ``path``, ``query_string`` and ``headers``.
            body: The body.
        """
        try:
            if len(body) > MAX_ON_LOOP:
                check_numbers(body)
            begun = self._begin(body, "", scope)
        except RequestError as error:
            return _refuse(error)
        return _reply(*begun) if isinstance(begun, tuple) else _await_reply(begun)

    async def _go_on(
        self, begun: Answer | Awaitable[Answer], charge: BodyCharge | None, _scope: Scope, _receive: Receive, send: Send
    ) -> None:
        """Answer a request that `begin` has started."""
        self._metrics.in_flight += 1
        try:
            try:
                reply = _reply(*(begun if isinstance(begun, tuple) else await begun))
            except RequestError as error:
                reply = _refuse(error)
            await send_reply(send, reply)
        finally:
            self._metrics.in_flight -= 1
            if charge is not None:
                charge.give_back()

    async def _read_and_answer(self, scope: Scope, receive: Receive, *, charge: BodyCharge | None) -> Reply:
        """Read a body and return its answer; raises ClientGoneError."""
        try:
            self._check_caller(scope)
            request_id = check_headers(scope["headers"], limit=self._body_limit)
            body = await read_body(receive, limit=self._body_limit, charge=charge)
            if len(body) > MAX_ON_LOOP:
                await self._off_loop(check_numbers, body, turn=self._find_consumer(scope))
            begun = self._begin(body, request_id, scope)
            return _reply(*(begun if isinstance(begun, tuple) else await begun))
        except RequestError as error:
            return _refuse(error)

    def _find_account(self, scope: Scope, client: str) -> str:
        """Return the client to which a body counts while it is read; ``client`` is the address of the caller."""
        consumer = self._find_consumer(scope)
        return name_account(consumer) if consumer else client

    def _find_consumer(self, _scope: Scope) -> str:
        """Return the logical cluster to which a request counts before its body is read, ``""`` if it is not known."""
        return ""

    def _check_caller(self, scope: Scope) -> None:
        """Refuse a caller before its body is read; raises RequestError."""
        if self._known_clients_only and not _has_certificate(scope):
            raise RequestError(403, "Forbidden", "this route requires a client certificate")

    async def _off_loop(self, function: Callable[..., _T], *arguments: Any, turn: str = "") -> _T:
        """Run a function on a large review in a thread; ``turn`` is the lane whose turn it takes."""
        return await self._worker.run(turn or self._path, function, *arguments)

    @abstractmethod
    def _begin(self, body: bytes, request_id: str, scope: Scope) -> Answer | Awaitable[Answer]:
        """Return the HTTP status and the body of the answer, at once or after a wait.

        Both may raise RequestError. The returned work has not begun, because it needs a task to run in.
        """


def _reply(status: int, body: bytes) -> Reply:
    return Reply(status, body, (_CHALLENGE,)) if status == 401 else Reply(status, body)


async def _await_reply(begun: Awaitable[Answer]) -> Reply:
    try:
        return _reply(*(await begun))
    except RequestError as error:
        return _refuse(error)


def _refuse(error: RequestError) -> Reply:
    headers: tuple[tuple[bytes, bytes], ...] = ()
    if error.retry_after is not None:
        headers = ((b"retry-after", b"%d" % error.retry_after),)
    if error.code == 401:
        headers = (_CHALLENGE,)
    return Reply(error.code, encode_error(error.code, error.reason, str(error)), headers)


def _has_certificate(scope: Scope) -> bool:
    """Return whether the client has a certificate (ASGI's TLS extension); its subject may be empty."""
    name: str | None = (scope.get("extensions") or {}).get("tls", {}).get("client_cert_name")
    return name is not None


async def respond(send: Send, status: int, body: bytes, *headers: tuple[bytes, bytes]) -> None:
    """Send a JSON answer."""
    await send_reply(send, Reply(status, body, headers))


class Gate:
    """Refuses requests until the server has read the objects on which the answers of an endpoint depend.

    The refusal is an HTTP error and no verdict, so that the webhook's failurePolicy decides. It has no Retry-After:
    with this header, an apiserver's client would repeat the request until its timeout, and the write would hang that
    long (client-go v0.36, rest/with_retry.go).
    """

    def __init__(self, endpoint: ASGIApp, missing: Callable[[], str]) -> None:
        """Guard an endpoint.

        Args:
            endpoint: Answers the requests.
            missing: Returns the objects that are not read yet, with the reasons, ``""`` once all are read.
        """
        self._endpoint: Final = endpoint
        self._missing: Final = missing
        self._open = False

    @property
    def endpoint(self) -> ASGIApp | None:
        """The endpoint behind the gate; None until a request has found the gate open."""
        return self._endpoint if self._open else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request."""
        problem = "" if self._open else self._missing()
        if problem:
            await respond(send, 503, encode_error(503, "ServiceUnavailable", f"{problem}; {SWITCH_OFF_HINT}"))
            return
        self._open = True
        await self._endpoint(scope, receive, send)
