"""The errors of calls, with client-go's messages, and the log lines about calls that fail.

Upstream: k8s.io/client-go/rest/request.go.
"""

import asyncio
import logging
import socket
import ssl
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any, Final

import aiohttp
import msgspec
from aiohttp.http_exceptions import LineTooLong
from yarl import URL

from fleethook.model.formats.text import escape_line
from fleethook.model.json import JSON, as_object
from fleethook.outbound.certificate_trust import UntrustedError
from fleethook.outbound.private_addresses_and_proxies import PrivateAddressError


class CallError(Exception):
    """A call without a usable response; the text gives the reason and never contains the request."""

    def __init__(self, reason: str, *, code: int = 0, timed_out: bool = False, cut_short: bool = False) -> None:
        """Prepare.

        Args:
            reason: The reason of the failure.
            code: The HTTP status of the response, 0 without a response.
            timed_out: Whether the deadline has passed.
            cut_short: Whether the caller's deadline has passed before the webhook's own timeout.
        """
        super().__init__(f"failed to call webhook: {reason}")
        self.reason: Final = reason
        self.code: Final = code
        self.timed_out: Final = timed_out
        self.cut_short: Final = cut_short


class NotCalledError(CallError):
    """The call was not made, so the error is no evidence about the webhook."""


class OverloadedError(NotCalledError):
    """This server had no capacity for the call: neither a failure of the webhook nor a verdict."""


def posting(url: URL | str, reason: str) -> str:
    """Return a reason with the called URL before it, in the form of Go's ``url.Error``."""
    return f"Post {quoted(str(url))}: {reason}"


def quoted(text: str) -> str:
    """Return ``text`` in quotation marks, escaped."""
    return '"' + escape_line(text.replace("\\", "\\\\").replace('"', '\\"')) + '"'


_MAX_SHOWN: Final = 300
# OpenSSL reports this in each handshake, even if it does not verify certificates.
_TLS: Final = {
    "BAD_ECC_CERT": "the key usage of its ECDSA certificate lacks digitalSignature, which OpenSSL requires with TLS "
    "1.2: allow TLS 1.3 on the webhook's server, or issue another certificate"
}
_UNVERIFIED: Final = "tls: failed to verify certificate"


def private_address_in(error: BaseException) -> str | None:
    """Return the private address that an error refused, None for other errors."""
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    return cause.address if isinstance(cause, PrivateAddressError) else None


def make_timeout_error(url: URL, *, cut_short: bool) -> CallError:
    """Return the error for a call whose time is over; ``cut_short`` is that of `CallError`."""
    return CallError(posting(url, "context deadline exceeded"), timed_out=True, cut_short=cut_short)


def describe_error(error: Exception, url: URL) -> str:
    """Return the description of an error in one line.

    Args:
        error: An error of aiohttp or the system.
        url: The URL of the call.
    """
    match error:
        case aiohttp.ClientConnectorError():
            return _describe_connect(error, url)
        case aiohttp.ServerDisconnectedError():
            return "EOF: the server closed the connection without a response"
        case aiohttp.ClientResponseError():
            return _describe_malformed(error)
        case aiohttp.ClientPayloadError():
            return "unexpected EOF: the response is truncated or malformed"
        case _:
            return _describe_other(error)


def _describe_connect(error: aiohttp.ClientConnectorError, url: URL) -> str:
    match error:
        case aiohttp.ClientConnectorCertificateError():
            return _describe_certificate(error.certificate_error, error.host)
        case aiohttp.ClientConnectorDNSError():
            return _describe_lookup(error.os_error, error.host)
        case _:
            return _describe_dial(error.os_error, url)


def _describe_certificate(error: Exception, host: str) -> str:
    if isinstance(error, UntrustedError):
        # A host may present a chain of any length, and names of any size.
        problem = str(error)[:_MAX_SHOWN].removeprefix("x509: ")
        return problem if problem.startswith("tls: ") else f"{_UNVERIFIED} of {escape_line(host)}: x509: {problem}"
    return f"{_UNVERIFIED} of {escape_line(host)}: x509: {_describe_other(error)}"


def _describe_lookup(error: OSError, host: str) -> str:
    unknown = isinstance(error, socket.gaierror) and error.errno in (socket.EAI_NONAME, socket.EAI_NODATA)
    return f"lookup {escape_line(host)}: {'no such host' if unknown else _describe_other(error)}"


def _describe_dial(error: OSError, url: URL) -> str:
    if isinstance(error, ssl.SSLError):
        reason = _TLS.get(error.reason) or (error.reason or str(error)).replace("_", " ").lower()
        return f"tls: {escape_line(reason)}"
    where = f"dial tcp {escape_line(url.host or '')}:{url.port}"
    if isinstance(error, ConnectionRefusedError):
        return f"{where}: connect: connection refused"
    return f"{where}: {_describe_other(error)}"


def _describe_malformed(error: aiohttp.ClientResponseError) -> str:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, LineTooLong):
            return "the response headers are too large"
        cause = cause.__cause__
    return f"malformed HTTP response: {escape_line(' '.join(error.message.split()))[:_MAX_SHOWN]}"


def _describe_other(error: BaseException) -> str:
    text = str(error) or type(error).__name__
    if isinstance(error, OSError) and error.strerror:
        # Go prints messages of the system in lower case.
        text = error.strerror.lower()
    return escape_line(text)[:_MAX_SHOWN]


# client-go shows this many bytes of an unreadable body.
_MAX_SHOWN_BYTES: Final = 2048


def _excerpt(body: bytes) -> str:
    """Return the beginning of a body as text, not escaped."""
    return body[:_MAX_SHOWN_BYTES].decode("utf-8", "replace").strip()


# apimachinery's NewGenericServerResponse, for a POST.
_GENERIC: Final = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    409: "the server reported a conflict",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, but may still be processing the request",
}
# For these statuses client-go reports the body.
_REPORTED_BY_BODY: Final = (403, 406)


def describe_redirect(url: URL, location: str) -> str:
    """Return why a redirect is not followed (CVE-2020-8561). It shows only the host: the path may be secret."""
    try:
        target = url.join(URL(location))
        where = f"{target.scheme}://{target.raw_authority.rpartition('@')[2]}"
    except ValueError:
        where = "an invalid URL"
    return f"redirect to {escape_line(where)} refused: webhooks must answer themselves"


def _read_status_message(body: bytes) -> str:
    """Return the message of a failure ``metav1.Status``, ``""`` if the body is no such Status or has no message."""
    try:
        status: JSON = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""
    members = as_object(status)
    message = members.get("message")
    known = members.get("kind") == "Status" and members.get("apiVersion") == "v1"
    if not known or members.get("status") == "Success" or not isinstance(message, str):
        return ""
    return escape_line(_excerpt(message.encode("utf-8", "replace")))


def describe_status(code: int, body: bytes) -> str:
    """Return the description of a status that is an error: the message of its body, or client-go's."""
    if message := _read_status_message(body):
        return message
    if code in _GENERIC:
        return _GENERIC[code]
    if code in _REPORTED_BY_BODY and body:
        return escape_line(_excerpt(body))
    if code >= 500:
        return (
            f"an error on the server ({quoted(_excerpt(body) or 'unknown')}) has prevented the request from succeeding"
        )
    return f"the server responded with the status code {code} but did not return more information"


_log: Final = logging.getLogger(__name__)
_LOG_SECONDS: Final = 60.0
_MAX_LINES: Final = 1_000
_MAX_LINES_EACH: Final = 20


class FailureLog:
    """Logs errors that tenants or callers cause: one line for each key and minute, with the number of errors since.

    In a minute, an owner of keys gets 20 lines and all owners get 1,000, so that no owner hides the errors of others.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Prepare; ``clock`` returns seconds."""
        self._clock: Final = clock
        self._logged: Final[OrderedDict[tuple[str, str], tuple[float, int]]] = OrderedDict()
        self._lines: Final[Counter[str]] = Counter()

    def note(self, owner: str, key: str, text: str, **fields: str) -> None:
        """Log an error, unless a line about the key is less than a minute old; the next line counts it.

        Args:
            owner: Causes the error: a logical cluster, or an address.
            key: Identifies the cause, for example one of the owner's webhooks.
            text: The error, on one line.
            fields: Further fields of the line.
        """
        now = self._clock()
        while self._logged and next(iter(self._logged.values()))[0] <= now - 2 * _LOG_SECONDS:
            (forgotten, _), _ = self._logged.popitem(last=False)
            self._lines[forgotten] -= 1
            if not self._lines[forgotten]:
                del self._lines[forgotten]
        since, further = self._logged.get((owner, key), (None, 0))
        if since is None:
            if len(self._logged) >= _MAX_LINES or self._lines[owner] >= _MAX_LINES_EACH:
                return
            self._lines[owner] += 1
        elif now < since + _LOG_SECONDS:
            self._logged[owner, key] = since, further + 1
            return
        self._logged[owner, key] = now, 0
        self._logged.move_to_end((owner, key))
        more = f" ({further} more errors since the last line)" if further else ""
        _log.warning("%s%s", text, more, extra={"fields": fields} if fields else None)


def log_loop_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log an exception of the event loop. One of a connection gets no traceback, because the call reports it, too.

    The arguments are those of ``loop.set_exception_handler``.
    """
    error = context.get("exception")
    is_fault = isinstance(error, OSError | aiohttp.ClientError)
    # uvloop raises RuntimeError if it writes to a transport that the peer has closed.
    if is_fault or (isinstance(error, RuntimeError) and not context.keys().isdisjoint({"transport", "protocol"})):
        _log.debug("a connection failed: %s: %s", context.get("message", ""), error)
    else:
        loop.default_exception_handler(context)
