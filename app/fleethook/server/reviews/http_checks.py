"""The HTTP side of all review routes: checks of method, client, headers and body, the answers that refuse them.

TLS refuses a certificate that no authority of ``client_ca_file`` issued, so such an authority vouches for every name
in the certificate of a client.
"""

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, Final, TypeVar

from starlette.types import Receive, Scope, Send

from fleethook.fair_limits import client_of, name_account
from fleethook.server.metrics import Metrics
from fleethook.server.protocol.bodies import (
    BodyBudget,
    BodyCharge,
    ClientGoneError,
    Reply,
    RequestError,
    read_body,
    send_reply,
    too_large,
)
from fleethook.server.reviews.review_codec import encode_error
from fleethook.work.threads_and_gc import Worker, finish


def check_headers(headers: Iterable[tuple[bytes, bytes]], *, limit: int) -> str:
    """Check the headers of a JSON request, and return its ``X-Request-Id``, or ``""``.

    Raises:
        RequestError: 415 for another content type or an encoded body, 413 for an announced size over ``limit`` bytes.
    """
    content_type = request_id = b""
    for name, value in headers:
        if name == b"content-type":
            content_type = value
        elif name == b"content-length":
            if int(value) > limit:
                raise too_large(limit)
        elif name == b"x-request-id":
            request_id = value
        elif name == b"content-encoding" and value != b"identity":
            raise RequestError(415, "UnsupportedMediaType", "the body must not be encoded (Content-Encoding)")
    if content_type != b"application/json" and content_type.partition(b";")[0].strip().lower() != b"application/json":
        found = content_type.decode("latin-1") or "none"
        raise RequestError(415, "UnsupportedMediaType", f"Content-Type must be application/json, not {found}")
    return request_id.decode("latin-1")[:128] if request_id else ""


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


SWITCH_OFF_HINT: Final = "to switch fleethook off, run fleethook uninstall"
"""The end of messages about reviews that the server cannot answer, so that it stops writes to a cluster."""
CHARGE: Final = "fleethook.charge"
"""The member of an ASGI scope with the memory of the request, a `BodyCharge`; missing or None if none is charged."""

REQUEST_ID: Final = "fleethook.request_id"
"""The member of a scope with the request id of headers that were checked. Requests with an equal head begin with such a
scope (`fleethook.server.protocol.repeated_head`)."""

EXTENSION: Final = "fleethook.client"
"""The ASGI extension with the names of a client: its member ``names`` is the result of `find_certificate_names`."""
CONNECTION: Final = "connection"
"""The member of the extension with the `fleethook.server.protocol.connections.ClientConnection` of the request."""
_NAMES: Final = "names"
_IDENTIFYING: Final = frozenset({"DNS", "URI"})


def find_certificate_names(certificate: Mapping[str, Any] | None) -> frozenset[str]:
    """Return the names that a certificate gives its holder: the common name, DNS names and URIs.

    Args:
        certificate: A verified certificate from ``ssl.SSLObject.getpeercert()``; None or empty without one.
    """
    if not certificate:
        return frozenset()
    common = [value for rdn in certificate.get("subject", ()) for name, value in rdn if name == "commonName"]
    # Go, and so every Kubernetes component, takes the last of several common names.
    names = common[-1:]
    names += [value for kind, value in certificate.get("subjectAltName", ()) if kind in _IDENTIFYING]
    return frozenset(name for name in names if name)


def describe_certificate(certificate: Mapping[str, Any] | None) -> str | None:
    """Return the name of a certificate's holder for messages and for ASGI's TLS extension, None without a certificate.

    The name is the subject, ``name=value,…``. If the subject is empty (RFC 5280 section 4.1.2.6), as in a SPIFFE
    certificate, the name consists of the alternative names: ``DNS=…``, ``URI=…``, ``IP Address=…``.
    """
    if not certificate:
        return None
    pairs = [pair for rdn in certificate.get("subject", ()) for pair in rdn] or certificate.get("subjectAltName", ())
    return ",".join(f"{name}={value}" for name, value in pairs)


def make_client_extension(certificate: Mapping[str, Any] | None) -> dict[object, object]:
    """Return the value of `EXTENSION` for a connection; the argument is as in `find_certificate_names`."""
    return {_NAMES: find_certificate_names(certificate)}


class NamedCallers:
    """The callers of a setting: a list of names that client certificates may have."""

    def __init__(self, names: Iterable[str]) -> None:
        """Prepare; the comparison of names is case-sensitive."""
        self._names: Final = frozenset(names)

    def __bool__(self) -> bool:
        """Return whether the setting names any caller."""
        return bool(self._names)

    def find(self, scope: Scope) -> str:
        """Return the name of a request's caller in the setting, ``""`` if the setting does not name the caller."""
        presented: frozenset[str] = (scope.get("extensions") or {}).get(EXTENSION, {}).get(_NAMES, frozenset())
        return min(self._names & presented, default="")


_T = TypeVar("_T")
# RFC 9110 section 11.6.1 requires a challenge with each 401.
_CHALLENGE: Final = (b"www-authenticate", b"Bearer")

Answered = Reply | Coroutine[Any, Any, Reply]
"""An answer, or the rest of the work on it, which needs a task to run in."""


class Endpoint(ABC):
    """An endpoint that answers a POSTed JSON body with JSON.

    Every answer comes from `answer`. As an ASGI app, the endpoint reads the body first. The protocol of the server
    collects the body of a review itself, and calls `answer` without ASGI around it.
    `fleethook.server.reviews.review_endpoint` answers reviews.

    Attributes:
        metrics: Counts the requests in flight.
        bodies: The memory that all bodies share.
        body_limit: Bytes of the largest body that is read.
        missing: Returns the objects that answers depend on and the server has not read yet, with the reasons, ``""``
            once all are read; None if there are none. A refusal for that reason has no Retry-After: with this header,
            an apiserver's client would repeat the request until its timeout, and the write would hang that long.
    """

    max_at_once: int = 0
    """Maximum bytes of a body that the protocol passes to `answer`; 0 to have all bodies read by ASGI."""

    def __init__(
        self,
        path: str,
        *,
        metrics: Metrics,
        body_limit: int,
        known_clients_only: bool = False,
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
            bodies: The memory that all bodies share; None for no limit.
        """
        self.metrics: Final = metrics
        self.bodies: Final = bodies or BodyBudget(sys.maxsize)
        self.missing: Callable[[], str] | None = None
        self._path: Final = path
        self.body_limit: Final = body_limit
        self._known_clients_only: Final = known_clients_only
        self._worker: Final = worker or Worker()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request, as an ASGI app."""
        if scope["method"] != "POST":
            body = encode_error(405, "MethodNotAllowed", f"{self._path} takes POST, not {scope['method']}")
            await send_reply(send, Reply(405, body, ((b"allow", b"POST"),)))
            return
        self.metrics.in_flight += 1
        charge = scope[CHARGE] = self.charge(scope, client_of(scope.get("client")))
        try:
            await send_reply(send, await self._read_and_answer(scope, receive, charge))
        except ClientGoneError:
            return
        finally:
            self.metrics.in_flight -= 1
            charge.give_back()

    def admit(self, scope: Scope) -> None:
        """Check the head of a request, before its body is read; raises RequestError."""
        if self.missing is not None:
            if problem := self.missing():
                raise RequestError(503, "ServiceUnavailable", f"{problem}; {SWITCH_OFF_HINT}")
            self.missing = None
        self._check_caller(scope)
        if REQUEST_ID not in scope:
            scope[REQUEST_ID] = check_headers(scope["headers"], limit=self.body_limit)

    def charge(self, scope: Scope, client: str) -> BodyCharge:
        """Return a charge for the body of a request; ``client`` is the address of the caller."""
        consumer = self._find_consumer(scope)
        return BodyCharge(self.bodies, name_account(consumer) if consumer else client)

    @abstractmethod
    def answer(self, scope: Scope, body: bytes) -> Answered:
        """Answer a body, at once if that needs no waiting.

        Args:
            scope: The request. A request by HTTP has passed `admit`.
            body: The complete body.
        """

    async def _read_and_answer(self, scope: Scope, receive: Receive, charge: BodyCharge) -> Reply:
        """Read a body and return its answer; raises ClientGoneError."""
        try:
            self.admit(scope)
            body = await read_body(receive, limit=self.body_limit, charge=charge)
        except RequestError as error:
            return refuse(error)
        return await finish(self.answer(scope, body))

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


def refuse(error: RequestError) -> Reply:
    """Return the answer to a refused request."""
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
